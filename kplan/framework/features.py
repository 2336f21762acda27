"""What objects ask for that is not taken into account."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class UnmodelledFeature:
    """Something that an object asks for and kplan, or the reference scheduler with default gates, does not honour."""

    object: str
    feature: str
    message: str
