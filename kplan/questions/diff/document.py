"""How two answers end, and what differs: pods with another node or outcome, and the scores or rejections behind it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.quantity import capitalized, grouped
from kplan.course.answers.verdict import counted_warnings
from kplan.documents import diff as d
from kplan.documents.base import Condition, Counted, Report, Verdict
from kplan.documents.capacity import CapacityReport, HeadroomReport
from kplan.documents.change import PodAtRest, WorkloadChange
from kplan.documents.nodes import ClusterMap, NodeLoad
from kplan.documents.placement import ClustersReport, Origin, PlacementReport, PodPlacement, PreemptionReport
from kplan.documents.plan import Action, Largest, PlanReport, PodChange, QueuePlace
from kplan.errors import UsageError
from kplan.facts import InputWarning
from kplan.questions.diff.facts import fact_differences
from kplan.rules.resources import quantity_text


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


class Totals(msgspec.Struct):
    """The pods of a workload at the end of an answer."""

    nodes: dict[str, int] = {}  #: node -> pods
    waiting: int = 0  #: pods without a node
    desired: int | None = None  #: how many it wants, where that is known: a rollout has more pods besides
    decision: PodPlacement | None = None  #: about the first pod that is pending
    message: str = ""  #: kube-scheduler's, about the same pod
    refused: str = ""  #: the API server's words, where it refuses the manifest
    origin: Origin | None = None

    def add(self, node: str | None, pods: int = 1, message: str = "", decision: PodPlacement | None = None) -> None:
        if node is not None:
            self.nodes[node] = self.nodes.get(node, 0) + pods
            return
        self.waiting += pods
        self.message = self.message or message
        self.decision = self.decision or decision

    @property
    def side(self) -> d.WorkloadSide:
        """How many pods there are to be, and how many of these have a node."""
        on_nodes = sum(self.nodes.values())
        pods = on_nodes + self.waiting if self.desired is None else self.desired
        placed = min(max(pods - self.waiting, 0), on_nodes)
        return d.WorkloadSide(pods=pods, placed=placed, nodes=dict(sorted(self.nodes.items())))


class Ends(msgspec.Struct):
    """How the pods and the workloads of an answer end."""

    fates: dict[str, d.Fate] = {}  #: by NAMESPACE/NAME of the pod
    placements: dict[str, PodPlacement] = {}  #: the decisions about these pods, as far as the answer holds them
    victims: dict[str, str] = {}  #: pod that is evicted -> the pod for which it is
    #: pods to which something happens because of others that were pending before, whatever is asked about
    waiting: frozenset[str] = frozenset()
    is_about_queue: bool = False  #: the answer is about these
    tries_none: bool = False  #: pods wait, and none is tried: the manifests are what the cluster has, so nothing moves
    workload_of: dict[str, str] = {}  #: NAMESPACE/NAME of a pod -> its workload
    tallies: dict[str, Totals] = msgspec.field(default_factory=lambda: defaultdict(Totals))  #: by KIND/NAMESPACE/NAME
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
        ends.fates[key] = d.Fate(outcome="Scheduled", node=node)
        ends.workload_of[key] = f"Pod/{key}"
        ends.tallies[f"Pod/{key}"].add(node)
    for unlisted in report.unlisted if isinstance(report, PlacementReport) else ():
        for node, pods in unlisted.nodes.items():
            ends.tallies[unlisted.workload].add(node, pods)
        if (more := unlisted.pods - sum(unlisted.nodes.values())) > 0:
            ends.tallies[unlisted.workload].add(None, more, unlisted.message)
    return ends


def _fate_of(placement: PodPlacement) -> d.Fate:
    """Return what becomes of a pod; one that runs keeps its node where it would fit nowhere now."""
    if placement.current and placement.node is None:
        return d.Fate(outcome="Scheduled", node=placement.current.node)
    eviction = placement.eviction
    return d.Fate(
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


def _fate_in_plan(change: PodChange, evicts: tuple[str, ...]) -> d.Fate:
    if change.action is Action.EVICTED:
        return d.Fate(outcome="Evicted")
    if change.to_node is not None:
        return d.Fate(outcome="Scheduled", node=change.to_node, victims=evicts)
    return d.Fate(outcome=change.outcome or "Unschedulable", message=change.reason, victims=evicts)


def tallies_of(
    after: Sequence[PodAtRest] | None,
    changes: Sequence[WorkloadChange],
    decisions: Mapping[str, PodPlacement] = {},
    known: Mapping[str, Totals] = {},
) -> dict[str, Totals]:
    """Return how the pods of each workload end; `known`: without `after`, `decisions`: about the first pending pod."""
    tallies = defaultdict(Totals, known)
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


REGRESSION: Condition = "regression"
_ABOUT_PODS = ("PlacementReport", "PreemptionReport", "PlanReport")
COMPARED = (
    *_ABOUT_PODS,
    "QueueReport",
    "CapacityReport",
    "HeadroomReport",
    "ShrinkReport",
    "RemedyReport",
    "RunbookReport",
    "DrainsReport",
    "OddsReport",
    "NodesReport",
    "ChecksReport",
    "BudgetsReport",
)
"""Kinds of reports that can be compared: those about pods with each other, others with the same kind."""

_MOST_CAUSES = 5
_OF_OLD: tuple[d.CauseKind, d.CauseKind] = "node-gone", "rejects"
_OF_NEW: tuple[d.CauseKind, d.CauseKind] = "node-new", "took-off"
"""Why a pod is not on the old node any more, and on the new one only now: without the node, and with it."""


def diff_report(before: ComparedAnswer, after: ComparedAnswer, *, fail_on: Sequence[Condition] = ()) -> d.DiffReport:
    """Return what differs between two answers; raises UsageError when one of them is of a kind that cannot be compared.

    With ``regression`` it fails when more pods of a workload are pending, a pod is newly evicted, less fits, or a
    fact is worse.
    """
    _check_comparable(before, after)
    then, now = ends_of(before.report), ends_of(after.report)
    # Where one answer tries none of the pods that wait, only the other can tell of them.
    left_out = (now.waiting if then.tries_none else frozenset()) | (then.waiting if now.tries_none else frozenset())
    then, now = then.without(left_out), now.without(left_out)
    pods = tuple(_pods(before, then, after, now))
    added = {victim: now.victims[victim] for victim in sorted(now.victims.keys() - then.victims.keys())}
    removed = tuple(sorted(then.victims.keys() - now.victims.keys()))
    counts = Counter(pod.difference for pod in pods)
    n_both = len(then.fates.keys() & now.fates.keys())
    in_both = sum(pod.before is not None and pod.after is not None for pod in pods)
    report = d.DiffReport(
        snapshot=after.report.snapshot,
        scheduler=after.report.scheduler,
        verdict=Verdict.of((), ()),
        warnings=tuple(_warnings(before, after)),
        before=_side(before),
        after=_side(after),
        summary=d.DiffSummary(
            same=n_both - in_both,
            **{difference.name.lower(): counts[difference] for difference in d.OF_PODS},
            victims_added=len(added),
            victims_removed=len(removed),
        ),
        pods=pods,
        victims_added=tuple(added),
        victims_removed=removed,
        utilisation=tuple(_utilisation(before.usage, after.usage)),
        capacity=tuple(_capacity(before.report, after.report)),
        facts=tuple(one for one in fact_differences(before.report, after.report) if one.about not in left_out),
        workloads=tuple(sorted(_workloads(then, now, pods, added, after.origins), key=_rank)),
        costs=tuple(_costs(before, after)),
        cluster=map_of_both(before.map, after.map) or UNSET,
    )
    counted = [*_worse(now, report)] if REGRESSION in fail_on else []
    counted += counted_warnings(after.report.warnings, fail_on)
    return replace(report, verdict=Verdict.of(fail_on, counted))


def _side(answer: ComparedAnswer) -> d.Side:
    report = answer.report
    return d.Side(what=answer.what, kind=report.kind, snapshot=report.snapshot, scheduler=report.scheduler)


def _capacity(before: Report, after: Report) -> Iterator[d.CapacityDifference]:
    then, now = _fits_of(before), _fits_of(after)
    for name in now | then:
        if then.get(name) != now.get(name):
            yield d.CapacityDifference(template=name, before=then.get(name), after=now.get(name))


def _fits_of(report: Report) -> dict[str, int]:
    if isinstance(report, CapacityReport):
        return {template.name: template.fits for template in report.templates}
    if isinstance(report, HeadroomReport):
        return {workload.workload: workload.fits for workload in report.workloads}
    return {}


def _utilisation(before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[d.UsageDifference]:
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            yield d.UsageDifference(resource=name, before=before[name], after=after[name])


def _costs(before: ComparedAnswer, after: ComparedAnswer) -> Iterator[d.Cost]:
    """Yield for each resource what the manifests request and what is free, where the two answers differ in it."""
    then, now = before.room, after.room
    are_both = before.requests is not None and after.requests is not None
    for resource in (name for name in now if name in then):
        requests = [quantity_text(resource, (side.requests or {}).get(resource, 0)) for side in (before, after)]
        first, second = (
            (amount if are_both else None, room[resource].total_free, room[resource].free)
            for amount, room in zip(requests, (then, now), strict=True)
        )
        if first != second:
            yield d.Cost(
                resource=resource,
                requests_before=first[0],
                requests_after=second[0],
                free_before=first[1],
                free_after=second[1],
                largest_before=first[2],
                largest_after=second[2],
            )


def map_of_both(first: ClusterMap | None, second: ClusterMap | None) -> ClusterMap | None:
    """Return the nodes of the second answer at the end of the first and of the second; None where one has no map."""
    if first is None or second is None or first.resources != second.resources:
        return None
    known = {node.name: node for node in first.nodes}
    return replace(second, nodes=tuple(_both(known.get(node.name), node) for node in second.nodes))


def _both(first: NodeLoad | None, second: NodeLoad) -> NodeLoad:
    """Return a node at the end of two answers: what comes is there at the end of the second alone."""
    if first is None:
        return replace(second, before=tuple(0 for _ in second.after))
    return replace(
        second,
        before=first.after,
        arriving=_without(second.arriving, first.arriving) + _without(first.leaving, second.leaving),
        leaving=_without(first.arriving, second.arriving) + _without(second.leaving, first.leaving),
    )


def _without(pods: tuple[str, ...], others: tuple[str, ...]) -> tuple[str, ...]:
    known = frozenset(others)
    return tuple(pod for pod in pods if pod not in known)


def _warnings(before: ComparedAnswer, after: ComparedAnswer) -> Iterator[InputWarning]:
    """Yield the warnings of both answers; what holds for the manifests of before alone is mended by those of after."""
    yield from dict.fromkeys(after.report.warnings)
    repeated = {(warning.object, warning.code) for warning in after.report.warnings}
    for warning in dict.fromkeys(before.report.warnings):
        is_mended = after.origins and warning.object in before.origins
        if (warning.object, warning.code) not in repeated and not is_mended:
            yield warning


def _check_comparable(before: ComparedAnswer, after: ComparedAnswer) -> None:
    for side in (before, after):
        if isinstance(side.report, ClustersReport):
            message = f"{side.what}: a report about several clusters holds an answer for each of them"
            hint = "compare one cluster: save kplan place FILE -s CLUSTER -o json for each, or kplan diff --against"
            raise UsageError(message, hint=hint)
        if side.report.kind not in COMPARED:
            hint = f"it can be {', '.join(COMPARED)}"
            raise UsageError(f"{side.what}: a {side.report.kind} cannot be compared", hint=hint)
    kinds = {"pods" if side.report.kind in _ABOUT_PODS else side.report.kind for side in (before, after)}
    if len(kinds) > 1:
        message = f"{before.what} is a {before.report.kind}, {after.what} a {after.report.kind}"
        raise UsageError(f"{message}: they answer different questions", hint="compare two reports of the same kind")


def _worse(now: Ends, report: d.DiffReport) -> Iterator[Counted]:
    """Yield what is worse in the second answer; a pod that is pending only where more of its workload are."""
    yield from (Counted(row.workload, "Refused") for row in report.workloads if row.difference is d.Difference.REFUSED)
    pods = ((pod, pod.after) for pod in report.pods)
    without_node = grouped((pod.workload, (pod, fate)) for pod, fate in pods if fate is not None and fate.node is None)
    for row in (row for row in report.workloads if row.is_pending_now):
        pending = [
            Counted(pod.pod, "NewlyPending" if pod.before else fate.outcome)
            for pod, fate in without_node.get(row.workload, ())
            if pod.difference is not d.Difference.STILL_PENDING
        ]
        yield from pending or [Counted(row.workload, "NewlyPending")]
    for victim in report.victims_added:
        if now.is_about_queue or victim not in now.waiting:
            yield Counted(victim, "NewVictim")
    for fit in report.capacity:
        if fit.before is not None and fit.after is not None and fit.after < fit.before:
            yield Counted(fit.template, "LessFits")
    for fact in report.facts:
        if fact.worse and fact.about not in now.waiting:
            yield Counted(fact.about or "all pods", f"{capitalized(fact.fact)}Worse")


def _workloads(
    then: Ends, now: Ends, pods: Sequence[d.PodDifference], added: Mapping[str, str], origins: Mapping[str, Origin]
) -> Iterator[d.WorkloadDifference]:
    """Yield the workloads about which two answers differ; `origins` are their places in manifests.

    A workload whose pods were pending before and still are, as many of them, is an old fault and none of these.
    `added` are pods that only the second answer evicts, each with the pod for which it is.
    """
    of = now.workload_of
    evicted_for = grouped((of[victim], of[by]) for victim, by in added.items() if victim in of and by in of)
    own_pods = grouped((pod.workload, pod) for pod in pods)
    for workload in dict.fromkeys((*now.tallies, *then.tallies)):
        own, before, after = own_pods.get(workload, []), then.tallies.get(workload), now.tallies.get(workload)
        row = None if before == after else _workload(workload, before, after, own)
        if row is None:
            continue
        is_worse = row.now_pending > 0 or row.difference is d.Difference.REFUSED
        if not is_worse and None in (row.before, row.after) and workload in now.passing | then.passing:
            continue
        victims = (victim for pod in own if pod.after is not None for victim in pod.after.victims)
        yield replace(
            row,
            evicts=tuple(dict.fromkeys(victim for victim in victims if victim in added)),
            evicted_for=dict(Counter(evicted_for.get(workload, ()))),
            origin=origins.get(workload) or row.origin,
        )


def _workload(
    workload: str, former: Totals | None, tally: Totals | None, pods: Sequence[d.PodDifference]
) -> d.WorkloadDifference | None:
    """Return what differs about a workload in itself; None where nothing does."""
    before, after = (None if one is None else one.side for one in (former, tally))
    refused = "" if tally is None or (former is not None and tally.refused == former.refused) else tally.refused
    difference = d.Difference.REFUSED if refused else _difference_of_workload(before, after)
    numbers = [None if side is None else (side.pending, side.pods) for side in (before, after)]
    if difference is None or not (pods or refused or numbers[0] != numbers[1]):
        return None
    row = d.WorkloadDifference(
        workload=workload,
        difference=difference,
        before=before,
        after=after,
        why=next((pod.why for pod in pods if pod.why), ()),
        message=refused,
        origin=UNSET if tally is None else tally.origin or UNSET,
    )
    if tally is None or row.now_pending <= 0:
        return row
    return replace(row, message=refused or tally.message, decision=tally.decision)


def _rank(row: d.WorkloadDifference) -> tuple[bool | str, ...]:
    """Return the place of a workload among others, of which the worst come first."""
    is_refused = row.difference is d.Difference.REFUSED
    return not is_refused, row.now_pending <= 0, not row.origin, not row.evicts, row.workload


def _difference_of_workload(before: d.WorkloadSide | None, after: d.WorkloadSide | None) -> d.Difference | None:
    if before is None:
        return d.Difference.APPEARED
    if after is None:
        return d.Difference.DISAPPEARED
    if after.pending > before.pending:
        return d.Difference.NEWLY_PENDING
    if after.pods != before.pods:
        return d.Difference.SCALED
    if after.pending < before.pending:
        return d.Difference.NEWLY_PLACED
    return d.Difference.MOVED if after.nodes != before.nodes else None


def _pods(before: ComparedAnswer, then: Ends, after: ComparedAnswer, now: Ends) -> Iterator[d.PodDifference]:
    workloads = then.workload_of | now.workload_of
    for pod in dict.fromkeys((*now.fates, *then.fates)):
        first, second = then.fates.get(pod), now.fates.get(pod)
        difference = _difference_of_pod(first, second)
        if difference is None:
            continue
        why: tuple[d.Cause, ...] = ()
        if first is not None and second is not None:
            placements = then.placements.get(pod), now.placements.get(pod)
            why = tuple(_causes(first, second, placements, (before.nodes, after.nodes)))
        workload = workloads.get(pod, f"Pod/{pod}")
        yield d.PodDifference(pod=pod, difference=difference, before=first, after=second, why=why, workload=workload)


def _difference_of_pod(first: d.Fate | None, second: d.Fate | None) -> d.Difference | None:
    if first is None:
        return d.Difference.APPEARED
    if second is None:
        return d.Difference.DISAPPEARED
    if first.node is not None and second.node is not None:
        return d.Difference.MOVED if first.node != second.node else None
    if first.node is not None:
        return d.Difference.NEWLY_PENDING
    if second.node is not None:
        return d.Difference.NEWLY_PLACED
    return d.Difference.STILL_PENDING if first != second else None


def _causes(
    first: d.Fate,
    second: d.Fate,
    placements: tuple[PodPlacement | None, PodPlacement | None],
    nodes: tuple[frozenset[str] | None, frozenset[str] | None],
) -> Iterator[d.Cause]:
    """Yield why a pod ends elsewhere: the old node rejects it, or the new one rejected it before or scores more now."""
    old, new = first.node, second.node
    then, now = placements
    is_hard = False
    for node, (absent, rejected), known, placement in ((old, _OF_OLD, nodes[1], now), (new, _OF_NEW, nodes[0], then)):
        if node is not None and known is not None and node not in known:
            is_hard = True
            yield d.Cause(kind=absent, node=node)
        elif node is not None and placement is not None and (rejection := placement.rejections.get(node)):
            is_hard = True
            yield d.Cause(kind=rejected, node=node, plugin=rejection.plugin, reasons=rejection.reasons)
    if is_hard or old is None or new is None or then is None or now is None:
        return
    before, after = _leads(then, old, new), _leads(now, old, new)
    leads = [(before.get(name, 0), after.get(name, 0), name) for name in before | after]
    tips = sorted((lead for lead in leads if lead[1] > lead[0]), key=lambda lead: (lead[0] - lead[1], lead[2]))
    for lead_before, lead_after, name in tips[:_MOST_CAUSES]:
        yield d.Cause(kind="score", node=new, plugin=name, before=lead_before, after=lead_after)


def _leads(placement: PodPlacement, old: str, new: str) -> dict[str, int]:
    """Return by how many points each plugin prefers the new node to the old one; empty if one of them has no score."""
    if old not in placement.scores or new not in placement.scores:
        return {}
    mine, other = placement.scores[new].plugins, placement.scores[old].plugins
    return {name: mine.get(name, 0) - other.get(name, 0) for name in mine | other}
