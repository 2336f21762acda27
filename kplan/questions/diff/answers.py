"""One of two answers that are compared: how its pods and workloads end, and what room it leaves."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Mapping, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.quantity import grouped
from kplan.documents.base import Report
from kplan.documents.change import PodAtRest, WorkloadChange
from kplan.documents.diff import Fate, WorkloadSide
from kplan.documents.nodes import ClusterMap
from kplan.documents.placement import Origin, PlacementReport, PodPlacement, PreemptionReport
from kplan.documents.plan import Action, Largest, PlanReport, PodChange, QueuePlace


class ComparedAnswer(msgspec.Struct, frozen=True):
    """One of the two answers; a saved report holds less about its cluster than one that was made now."""

    what: str  #: its name in messages and in the report
    report: Report
    nodes: frozenset[str] | None = None  #: names of all nodes of its cluster; None for a saved report
    origins: Mapping[str, Origin] = {}  #: KIND/NAMESPACE/NAME of the workloads of its manifests -> their places
    #: resource -> what the pods of its manifests request; None where it has none
    requests: Mapping[str, int] | None = None
    #: usage_at_end, room_at_end: resource -> percent that is requested, what is free; empty where the report tells
    usage_at_end: Mapping[str, float] = {}
    room_at_end: Mapping[str, Largest] = {}

    @property
    def map(self) -> ClusterMap | None:
        """Every node before and after; None where the report does not hold it."""
        cluster = getattr(self.report, "cluster", UNSET)
        return cluster if isinstance(cluster, ClusterMap) else None

    @property
    def usage(self) -> Mapping[str, float]:
        """How much of each resource is requested at the end, in percent, rounded as in a plan."""
        if self.usage_at_end:
            return self.usage_at_end
        if isinstance(self.report, PlanReport):
            return {name: usage.percent_after for name, usage in self.report.utilisation.cluster.resources.items()}
        usage: dict[str, float] = {}
        if not isinstance(self.report, PlacementReport) or (cluster := self.map) is None:
            return usage
        for index, name in enumerate(cluster.resources):
            offered = sum(node.allocatable[index] for node in cluster.nodes)
            usage[name] = round(100 * sum(node.after[index] for node in cluster.nodes) / offered, 1) if offered else 0.0
        return usage

    @property
    def room(self) -> Mapping[str, Largest]:
        """What is free at the end, by resource; empty where the report does not hold it."""
        if self.room_at_end or not isinstance(self.report, PlanReport):
            return self.room_at_end
        return {fit.resource: fit.after for fit in self.report.largest_fit}


class Tally(msgspec.Struct):
    """The pods of a workload at the end of an answer."""

    nodes: Counter[str] = msgspec.field(default_factory=Counter)  #: node -> pods
    waiting: int = 0  #: pods without a node
    desired: int | None = None  #: how many it wants, where that is known: a rollout has more pods besides
    decision: PodPlacement | None = None  #: about the first pod that is pending
    message: str = ""  #: kube-scheduler's, about the same pod
    refused: str = ""  #: the API server's words, where it refuses the manifest
    origin: Origin | None = None

    def add(self, node: str | None, pods: int = 1, message: str = "", decision: PodPlacement | None = None) -> None:
        if node is not None:
            self.nodes[node] += pods
            return
        self.waiting += pods
        self.message = self.message or message
        self.decision = self.decision or decision

    @property
    def side(self) -> WorkloadSide:
        """How many pods there are to be, and how many of these have a node."""
        on_nodes = self.nodes.total()
        pods = on_nodes + self.waiting if self.desired is None else self.desired
        placed = min(max(pods - self.waiting, 0), on_nodes)
        return WorkloadSide(pods=pods, placed=placed, nodes=dict(sorted(self.nodes.items())))


class Ends(msgspec.Struct):
    """How the pods and the workloads of an answer end."""

    fates: dict[str, Fate] = {}  #: by NAMESPACE/NAME of the pod
    placements: dict[str, PodPlacement] = {}  #: the decisions about these pods, as far as the answer holds them
    victims: dict[str, str] = {}  #: pod that is evicted -> the pod for which it is
    #: pods to which something happens because of others that were pending before, whatever is asked about
    waiting: frozenset[str] = frozenset()
    is_about_queue: bool = False  #: the answer is about these
    tries_none: bool = False  #: pods wait, and none is tried: the manifests are what the cluster has, so nothing moves
    workload_of: dict[str, str] = {}  #: NAMESPACE/NAME of a pod -> its workload
    tallies: dict[str, Tally] = msgspec.field(default_factory=lambda: defaultdict(Tally))  #: by KIND/NAMESPACE/NAME
    #: workloads of which only the pods are counted that had to move; what is in one answer alone is no difference
    passing: set[str] = set()

    def without(self, names: Container[str]) -> Ends:
        """Return the same without these pods and workloads, and what these pods evict."""
        return replace(
            self,
            fates={pod: fate for pod, fate in self.fates.items() if pod not in names},
            victims={pod: by for pod, by in self.victims.items() if by not in names},
            tallies={workload: tally for workload, tally in self.tallies.items() if workload not in names},
        )


def ends_of(report: Report) -> Ends:
    """Return how pods and workloads end; nothing for a report that is not about pods."""
    ends = Ends()
    if isinstance(report, PlanReport):
        _add_plan(ends, report)
    elif isinstance(report, PlacementReport | PreemptionReport):
        ends.placements = {placement.pod.key: placement for placement in report.placements}
        for key, placement in ends.placements.items():
            ends.fates[key] = fate = _fate_of(placement)
            ends.victims |= dict.fromkeys(fate.victims, key)
            ends.workload_of[key] = workload = placement.pod.owner_key
            ends.tallies[workload].add(fate.node, 1, placement.message, placement)
            ends.tallies[workload].origin = placement.pod.origin or None
    for key, node in (report.fits or {}).items() if isinstance(report, PreemptionReport) else ():
        ends.fates[key] = Fate(outcome="Scheduled", node=node)
        ends.workload_of[key] = f"Pod/{key}"
        ends.tallies[f"Pod/{key}"].add(node)
    for unlisted in report.unlisted if isinstance(report, PlacementReport) else ():
        for node, pods in unlisted.nodes.items():
            ends.tallies[unlisted.workload].add(node, pods)
        if (more := unlisted.pods - sum(unlisted.nodes.values())) > 0:
            ends.tallies[unlisted.workload].add(None, more, unlisted.message)
    return ends


def _fate_of(placement: PodPlacement) -> Fate:
    """Return what becomes of a pod; one that runs keeps its node where it would fit nowhere now."""
    if placement.current and placement.node is None:
        return Fate(outcome="Scheduled", node=placement.current.node)
    eviction = placement.eviction
    return Fate(
        outcome=placement.outcome.value,
        node=placement.node,
        message=placement.message,
        nominated_node=None if eviction is None else eviction.nominated_node,
        victims=() if eviction is None else tuple(sorted(victim.key for victim in eviction.victims)),
    )


def _add_plan(ends: Ends, report: PlanReport) -> None:
    victims = grouped((change.by, change.pod) for change in report.changes if change.by is not None)
    ends.victims = {pod: by for by, pods in victims.items() for pod in pods}
    pending: dict[str, PodPlacement] = {}  # workload -> the decision about its first pending pod
    for change in report.changes:
        pod, workload, is_pending = change.pod, change.owner_key, change.action is Action.PENDING
        ends.workload_of |= dict.fromkeys((pod, change.recreated_as or pod), workload)
        ends.fates[pod] = _fate_in_plan(change, tuple(sorted(victims.get(pod, ()))))
        if decision := report.decision(change):
            ends.placements[pod] = decision
            if is_pending:
                pending.setdefault(workload, decision)
        if not report.after:
            if change.from_node is not None or change.caused_by == "waiting":
                ends.passing.add(workload)
            if is_pending or change.to_node is not None:
                ends.tallies[workload].add(change.to_node, 1, change.reason, pending.get(workload))
    for rest in report.after:
        ends.workload_of.setdefault(f"{rest.namespace}/{rest.name}", rest.workload)
    ends.tallies = tallies_of(report.after or None, report.workloads, pending, ends.tallies)
    ends.is_about_queue = report.is_about_queue
    own = {change.owner_key for change in report.changes if change.caused_by == "change"}
    old = [change for change in report.changes if change.caused_by == "waiting"]
    ends.waiting = frozenset((*(change.pod for change in old), *({change.owner_key for change in old} - own)))
    waits = any(entry.place is QueuePlace.ACTIVE for entry in report.queue)
    ends.tries_none = waits and not old and not report.unlisted


def _fate_in_plan(change: PodChange, evicts: tuple[str, ...]) -> Fate:
    if change.action is Action.EVICTED:
        return Fate(outcome="Evicted")
    if change.to_node is not None:
        return Fate(outcome="Scheduled", node=change.to_node, victims=evicts)
    return Fate(outcome=change.outcome or "Unschedulable", message=change.reason, victims=evicts)


def tallies_of(
    after: Sequence[PodAtRest] | None,
    changes: Sequence[WorkloadChange],
    decisions: Mapping[str, PodPlacement] = {},
    known: Mapping[str, Tally] = {},
) -> dict[str, Tally]:
    """Return how the pods of each workload end; `known`: without `after`, `decisions`: about the first pending pod."""
    tallies = defaultdict(Tally, known)
    for pod in after or ():
        tallies[pod.workload].add(pod.node, 1, pod.message, decisions.get(pod.workload))
    for changed in changes:
        tally = tallies[changed.key]
        tally.waiting = max(tally.waiting, changed.pending)
        if after is not None and changed.desired:
            tally.desired = changed.desired
        tally.origin = changed.origin or None
        tally.refused = changed.refused
        tally.message = tally.message or changed.because
    return tallies
