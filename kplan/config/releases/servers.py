"""Notes about releases that kplan only partly knows, and about servers of unknown versions."""

from __future__ import annotations

from typing import Final

from kplan.config.releases.model import Release

#: Minor -> scheduling gates that are on by default from it on, for minors older than the known ones.
_ON_SINCE: Final[dict[int, tuple[str, ...]]] = {
    26: ("NodeInclusionPolicyInPodTopologySpread",),
    27: ("MatchLabelKeysInPodTopologySpread", "PodSchedulingReadiness"),
    29: ("SidecarContainers",),
    31: ("MatchLabelKeysInPodAffinity",),
    32: ("SchedulerQueueingHints",),
    33: ("InPlacePodVerticalScaling", "SchedulerAsyncPreemption", "SchedulerPopFromBackoffQ"),
}


#: Minor -> what is known to differ in it from the minor before, for minors newer than the known ones.
_KNOWN_TO_DIFFER: Final[dict[int, str]] = {
    38: (
        "the feature gates MatchLabelKeysInPodAffinity, PodSchedulingReadiness and DynamicResourceAllocation are gone, "
        "and an extender may answer a preemption with empty lists of victims"
    ),
}


def release_notes(release: Release) -> list[str]:
    """List what to beware of in the answers of a release; empty for one that was compared with its own code."""
    notes = []
    if release.stands_for is not None:
        notes.append(f"1.{release.stands_for} is decided as {release.minor}; {_unknown(release.stands_for, release)}")
    if not release.is_compared:
        notes.append(
            f"the rules of {release.minor} are those of its release notes, and were not compared with its own code"
        )
    return notes


def _unknown(minor: int, release: Release) -> str:
    """Return what may differ in a minor newer than the known ones."""
    known = [text for number, text in sorted(_KNOWN_TO_DIFFER.items()) if release.number < number <= minor]
    unknown = f"what v1.{release.number + 1} and later changed is not known here"
    return f"{unknown}, except that {'; '.join(known)}" if known else unknown


def on_since(minor: int, release: Release) -> list[str]:
    """List the gates that are on by default in a release and were not in an older minor, each with its minor."""
    return [
        f"{gate} ({release.minor.partition('.')[0]}.{since})"
        for since, gates in sorted(_ON_SINCE.items())
        if minor < since <= release.number
        for gate in gates
    ]


def version_note(git_version: str, minor: int | None, release: Release) -> str:
    """Return what may differ on a server of an unknown minor; empty for a known one.

    Parameters
    ----------
    minor : that of the server's version; None where it does not parse
    release : the nearest release
    """
    decides = f"the server is {git_version}, and kplan decides as kube-scheduler v{release.minor}"
    if minor is None:
        return decides
    if minor == release.number:
        return ""
    if minor > release.number:
        return f"{decides}, the nearest that it knows: {_unknown(minor, release)}"
    newer = ", ".join(on_since(minor, release))
    return (
        f"{decides}, the nearest that it knows; these gates count as on, though later versions turned them on: {newer}"
    )
