"""Nodes beside their columns: the group or claim that they belong to, and pods that leave them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from msgspec.structs import replace

from kplan.api.affinity import NO_SCHEDULE, Taint
from kplan.api.core import Node, Pod
from kplan.api.labels import UNSCHEDULABLE
from kplan.api.provisioning import NodeClaim
from kplan.api.time import seconds
from kplan.snapshot.model import Snapshot

UNSCHEDULABLE_TAINT = Taint(key=UNSCHEDULABLE, effect=NO_SCHEDULE)
"""The taint that a pod must tolerate to run on a cordoned node, whether or not the node has it yet."""

_EKS = r"(?P<short>eks-.+)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ZONE = r"/zones/(?P<zone>[^/]+)/"
_OTHER = r"[^a-z0-9]+"
_MOST_LETTERS = 200  #: of a node's name at most so much is the group's: 253 letters are allowed in all

_HANGS_AFTER = 2 * 60.0
"""The deletion timestamp is when the grace period is over; a kubelet that works needs seconds more."""


def cordoned(node: Node, *, is_cordoned: bool = True) -> Node:
    """Return a node cordoned or uncordoned, with or without the taint that the node lifecycle controller gives it.

    Upstream: pkg/controller/nodelifecycle/node_lifecycle_controller.go doNoScheduleTaintingPass.
    """
    others = tuple(taint for taint in node.spec.taints if taint.key != UNSCHEDULABLE)
    taints = (*others, UNSCHEDULABLE_TAINT) if is_cordoned else others
    return replace(node, spec=replace(node.spec, unschedulable=is_cordoned, taints=taints))


def short_group_name(name: str) -> str:
    """Return a group's name without the words that machines need.

    These are the path before the last slash (GKE has addresses of instance groups, Cluster API has
    ``KIND/NAMESPACE/NAME``) and the identifier that EKS appends.
    """
    last = name.rstrip("/").rpartition("/")[2] or name
    eks = re.fullmatch(_EKS, last)
    return last if eks is None else eks["short"]


def short_group_names(names: Iterable[str]) -> dict[str, str]:
    """Return the short names of groups that are shown together, with their zones where two would be called alike."""
    shorts = {name: short_group_name(name) for name in names}
    times = Counter(shorts.values())
    return {name: short if times[short] == 1 else _with_zone(name, short) for name, short in shorts.items()}


def _with_zone(name: str, short: str) -> str:
    zone = re.search(_ZONE, name)
    return name if zone is None else f"{short} of {zone['zone']}"


def as_part_of_node_name(group: str) -> str:
    """Return a group's short name in the letters that are allowed in the name of a node."""
    words = re.sub(_OTHER, lambda match: "." if match[0] == "." else "-", short_group_name(group).lower())
    return words[:_MOST_LETTERS].strip("-.") or "group"


def claims_left(claims: Iterable[NodeClaim], gone: Iterable[Node]) -> tuple[NodeClaim, ...]:
    """Return the claims that stay when nodes are gone for good: Karpenter deletes a claim with its node.

    A node waits for Karpenter to finish its deletion, which begins with the claim's.

    Upstream: karpenter pkg/controllers/node/termination/controller.go finalize.
    """
    nodes = list(gone)
    names = {node.metadata.name for node in nodes}
    machines = {node.spec.provider_id for node in nodes if node.spec.provider_id}
    return tuple(one for one in claims if one.status.node_name not in names and one.status.provider_id not in machines)


def without_published(snapshot: Snapshot, gone: Iterable[Node]) -> Snapshot:
    """Return a cluster without what is about nodes that are gone for good: their claims, devices and volume limits."""
    nodes = list(gone)
    names = {node.metadata.name for node in nodes}
    return replace(
        snapshot,
        node_claims=claims_left(snapshot.node_claims, nodes),
        resource_slices=tuple(one for one in snapshot.resource_slices if one.spec.node_name not in names),
        csi_nodes=tuple(one for one in snapshot.csi_nodes if one.metadata.name not in names),
    )


def ends_soon(pod: Pod, now: float | None) -> bool:
    """Return whether a pod that is being deleted may still end by itself at `now`, in seconds since 1970 or None."""
    deleted_at = seconds(pod.metadata.deletion_timestamp)
    return deleted_at is not None and (now is None or now - deleted_at < _HANGS_AFTER)
