"""Nodes beside their columns: the group or claim that they belong to, and which are still being set up."""

from __future__ import annotations

import dataclasses
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from kplan.api.affinity import Taint
from kplan.api.core import Node, Pod
from kplan.api.provisioning import NodeClaim
from kplan.api.time import to_micros
from kplan.snapshot.model import Snapshot

_EKS = r"(?P<short>eks-.+)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ZONE = r"/zones/(?P<zone>[^/]+)/"
_OTHER = r"[^a-z0-9]+"
_MOST_LETTERS = 200
"""Of a node's name at most so much is the group's: 253 letters are allowed in all."""


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
    return tuple(
        claim for claim in claims if claim.status.node_name not in names and claim.status.provider_id not in machines
    )


def without_published(snapshot: Snapshot, gone: Iterable[Node]) -> Snapshot:
    """Return a cluster without what is about nodes that are gone for good: their claims, devices and volume limits."""
    nodes = list(gone)
    names = {node.metadata.name for node in nodes}
    return dataclasses.replace(
        snapshot,
        node_claims=claims_left(snapshot.node_claims, nodes),
        resource_slices=tuple(one for one in snapshot.resource_slices if one.spec.node_name not in names),
        csi_nodes=tuple(one for one in snapshot.csi_nodes if one.metadata.name not in names),
    )


_STARTS_WITHIN = 15 * 60 * 1_000_000
"""A node that is older is not starting any more; Karpenter gives up a node that has not registered for so long."""

_HANGS_AFTER = 2 * 60 * 1_000_000
"""The deletion timestamp is when the grace period is over; a kubelet that works needs seconds more."""

_KEYS = frozenset({"node.cloudprovider.kubernetes.io/uninitialized", "karpenter.sh/unregistered"})
_OF_YOUNG = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/network-unavailable"})
"""What an old node has when it is broken: these count only where the age of the node is known."""

_PREFIXES = (
    "startup-taint.cluster-autoscaler.kubernetes.io/",
    "ignore-taint.cluster-autoscaler.kubernetes.io/",
    "readiness.k8s.io/",
)
_AGENTS = "/agent-not-ready"
"""What CSI and network drivers end the keys of taints with that they take away once they run on the node."""


def moment_of_snapshot(snapshot: Snapshot) -> int:
    """Return when a snapshot was taken, in microseconds since 1970; the latest time that it names if unknown."""
    times: list[str | None] = [snapshot.taken_at]
    if snapshot.taken_at is None:
        times += [pod.metadata.creation_timestamp for pod in snapshot.pods]
        for node in snapshot.nodes:
            times.append(node.metadata.creation_timestamp)
            times += [condition.last_transition_time for condition in node.status.conditions]
    return max(_known(times), default=0)


def _known(times: Iterable[str | None]) -> Iterator[int]:
    for time in times:
        try:
            yield 0 if time is None else to_micros(time)
        except ValueError:
            continue


def ends_soon(pod: Pod, moment: int) -> bool:
    """Return whether a pod that is being deleted may still end by itself: it does not hang since its grace is over."""
    times = list(_known([pod.metadata.deletion_timestamp]))
    return bool(times) and moment - times[0] < _HANGS_AFTER


def starting_taints(node: Node, snapshot: Snapshot, moment: int) -> frozenset[str]:
    """Return the keys of taints that a node has only while it is set up; none of a node that is old or going away.

    Parameters
    ----------
    moment : when that is, in microseconds since 1970
    """
    created = max(_known([node.metadata.creation_timestamp]), default=0)
    if node.metadata.deletion_timestamp is not None or (created and moment - created > _STARTS_WITHIN):
        return frozenset()
    keys = {taint.key for taint in node.spec.taints if _is_for_start(taint)}
    if created:
        keys |= {taint.key for taint in node.spec.taints if taint.key in _OF_YOUNG}
    pool = node.metadata.labels.get("karpenter.sh/nodepool")
    if pool:
        templates = (held.spec.template.spec for held in snapshot.node_pools if held.metadata.name == pool)
        own = {(taint.key, taint.effect) for template in templates for taint in template.startup_taints}
        keys |= {taint.key for taint in node.spec.taints if (taint.key, taint.effect) in own}
    return frozenset(keys)


def _is_for_start(taint: Taint) -> bool:
    return taint.key in _KEYS or taint.key.startswith(_PREFIXES) or taint.key.endswith(_AGENTS)
