"""Notes about servers of unknown versions: the nearest known release, and what may differ."""

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
        return f"{decides}, the nearest that it knows: what v1.{release.number + 1} and later changed is not known here"
    newer = ", ".join(on_since(minor, release))
    return (
        f"{decides}, the nearest that it knows; these gates count as on, though later versions turned them on: {newer}"
    )
