"""Features of objects that kplan does not model."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnmodelledFeature:
    """A feature that an object uses and that kplan, or the reference scheduler with default gates, ignores."""

    object: str
    feature: str
    message: str
