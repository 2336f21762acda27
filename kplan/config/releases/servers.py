"""Servers of versions that are not known here: the nearest known one, and what may differ there."""

from __future__ import annotations

from typing import Final

from kplan.config.releases.model import Release

#: Minor before the oldest known one -> the gates that decide and are on by default from there on.
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
    """Say what may differ on a server that no known release stands for; empty where one does.

    Parameters
    ----------
    minor : of the server's version; None when that says none
    release : the one that is taken instead
    """
    decides = f"the server is {git_version}, and kplan decides as kube-scheduler v{release.minor}"
    if minor is None:
        return decides
    if minor == release.number:
        return ""
    if minor > release.number:
        return f"{decides}, the nearest that it knows: what v1.{release.number + 1} and later changed is not known here"
    newer = on_since(minor, release)
    return f"{decides}, the nearest that it knows; taken as on, though later versions turned it on: {', '.join(newer)}"
