"""How the API server says no to a new object."""

from __future__ import annotations


class Rejection(Exception):  # noqa: N818 - an answer, not a fault; it never leaves this room
    """A pod that an admission plugin forbids; the message is the plugin's."""


class Refusal(Rejection):
    """An object that is refused in words that name it themselves: not found, or invalid."""
