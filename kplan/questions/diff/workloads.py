"""Two answers compared workload by workload: what a reviewer wants to know first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec
from msgspec import UNSET

from kplan.documents.base import Report
from kplan.documents.diff import Cause, Difference, PodDifference, WorkloadDifference, WorkloadSide
from kplan.documents.placement import Origin, PlacementReport, PodPlacement, PreemptionReport
from kplan.documents.plan import Action, PlanReport
from kplan.framework.outcome import Outcome


class Tally(msgspec.Struct):
    """The pods of a workload at the end of an answer."""

    nodes: Counter[str] = msgspec.field(default_factory=Counter)  #: node -> pods
    pending: int = 0
    decision: PodPlacement | None = None  #: about the first pod that is pending
    message: str = ""  #: kube-scheduler's, about the same pod
    origin: Origin | None = None

    def add(self, node: str | None, pods: int = 1, message: str = "", decision: PodPlacement | None = None) -> None:
        """Count pods."""
        if node is not None:
            self.nodes[node] += pods
            return
        self.pending += pods
        self.message = self.message or message
        self.decision = self.decision or decision

    @property
    def side(self) -> WorkloadSide:
        """The tally as a document."""
        placed = self.nodes.total()
        return WorkloadSide(pods=placed + self.pending, placed=placed, nodes=dict(sorted(self.nodes.items())))


class Workloads(msgspec.Struct):
    """The workloads of an answer."""

    tallies: dict[str, Tally] = {}  #: KIND/NAMESPACE/NAME -> its pods
    of_pod: dict[str, str] = {}  #: NAMESPACE/NAME of a pod -> its workload
    #: workloads of which only the pods are counted that had to move; what is in one answer alone is no difference
    passing: set[str] = set()

    def named(self, key: str) -> Tally:
        """Return the tally of a workload."""
        return self.tallies.setdefault(key, Tally())


def workloads_of(report: Report) -> Workloads:
    """Return how the pods of each workload end in an answer."""
    workloads = Workloads()
    if isinstance(report, PlanReport):
        _of_plan(report, workloads)
    elif isinstance(report, PlacementReport | PreemptionReport):
        for placement in {placement.pod.key: placement for placement in report.placements}.values():
            workload = placement.pod.owner_key
            workloads.of_pod[placement.pod.key] = workload
            tally = workloads.named(workload)
            decision = None if placement.outcome is Outcome.SCHEDULED else placement
            node = placement.node
            if node is None and placement.current:
                node = placement.current.node
            tally.add(node, 1, placement.message, decision)
            tally.origin = placement.pod.origin or None
    if isinstance(report, PlacementReport):
        for unlisted in report.unlisted:
            placed = sum(unlisted.nodes.values())
            for node, pods in unlisted.nodes.items():
                workloads.named(unlisted.workload).add(node, pods)
            if unlisted.pods > placed:
                workloads.named(unlisted.workload).add(None, unlisted.pods - placed, unlisted.message)
    return workloads


def _of_plan(report: PlanReport, workloads: Workloads) -> None:
    decisions: dict[str, PodPlacement] = {}
    for change in report.changes:
        workload = change.owner_key
        workloads.of_pod[change.pod] = workload
        if change.recreated_as:
            workloads.of_pod[change.recreated_as] = workload
        if change.action is Action.PENDING and change.attempt is not None:
            decisions.setdefault(workload, report.placements[change.attempt])
        if not report.after:
            tally = workloads.named(workload)
            if change.from_node is not None:
                workloads.passing.add(workload)
            if change.action is Action.PENDING:
                tally.add(None, 1, change.reason, decisions.get(workload))
            elif change.to_node is not None:
                tally.add(change.to_node)
    for pod in report.after:
        key = f"{pod.namespace}/{pod.name}"
        workloads.of_pod.setdefault(key, pod.workload)
        workloads.named(pod.workload).add(pod.node, 1, pod.message, decisions.get(pod.workload))
    for changed in report.workloads:
        tally = workloads.named(changed.key)
        tally.pending = max(tally.pending, changed.pending)
        tally.origin = changed.origin or None
        tally.message = tally.message or changed.refused or changed.because


def workload_differences(
    then: Workloads,
    now: Workloads,
    pods: Sequence[PodDifference],
    added_victims: Iterable[str],
    origins: Mapping[str, Origin],
) -> Iterator[WorkloadDifference]:
    """Yield the workloads about which two answers differ, the worst first.

    A workload whose pods were pending before and still are, as many of them, is an old fault and none of these.

    Parameters
    ----------
    pods : the pods about which they differ
    added_victims : pods that only the second answer evicts
    origins : KIND/NAMESPACE/NAME of a workload -> its place in the manifests of the second question
    """
    causes: dict[str, tuple[Cause, ...]] = {}
    differing: Counter[str] = Counter()
    evicts: dict[str, list[str]] = {}
    new_victims = set(added_victims)
    for pod in pods:
        workload = pod.workload
        differing[workload] += pod.difference is not Difference.STILL_PENDING
        causes[workload] = causes.get(workload) or pod.why
        if pod.after is not None:
            evicts.setdefault(workload, []).extend(v for v in pod.after.victims if v in new_victims)
    rows = []
    for workload in dict.fromkeys((*now.tallies, *then.tallies)):
        before, after = then.tallies.get(workload), now.tallies.get(workload)
        difference = _difference(before, after)
        if difference is None or (workload not in differing and _numbers(before) == _numbers(after)):
            continue
        is_worse = after is not None and after.pending > (0 if before is None else before.pending)
        if not is_worse and None in (before, after) and workload in now.passing | then.passing:
            continue
        place = origins.get(workload) or (after.origin if after is not None else None)
        rows.append(
            WorkloadDifference(
                workload=workload,
                difference=difference,
                before=None if before is None else before.side,
                after=None if after is None else after.side,
                why=causes.get(workload, ()),
                message=after.message if after is not None and is_worse else "",
                decision=after.decision if after is not None and is_worse else None,
                evicts=tuple(dict.fromkeys(evicts.get(workload, ()))),
                origin=place or UNSET,
            )
        )
    yield from sorted(rows, key=lambda row: (row.now_pending <= 0, not row.origin, not row.evicts, row.workload))


def _numbers(tally: Tally | None) -> tuple[int, int] | None:
    return None if tally is None else (tally.pending, tally.nodes.total())


def _difference(before: Tally | None, after: Tally | None) -> Difference | None:
    if before is None:
        return Difference.APPEARED
    if after is None:
        return Difference.DISAPPEARED
    if after.pending != before.pending:
        return Difference.NEWLY_PENDING if after.pending > before.pending else Difference.NEWLY_PLACED
    if after.nodes.total() != before.nodes.total():
        return Difference.APPEARED if after.nodes.total() > before.nodes.total() else Difference.DISAPPEARED
    return Difference.MOVED if after.nodes != before.nodes else None
