"""How an admission plugin says no."""

from __future__ import annotations

__all__ = ["Rejection"]


class Rejection(Exception):  # noqa: N818 - an answer, not a fault; it never leaves this room
    """A pod that the API server would not store; the message is the plugin's."""
