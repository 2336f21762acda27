"""Features of objects that kplan does not model."""

from __future__ import annotations

import msgspec


class UnmodelledFeature(msgspec.Struct, frozen=True):
    """A feature that an object uses and that kplan, or the reference scheduler with default gates, ignores."""

    object: str
    feature: str
    message: str
