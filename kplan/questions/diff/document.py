"""Two answers compared: pods with another node or outcome, and the scores or rejections that cause it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.api.quantity import capitalized, grouped
from kplan.course.answers.verdict import counted_warnings
from kplan.documents import diff as d
from kplan.documents.base import Condition, Counted, Report, Verdict
from kplan.documents.change import PodAtRest, WorkloadChange
from kplan.documents.placement import ClustersReport, Origin, PlacementReport, PodPlacement, PreemptionReport
from kplan.documents.plan import Action, PlanReport, PodChange, QueuePlace
from kplan.errors import UsageError
from kplan.facts import InputWarning
from kplan.framework.results import Outcome
from kplan.questions.diff.facts import ComparedAnswer, costs_of, fact_differences, fits_of, map_of_both


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
    def pods(self) -> int:
        """How many there are to be."""
        return self.nodes.total() + self.waiting if self.desired is None else self.desired

    @property
    def placed(self) -> int:
        """How many of these have a node."""
        return min(max(self.pods - self.waiting, 0), self.nodes.total())

    @property
    def pending(self) -> int:
        """How many of these have none."""
        return self.pods - self.placed

    @property
    def side(self) -> d.WorkloadSide:
        return d.WorkloadSide(pods=self.pods, placed=self.placed, nodes=dict(sorted(self.nodes.items())))


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
            ends.workload_of[key] = placement.pod.owner_key
            tally = ends.tallies[placement.pod.owner_key]
            is_placed = placement.outcome is Outcome.SCHEDULED
            tally.add(_node_of(placement), 1, placement.message, None if is_placed else placement)
            tally.origin = placement.pod.origin or None
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


def _node_of(placement: PodPlacement) -> str | None:
    """Return the node of a pod; one that runs keeps its own where it would fit nowhere now."""
    return placement.current.node if placement.node is None and placement.current else placement.node


def _fate_of(placement: PodPlacement) -> d.Fate:
    eviction = placement.eviction
    if placement.current and placement.node is None:
        return d.Fate(outcome="Scheduled", node=_node_of(placement))
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
            tally = ends.tallies[workload]
            if change.from_node is not None or change.caused_by == "waiting":
                ends.passing.add(workload)
            if is_pending:
                tally.add(None, 1, change.reason, pending.get(workload))
            elif change.to_node is not None:
                tally.add(change.to_node)
    ends.is_about_queue = report.is_about_queue
    own = {change.owner_key for change in report.changes if change.caused_by == "change"}
    old = [change for change in report.changes if change.caused_by == "waiting"]
    ends.waiting = frozenset((*(change.pod for change in old), *({change.owner_key for change in old} - own)))
    waits = any(entry.place is QueuePlace.ACTIVE for entry in report.queue)
    ends.tries_none = waits and not old and not report.unlisted
    for rest in report.after:
        ends.workload_of.setdefault(f"{rest.namespace}/{rest.name}", rest.workload)
    ends.tallies = at_rest(report.after, report.workloads, pending, ends.tallies)


def _fate_in_plan(change: PodChange, evicts: tuple[str, ...]) -> d.Fate:
    if change.action is Action.EVICTED:
        return d.Fate(outcome="Evicted")
    if change.to_node is not None:
        return d.Fate(outcome="Scheduled", node=change.to_node, victims=evicts)
    return d.Fate(outcome=change.outcome or "Unschedulable", message=change.reason, victims=evicts)


def at_rest(
    after: Sequence[PodAtRest],
    changes: Sequence[WorkloadChange],
    decisions: Mapping[str, PodPlacement] = {},
    known: Mapping[str, Tally] = {},
) -> dict[str, Tally]:
    """Return how the pods of each workload end; `known`: without `after`, `decisions`: about the first pending pod."""
    tallies = defaultdict(Tally, known)
    for pod in after:
        tallies[pod.workload].add(pod.node, 1, pod.message, decisions.get(pod.workload))
    for changed in changes:
        tally = tallies[changed.key]
        tally.waiting = max(tally.waiting, changed.pending)
        if after and changed.desired:
            tally.desired = changed.desired
        tally.origin = changed.origin or None
        tally.refused = changed.refused
        tally.message = tally.message or changed.because
    return tallies


def workload_differences(
    then: Ends, now: Ends, pods: Sequence[d.PodDifference], added: Mapping[str, str], origins: Mapping[str, Origin]
) -> Iterator[d.WorkloadDifference]:
    """Yield the workloads about which two answers differ, the worst first; `origins` are their places in manifests.

    A workload whose pods were pending before and still are, as many of them, is an old fault and none of these.
    `added` are pods that only the second answer evicts, each with the pod for which it is.
    """
    evicted_for = grouped(
        (now.workload_of[victim], now.workload_of[by])
        for victim, by in added.items()
        if victim in now.workload_of and by in now.workload_of
    )
    own_pods = grouped((pod.workload, pod) for pod in pods)
    rows = []
    for workload in dict.fromkeys((*now.tallies, *then.tallies)):
        before, after = then.tallies.get(workload), now.tallies.get(workload)
        refused = "" if after is None or (before is not None and after.refused == before.refused) else after.refused
        difference = d.Difference.REFUSED if refused else _workload_difference(before, after)
        numbers = [None if tally is None else (tally.pending, tally.pods) for tally in (before, after)]
        own = own_pods.get(workload, [])
        is_same = not own and numbers[0] == numbers[1]
        if difference is None or (is_same and not refused):
            continue
        is_worse = after is not None and after.pending > (0 if before is None else before.pending)
        if not (is_worse or refused) and None in (before, after) and workload in now.passing | then.passing:
            continue
        place = origins.get(workload) or (after.origin if after is not None else None)
        victims = (victim for pod in own if pod.after is not None for victim in pod.after.victims)
        rows.append(
            d.WorkloadDifference(
                workload=workload,
                difference=difference,
                before=None if before is None else before.side,
                after=None if after is None else after.side,
                why=next((pod.why for pod in own if pod.why), ()),
                message=refused or (after.message if after is not None and is_worse else ""),
                decision=after.decision if after is not None and is_worse else None,
                evicts=tuple(dict.fromkeys(victim for victim in victims if victim in added)),
                evicted_for=dict(Counter(evicted_for.get(workload, ()))),
                origin=place or UNSET,
            )
        )
    yield from sorted(
        rows,
        key=lambda row: (
            row.difference is not d.Difference.REFUSED,
            row.now_pending <= 0,
            not row.origin,
            not row.evicts,
            row.workload,
        ),
    )


def _workload_difference(before: Tally | None, after: Tally | None) -> d.Difference | None:
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
    left_out = (now.waiting if then.tries_none else frozenset()) | (then.waiting if now.tries_none else frozenset())
    then, now = then.without(left_out), now.without(left_out)
    pods = tuple(_differences(before, then, after, now))
    added = {victim: now.victims[victim] for victim in sorted(now.victims.keys() - then.victims.keys())}
    removed = tuple(sorted(then.victims.keys() - now.victims.keys()))
    counts = Counter(pod.difference for pod in pods)
    capacity = tuple(_capacity(before.report, after.report))
    facts = tuple(one for one in fact_differences(before.report, after.report) if one.about not in left_out)
    rows = tuple(workload_differences(then, now, pods, added, after.origins))
    counted = [*_worse(now, rows, pods, added, capacity, facts)] if REGRESSION in fail_on else []
    counted += counted_warnings(after.report.warnings, fail_on)
    n_both = len(then.fates.keys() & now.fates.keys())
    in_both = sum(pod.before is not None and pod.after is not None for pod in pods)
    return d.DiffReport(
        snapshot=after.report.snapshot,
        scheduler=after.report.scheduler,
        verdict=Verdict.of(fail_on, counted),
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
        utilisation=tuple(_utilisation(_usage(before), _usage(after))),
        capacity=capacity,
        facts=facts,
        workloads=rows,
        costs=tuple(costs_of(before, after)),
        cluster=map_of_both(before, after) or UNSET,
    )


def _side(answer: ComparedAnswer) -> d.Side:
    report = answer.report
    return d.Side(what=answer.what, kind=report.kind, snapshot=report.snapshot, scheduler=report.scheduler)


def _capacity(before: Report, after: Report) -> Iterator[d.CapacityDifference]:
    """Yield the templates of which another number of replicas fits."""
    then, now = fits_of(before), fits_of(after)
    for name in now | then:
        if then.get(name) != now.get(name):
            yield d.CapacityDifference(template=name, before=then.get(name), after=now.get(name))


def _utilisation(before: Mapping[str, float], after: Mapping[str, float]) -> Iterator[d.UsageDifference]:
    for name in sorted(before.keys() & after.keys()):
        if before[name] != after[name]:
            yield d.UsageDifference(resource=name, before=before[name], after=after[name])


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


def _worse(  # noqa: PLR0917 - all that may be worse
    now: Ends,
    rows: Sequence[d.WorkloadDifference],
    pods: Iterable[d.PodDifference],
    victims: Iterable[str],
    capacity: Iterable[d.CapacityDifference],
    facts: Iterable[d.FactDifference],
) -> Iterator[Counted]:
    """Yield what is worse in the second answer; a pod that is pending only where more of its workload are."""
    yield from (Counted(row.workload, "Refused") for row in rows if row.difference is d.Difference.REFUSED)
    without_node = grouped((pod.workload, pod) for pod in pods if pod.after is not None and pod.after.node is None)
    for row in (row for row in rows if row.now_pending > 0 and row.difference is not d.Difference.REFUSED):
        pending = [
            Counted(pod.pod, "NewlyPending" if pod.before else pod.after.outcome)
            for pod in without_node.get(row.workload, ())
            if pod.after is not None and pod.difference is not d.Difference.STILL_PENDING
        ]
        yield from pending or [Counted(row.workload, "NewlyPending")]
    yield from (Counted(victim, "NewVictim") for victim in victims if now.is_about_queue or victim not in now.waiting)
    for fit in capacity:
        if fit.before is not None and fit.after is not None and fit.after < fit.before:
            yield Counted(fit.template, "LessFits")
    for fact in facts:
        if fact.worse and fact.about not in now.waiting:
            yield Counted(fact.about or "all pods", f"{capitalized(fact.fact)}Worse")


def _usage(answer: ComparedAnswer) -> Mapping[str, float]:
    """Return how much of each resource is requested at the end, in percent, rounded as in a plan."""
    if answer.usage is not None:
        return answer.usage
    if isinstance(answer.report, PlanReport):
        return {name: usage.percent_after for name, usage in answer.report.utilisation.cluster.resources.items()}
    cluster = answer.report.cluster if isinstance(answer.report, PlacementReport) else UNSET
    usage: dict[str, float] = {}
    if not cluster:
        return usage
    for index, name in enumerate(cluster.resources):
        offered = sum(node.allocatable[index] for node in cluster.nodes)
        usage[name] = round(100 * sum(node.after[index] for node in cluster.nodes) / offered, 1) if offered else 0.0
    return usage


def _differences(before: ComparedAnswer, then: Ends, after: ComparedAnswer, now: Ends) -> Iterator[d.PodDifference]:
    workloads = then.workload_of | now.workload_of
    for pod in dict.fromkeys((*now.fates, *then.fates)):
        first, second = then.fates.get(pod), now.fates.get(pod)
        difference = _difference(first, second)
        if difference is None:
            continue
        why: tuple[d.Cause, ...] = ()
        if first is not None and second is not None:
            placements = then.placements.get(pod), now.placements.get(pod)
            why = tuple(_causes(first, second, placements, (before.nodes, after.nodes)))
        workload = workloads.get(pod, f"Pod/{pod}")
        yield d.PodDifference(pod=pod, difference=difference, before=first, after=second, why=why, workload=workload)


def _difference(first: d.Fate | None, second: d.Fate | None) -> d.Difference | None:
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
