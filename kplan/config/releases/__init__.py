"""The Kubernetes minors whose scheduler kplan follows, and which of them a version is.

Where a docstring in kplan says "Upstream: FILE", it means the sources at the tag of the reference release,
`reference().source`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from msgspec import structs

from kplan.api.core import parse_version
from kplan.config.releases import minors
from kplan.config.releases.model import HEAP, Gate, Release, parse_gates, with_gates
from kplan.errors import UsageError

__all__ = ["HEAP", "Gate", "Release", "parse_gates", "with_gates"]

AUTO: Final = "auto"  #: the release of the snapshot's server


def releases() -> tuple[Release, ...]:
    return minors.RELEASES


def known_minors() -> tuple[str, ...]:
    return tuple(release.minor for release in releases())


def newest() -> Release:
    return releases()[-1]


def reference() -> Release:
    """Return the newest release that was compared with its own code; it decides where no release is known."""
    return next(release for release in reversed(releases()) if release.is_compared)


def release_of(text: str) -> Release:
    """Return the release of a version such as ``1.34`` or ``v1.34.1``; without a patch, its newest patch.

    A minor after the newest known one is that one, which says for which it stands.

    Raises UsageError when it is no version, or not a known one.
    """
    version = parse_version(text)
    known = f"kplan decides as {', '.join(known_minors())}"
    if version is None:
        hint = f"write a minor such as {reference().minor}; {known}"
        raise UsageError(f"{text!r} is not a Kubernetes version", hint=hint)
    minor, patch = version
    for release in releases():
        if release.number == minor:
            return release.at_patch(patch)
    if minor > newest().number:
        return structs.replace(newest(), stands_for=minor)
    raise UsageError(f"Kubernetes 1.{minor} is not supported", hint=f"{known}; auto takes the nearest")


def chosen_release(text: str | None, gates: Mapping[str, bool]) -> Release | None:
    """Return the release of a version with feature gates set, None for AUTO; raises UsageError where there is none."""
    return None if text in (None, AUTO) else with_gates(release_of(text), gates)


def nearest(git_version: str | None) -> Release:
    """Return the release nearest to a server's version; the reference for an unknown version."""
    version = parse_version(git_version or "")
    if version is None:
        return reference()
    minor, patch = version
    number = min(max(minor, releases()[0].number), newest().number)
    release = next(known for known in reversed(releases()) if known.number <= number)
    return release.at_patch(patch) if release.number == minor else release
