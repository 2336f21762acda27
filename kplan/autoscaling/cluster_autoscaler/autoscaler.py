"""The cluster-autoscaler behind the seam: one look, or loop after loop in a cluster in motion, and larger groups."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Self

from msgspec.structs import replace

from kplan.api.affinity import NO_SCHEDULE, Taint
from kplan.api.core import Node
from kplan.api.labels import BETA_INSTANCE_TYPE, BETA_ZONE, INSTANCE_TYPE, TO_BE_DELETED, ZONE
from kplan.api.provisioning import EMPTY, UNDERUTILIZED
from kplan.api.quantity import count, grouped
from kplan.autoscaling import seam
from kplan.autoscaling.cluster_autoscaler.detail import detail_of
from kplan.autoscaling.cluster_autoscaler.finding import POOL_LABELS, Setup, cloud_of
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup, groups_by_node
from kplan.autoscaling.cluster_autoscaler.loop import GPU_BUFFER, LoopResult, Loops
from kplan.autoscaling.cluster_autoscaler.nodes import is_to_be_deleted, marked
from kplan.autoscaling.cluster_autoscaler.pods import bound, created
from kplan.autoscaling.cluster_autoscaler.scale_down import NOT_UNDERUTILIZED, RECENTLY_UNREMOVABLE
from kplan.autoscaling.cluster_autoscaler.scale_up import FAILED, LIMITED, SUCCESSFUL, ScaleUp
from kplan.autoscaling.cluster_autoscaler.setup import content_of, setup_of  # noqa: F401 - see settings
from kplan.autoscaling.cluster_autoscaler.templates import TEMPLATE_LABEL, Remembered, Template, templates_seen
from kplan.autoscaling.settings import ClusterAutoscaler
from kplan.changes.limits import GroupSize, Pool
from kplan.documents.nodes import AddedNode, AutoscalerName, KeptNode, RemovedNodes
from kplan.facts import InputWarning
from kplan.rules.nodes import as_part_of_node_name
from kplan.snapshot.model import Snapshot

IN_COOLDOWN = "ScaleDownInCooldown"

_SPOT = (
    ("eks.amazonaws.com/capacityType", "SPOT"),
    ("cloud.google.com/gke-spot", "true"),
    ("cloud.google.com/gke-preemptible", "true"),
    ("kubernetes.azure.com/scalesetpriority", "spot"),
)


def advice_of(
    snapshot: Snapshot, setup: Setup, results: Sequence[LoopResult], used_names: Iterable[str] = ()
) -> seam.Advice:
    """Return the advice of some loops; new nodes get no name of nodes in the snapshot, and none of `used_names`."""
    adds = tuple(_adds(results, setup, seam.Namer({*snapshot.node_by_name, *used_names})))
    all_events = (event for result in results for event in (*result.events, *result.group_events))
    warnings = (InputWarning(reason, "cluster-autoscaler", text) for reason, text in all_events)
    existing = grouped((node, name) for name, node in results[0].filtered.placements.items())
    removals = [(known, result.at) for result in results for known in result.scale_down.removed]
    gone = {known.node.metadata.name for known, _ in removals}
    prices = setup.prices_of(snapshot.nodes)
    removed = (
        RemovedNodes(
            nodes=(known.node.metadata.name,),
            reason=UNDERUTILIZED if known.move.pods else EMPTY,
            replacements=(),
            moves=known.placements,
            saves=prices.get(known.node.metadata.name),
            after=at,
        )
        for known, at in removals
    )
    scale_ups = results[-1].scale_ups
    failed = (outcome for outcome in scale_ups if outcome.result not in (SUCCESSFUL, FAILED))
    return seam.Advice(
        adds=adds,
        existing={node: tuple(names) for node, names in existing.items()},
        unhelped=partial(_words_of, scale_ups, setup),
        could_help=lambda: {pod: tuple(own) for one in scale_ups for pod, own in one.could_help().items()},
        events={pod.pod.metadata.key: pod.event_text for outcome in failed for pod in outcome.unhelped},
        removes=tuple(map(seam.NodeRemoval, removed)),
        stays=dict(_stays(snapshot, setup, results, gone)),
        price=seam.prices_around(prices, adds, gone),
        warnings=(*setup.warnings, *warnings),
        detail=partial(detail_of, snapshot, results),
    )


def _words_of(scale_ups: Iterable[ScaleUp], setup: Setup) -> dict[str, dict[str, tuple[str, ...]]]:
    """Return pod -> group -> why it does not help, those first that could; under "" what keeps all groups from it."""
    words: dict[str, dict[str, tuple[str, ...]]] = {}
    for outcome in scale_ups:
        could_help, of_all = outcome.could_help(), outcome.error or "there is no node group"
        if outcome.result == LIMITED:
            most = count(setup.options.max_nodes_total, "node")
            of_all = f"the cluster may have {most} at most (max-nodes-total)"
        for unhelped in outcome.unhelped:
            pod = unhelped.pod.metadata.key
            skipped = {name: (why.words,) for name, why in unhelped.skipped.items()}
            first = {name: skipped[name] for name in could_help.get(pod, ()) if name in skipped}
            words[pod] = (first | skipped | dict(unhelped.rejected)) or {"": (of_all,)}
    return words


def _adds(results: Iterable[LoopResult], setup: Setup, namer: seam.Namer) -> Iterator[seam.NewNode]:
    for templates, outcome in ((loop.templates, outcome) for loop in results for outcome in loop.scale_ups):
        choice = outcome.choice
        tied = () if choice is None else choice.tied
        waiting = iter(() if choice is None else choice.best.placement)
        for group, number in ((growth.group, growth.wanted - growth.current) for growth in outcome.growths):
            others = tuple(name for name in tied if name != group.name)
            for _ in range(number):
                _, pods = next(waiting, ("", []))
                new = _new_node(templates[group.name], namer.name(as_part_of_node_name(group.name)), group, setup)
                keys = tuple(pod.metadata.key for pod in pods)
                yield replace(new, facts=replace(new.facts, pods=keys, options=others))


def _new_node(template: Template, name: str, group: NodeGroup, setup: Setup) -> seam.NewNode:
    node, daemons = template.node_named(name)
    labels = {key: text for key, text in node.metadata.labels.items() if key != TEMPLATE_LABEL}
    return seam.NewNode(
        node=replace(node, metadata=replace(node.metadata, labels=labels)),
        daemons=tuple(bound(pod, name) for pod in daemons),
        objects=tuple(template.objects_of(name)),
        facts=AddedNode(
            name=name,
            group=group.name,
            instance_type=labels.get(INSTANCE_TYPE) or labels.get(BETA_INSTANCE_TYPE, ""),
            zone=labels.get(ZONE) or labels.get(BETA_ZONE, ""),
            capacity_type="spot" if any(labels.get(key) == text for key, text in _SPOT) else "",
            price=setup.price(node, group),
            pods=(),
            options=(),
        ),
    )


def _stays(
    snapshot: Snapshot, setup: Setup, results: Sequence[LoopResult], gone: set[str]
) -> Iterator[tuple[str, KeptNode]]:
    """Yield why each node that is not removed stays, in the order of the nodes."""
    group_of, last = setup.group_of, results[-1]
    stays: dict[str, KeptNode] = {}
    for result in results:
        for name, stay in result.scale_down.stays.items():
            # A node that was found to stay is not looked at again for some time: the reason is that of the first look.
            if stay.reason == RECENTLY_UNREMOVABLE and name in stays:
                continue
            stays[name] = stay
            used = result.scale_down.utilization.get(name)
            if stay.reason == NOT_UNDERUTILIZED and used is not None:
                share = f"{used.share * 100:.6g}% of allocatable"
                message = f"{used.resource} requested ({share}) is above the scale-down utilization threshold"
                stays[name] = replace(stay, message=message)
    for node in snapshot.nodes:
        name = node.metadata.name
        if name in gone:
            continue
        if name in stays:
            yield name, stays[name]
        elif name not in group_of:
            yield name, seam.reason_to_stay("NotAutoscaled")
        elif last.targets.get(group_of[name].name, 0) <= group_of[name].least:
            yield name, seam.reason_to_stay("NodeGroupMinSizeReached")
        else:
            in_cooldown = last.scale_down.result == IN_COOLDOWN
            yield name, seam.reason_to_stay(IN_COOLDOWN if in_cooldown else "NotUnneededOtherReason")


_N_LATER = 10

_RETRY, _POLL, _HEADROOM = 10.0, 5.0, 30.0
"""Seconds from a refused eviction to the next try, between two looks at evicted pods, and beyond their grace period."""


class ClusterAutoscalerEngine:
    """The cluster-autoscaler, set up for a cluster as it was when it first looked, before anything is drained.

    It may remember the templates of groups that it has made from that cluster.
    """

    name: AutoscalerName = "cluster-autoscaler"
    version = "1.36"

    def __init__(self, setup: Setup, first: Snapshot, remembered: Remembered | None = None) -> None:
        self._setup, self._first, self._remembered = setup, first, remembered
        self.source = setup.source

    @property
    def usual_loops(self) -> Sequence[float]:
        """One loop now, and some when the nodes that are not needed have been so for long enough."""
        options = [self._setup.options, *(group.options for group in self._setup.groups)]
        wait = max(option.scale_down_unneeded_time for option in options) / 1_000_000 + 1
        return (0, *(wait + number * self.wait for number in range(_N_LATER)))

    @property
    def wait(self) -> float:
        return self._setup.options.scan_interval / 1_000_000

    @property
    def removal(self) -> seam.RemovalTimes:
        """What it waits for while it removes a node. Upstream: core/scaledown/actuation/{actuator,drain}.go."""
        options = self._setup.options
        evicting = options.max_pod_eviction_time / 1_000_000
        return seam.RemovalTimes(
            poll=self.wait,
            delay=options.node_delete_delay_after_taint / 1_000_000,
            patience=seam.Patience(first=0.0, retry=_RETRY, poll=_POLL, evicting=evicting),
            timeout=evicting + options.max_graceful_termination_sec + _HEADROOM,
        )

    def watch(self, cluster: seam.PreparedCluster) -> ClusterAutoscalerWatch:
        return ClusterAutoscalerWatch(self._setup, cluster, self._memory(cluster.now))

    def _memory(self, now: int) -> Remembered:
        if self._remembered is None:
            self._remembered = templates_seen(self._first, self._setup.groups, self._setup.options, now)
        return self._remembered

    def provision(self, cluster: seam.PreparedCluster) -> seam.Advice:
        """Return what is added for the pending pods, in a single loop.

        It has run for some time, and knows what the nodes of a group are like also where all are cordoned or gone. It
        looks when no pending pod is so new that it would wait for more of them first.
        """
        remembered = self._memory(cluster.now)
        pending = (created(pod) for pod in cluster.snapshot.pods if not pod.spec.node_name)
        now = max(cluster.now, max(pending, default=0) + GPU_BUFFER)
        return self._looked(replace(cluster, now=now), remembered, loops=(0,))

    def widening(self, cluster: seam.PreparedCluster) -> Iterator[tuple[Pool, ...]]:
        """Yield the groups that would help more pods if they could grow further, with the maximum size that does it."""
        groups, nodes = self._setup.groups, cluster.snapshot.node_by_name
        n_waiting = len(self.provision(cluster).unhelped())
        tried = sorted((group for group in groups if group.room < n_waiting), key=lambda group: group.room)
        for group in tried[:MOST_TRIED]:
            larger = replace(group, most=group.target + n_waiting)
            advice = self._with_groups(larger if other is group else other for other in groups).provision(cluster)
            added = sum(new.facts.group == group.name for new in advice.adds)
            if group.target + added > group.most and len(advice.unhelped()) < n_waiting:
                cloud = _cloud(group, [nodes[name] for name in group.nodes if name in nodes])
                yield (Pool(group.name, size=GroupSize(group.most, group.target + added, cloud)),)

    def _with_groups(self, groups: Iterable[NodeGroup]) -> Self:
        return type(self)(replace(self._setup, groups=tuple(groups)), self._first, self._remembered)

    def taints(self, cluster: seam.PreparedCluster) -> Iterator[tuple[Taint, ...]]:
        """Yield the taints of the templates of groups; the nodes of other groups show what they are like."""
        del cluster
        for group in self._setup.groups:
            if group.template is not None:
                yield group.template.spec.taints

    def manages(self, node: Node) -> bool:
        return any(node.metadata.name in group.nodes for group in self._setup.groups)

    def prices(self, cluster: seam.PreparedCluster) -> Mapping[str, float]:
        return self._setup.prices_of(cluster.snapshot.nodes)

    def grown(self, adds: Sequence[seam.NewNode]) -> Self:
        names = grouped((new.facts.group, new.facts.name) for new in adds)
        return self._with_groups(
            replace(group, target=group.target + len(added), nodes=(*group.nodes, *added))
            for group in self._setup.groups
            for added in (names.get(group.name, ()),)
        )

    def look(self, cluster: seam.PreparedCluster, *, loops: Sequence[float]) -> seam.Advice:
        return self._looked(cluster, {}, loops=loops)

    def _looked(self, cluster: seam.PreparedCluster, remembered: Remembered, *, loops: Sequence[float]) -> seam.Advice:
        running = Loops(cluster, self._setup, remembered)
        results: list[LoopResult] = []
        for at in loops:
            for outcome in results[-1].scale_ups if results else ():
                outcome.could_help = dict  # nobody asks an earlier loop, which so lets go of its cluster
            results.append(running.run(at))
        return advice_of(cluster.snapshot, self._setup, results)


def set_up(settings: ClusterAutoscaler, snapshot: Snapshot) -> ClusterAutoscalerEngine:
    """Return the cluster-autoscaler for a cluster; errors as for `kplan.autoscaling.settings.set_up`."""
    return ClusterAutoscalerEngine(setup_of(settings, snapshot), snapshot)


MOST_TRIED = 24  #: so many groups are tried, those that have no room first


def _cloud(group: NodeGroup, nodes: Sequence[Node]) -> str:
    if group.name.startswith(("MachineDeployment/", "MachineSet/", "MachinePool/")) and group.name.count("/") == 2:
        return "clusterapi"
    if any(node.metadata.labels.get(label) == group.name for node in nodes for label, _ in POOL_LABELS):
        return ""
    return "aws" if any(cloud_of(node) == "aws" for node in nodes) else ""


class ClusterAutoscalerWatch:
    """A running cluster-autoscaler, from the cluster on at which it looks first."""

    def __init__(self, setup: Setup, cluster: seam.PreparedCluster, remembered: Remembered) -> None:
        self._setup, self._start = setup, cluster.now
        self._loops = Loops(cluster, setup, remembered)
        self._loops.planner.trusts_marks = True
        self._home = dict(groups_by_node(self._loops.groups))
        self._stays: dict[str, KeptNode] = {}

    def look(
        self, cluster: seam.PreparedCluster, leaving: Collection[str], *, removes: bool, has_changed: bool
    ) -> seam.Round:
        nodes = list(cluster.snapshot.nodes)
        for at, node in enumerate(nodes):
            if node.metadata.name in leaving and not is_to_be_deleted(node):
                nodes[at] = marked(node, TO_BE_DELETED, NO_SCHEDULE, cluster.now)
        snapshot = replace(cluster.snapshot, nodes=tuple(nodes)) if leaving else cluster.snapshot
        present, loops = snapshot.node_by_name, self._loops
        for group in loops.groups:
            there = (name for name in self._home_of(group) if name in present and name not in leaving)
            group.nodes = tuple(there)
        loops.see(snapshot)
        if has_changed:
            loops.planner.changed_at = cluster.now
        result = loops.run((cluster.now - self._start) / 1_000_000, removes=removes)
        setup = replace(
            self._setup, groups=tuple(replace(group, nodes=tuple(self._home_of(group))) for group in loops.groups)
        )
        advice = advice_of(snapshot, setup, [result], self._home)
        by_name = {group.name: group for group in loops.groups}
        for new in advice.adds:
            self._home[new.facts.name] = by_name[new.facts.group or ""]
        # Why a node stays may have been seen in an earlier loop only.
        self._stays |= {name: stay for name, stay in advice.stays.items() if stay.reason != RECENTLY_UNREMOVABLE}
        again = loops.next_change(cluster.now) if removes else math.inf
        return seam.Round(
            advice=replace(advice, stays={name: self._stays.get(name, stay) for name, stay in advice.stays.items()}),
            unneeded=frozenset(loops.planner.unneeded) - advice.gone,
            again=(again - cluster.now) / 1_000_000,
        )

    def _home_of(self, group: NodeGroup) -> Iterator[str]:
        return (name for name, home in self._home.items() if home is group)

    def keep(self, node: str, now: int) -> None:
        self._home[node].target += 1
        self._loops.note_failure(self._home[node], now)
