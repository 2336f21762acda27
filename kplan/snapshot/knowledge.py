"""What a snapshot cannot know: kinds that were not to be had, and rules of a version that kplan does not model."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kplan.snapshot.model import MissingKind, Snapshot, Warning  # noqa: A004 - the contract's word

__all__ = ["MODELLED_MINOR", "knowledge_warnings", "parse_minor", "version_note"]

#: The minor version of Kubernetes 1 whose scheduler kplan models.
MODELLED_MINOR = 36

#: Minor version to the gates that decide and are on by default from there on (pkg/features/kube_features.go, v1.36).
_ON_SINCE: dict[int, tuple[str, ...]] = {
    26: ("NodeInclusionPolicyInPodTopologySpread",),
    27: ("MatchLabelKeysInPodTopologySpread", "PodSchedulingReadiness"),
    29: ("SidecarContainers",),
    31: ("MatchLabelKeysInPodAffinity",),
    32: ("SchedulerQueueingHints",),
    33: ("InPlacePodVerticalScaling", "SchedulerAsyncPreemption", "SchedulerPopFromBackoffQ"),
    34: (
        "DynamicResourceAllocation",
        "DRAAdminAccess",
        "DRAPrioritizedList",
        "DRASchedulerFilterTimeout",
        "PodLevelResources",
        "MatchLabelKeysInPodTopologySpreadSelectorMerge",
    ),
    35: (
        "MutableCSINodeAllocatableCount",
        "NominatedNodeNameForExpectation",
        "OpportunisticBatching",
        "PodTopologyLabelsAdmission",
    ),
    36: (
        "DRAConsumableCapacity",
        "DRADeviceBindingConditions",
        "DRADeviceTaints",
        "DRAExtendedResource",
        "DRAPartitionableDevices",
        "InPlacePodLevelResourcesVerticalScaling",
        "NodeDeclaredFeatures",
    ),
}


def knowledge_warnings(snapshot: Snapshot) -> Iterator[Warning]:
    """Yield a warning for each kind that is missing, and for a server of another version."""
    if snapshot.server_version and (note := version_note(snapshot.server_version)):
        yield Warning("ServerVersion", snapshot.server_version, note)
    yield from map(missing_warning, snapshot.missing)


def missing_warning(kind: MissingKind) -> Warning:
    """Say what it means that a kind, or a part of it, could not be read."""
    blind = f"; blind without them: {', '.join(kind.blinds)}" if kind.blinds else ""
    return Warning("MissingKind", kind.resource, f"not all could be read ({kind.reason}){blind}")


def parse_minor(git_version: str) -> int | None:
    """Return the minor number of a version such as ``v1.36.2-gke.100``; None when it is not one of Kubernetes 1."""
    match = re.match(r"v?1\.(\d+)", git_version)
    return int(match.group(1)) if match else None


def version_note(git_version: str) -> str:
    """Say what may differ on a server of this version; empty when it is the modelled one."""
    minor = parse_minor(git_version)
    if minor == MODELLED_MINOR:
        return ""
    decides = (
        f"the server is {git_version or 'of unknown version'}, and kplan decides as kube-scheduler v1.{MODELLED_MINOR}"
    )
    if minor is None:
        return decides
    if minor > MODELLED_MINOR:
        return f"{decides}: what v1.{MODELLED_MINOR + 1} and later changed or turned on is not known here"
    newer = [f"{gate} (v1.{since})" for since in sorted(_ON_SINCE) if since > minor for gate in _ON_SINCE[since]]
    return f"{decides}; taken as on, though later versions turned it on by default: {', '.join(newer)}"
