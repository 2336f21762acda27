"""The refusals of new objects by the API server."""

from __future__ import annotations


class Rejection(Exception):  # noqa: N818 - a verdict, not an error; it never leaves admission
    """A pod that an admission plugin forbids; the message is the plugin's."""


class Refusal(Rejection):
    """An object that is refused with a complete message: not found, or invalid."""
