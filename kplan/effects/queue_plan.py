"""The answer of `kplan plan`: pods that are placed, moved, evicted or stay pending, and the nodes' utilisation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from msgspec import UNSET
from msgspec.structs import replace

from kplan.answers.answer import Answer
from kplan.answers.cluster_map import cluster_map
from kplan.answers.listing import abridged, attempts_of, not_tried, renumbered, unlisted, with_more
from kplan.answers.placement import Placement
from kplan.answers.placement_report import NodesOf, placement_documents, summary
from kplan.answers.utilisation import largest_fits, utilisation
from kplan.answers.verdict import DEFAULT_FAIL_ON, GATED, counted_warnings, judge
from kplan.cluster.base import Base
from kplan.cluster.siblings import with_siblings
from kplan.documents.base import Condition, Counted, InputWarning, Verdict
from kplan.documents.placement import Outcome, PodPlacement, Unlisted
from kplan.documents.plan import Action, PlanReport, PlanSummary, PodChange
from kplan.documents.queue import QueueEntry, QueuePlace, QueueReport, QueueSummary
from kplan.effects.queue_run import QueueRun
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.framework.listers import Listers
from kplan.framework.queue import QueuedPod, enqueue
from kplan.framework.session import Session
from kplan.subjects.incoming import with_objects
from kplan.subjects.question_pods import QuestionPods
from kplan.subjects.sequence import Run
from kplan.whatif.successors import claims_of_successors

_LEFT_ALONE = (QueuePlace.FOREIGN, QueuePlace.DELETING)
"""Pods of another scheduler and pods that are being deleted: kube-scheduler does not schedule them either."""

_PENDING_OUTCOMES: Mapping[Outcome | None, Literal["", "Unschedulable", "Gated", "Error"]] = {
    None: "",
    Outcome.SCHEDULED: "",
    Outcome.UNSCHEDULABLE: "Unschedulable",
    Outcome.GATED: "Gated",
    Outcome.ERROR: "Error",
}

KEEPS_BEING_EVICTED = "keeps being evicted wherever its controller puts it"

MOST_TIES = 10
"""The number of equal best nodes that a plan names for each pod: all of them would be most of the document."""


@dataclass(frozen=True)
class QueuePlan(Answer):
    """The decisions and evictions of a run over the scheduling queue."""

    placements: tuple[Placement, ...]  #: every decision, in order
    run: QueueRun = field(repr=False)
    pods: QuestionPods = field(repr=False)  #: the pods in the queue at the start
    #: before, after: the cluster; not to be changed
    before: Cluster = field(repr=False)
    after: Cluster = field(repr=False)

    @cached_property
    def changes(self) -> tuple[PodChange, ...]:
        """What happens to each pending or evicted pod, in the order of the queue, then of the evictions."""
        run = self.run
        last = {attempt.pod: index for index, attempt in enumerate(run.attempts)}
        latest: dict[int, int | None] = {queued.pod: queued.pod for queued in run.queue}
        by: dict[int, int] = {}
        for eviction in run.evictions:
            first = run.origin.get(eviction.pod, eviction.pod)
            latest[first] = eviction.successor
            by[first] = eviction.by
        changes = [self._change(first, current, by.get(first), last) for first, current in latest.items()]
        return tuple(with_siblings(changes, self.after))

    def _change(self, first: int, current: int | None, by: int | None, last: dict[int, int]) -> PodChange:
        infos, names = self.after.pods.infos, self.after.nodes.names
        source = self._node(self.before, first)
        target = None if current is None else self._node(self.after, current)
        is_circling = first in self.run.circling
        if target is not None:
            action = Action.PLACED if source is None else Action.MOVED
        else:
            action = Action.EVICTED if current is None and not is_circling else Action.PENDING
        attempt = None if current is None else last.get(current)
        decision = None if attempt is None or target is not None else self.placements[attempt]
        reason = "" if decision is None else decision.message
        return PodChange(
            action=action,
            pod=infos[first].key,
            workload=self._workload(first),
            from_node=None if source is None else names[source],
            to_node=None if target is None else names[target],
            by=None if by is None else infos[by].key,
            recreated_as=None if current is None or current == first else infos[current].key,
            outcome=_PENDING_OUTCOMES[None if decision is None else decision.outcome],
            reason=KEEPS_BEING_EVICTED if is_circling and target is None else reason,
            attempt=attempt,
            caused_by="waiting" if not self._waited.isdisjoint((first, by)) else "change",
        )

    @cached_property
    def _waited(self) -> frozenset[int | None]:
        """The pods of the cluster that were pending before the question."""
        known = len(self.before.node_of)
        return frozenset(
            queued.pod for queued in self.run.queue if queued.pod < known and queued.pod not in self.pods.origins
        )

    def _workload(self, pod: int) -> str:
        origin = self.pods.origins.get(pod)
        if origin is not None:
            return "" if origin.kind == "Pod" else f"{origin.kind}/{origin.name}"
        controller = self.after.pods.infos[pod].controller
        return "" if controller is None else f"{controller[1]}/{controller[2]}"

    @staticmethod
    def _node(cluster: Cluster, pod: int) -> int | None:
        if pod >= len(cluster.node_of) or cluster.node_of[pod] == NOWHERE:
            return None
        return cluster.node_of[pod]

    def verdict(self, fail_on: Sequence[Condition] | None = None, command: str = "plan") -> Verdict:
        """Return the verdict; pods of the snapshot that no profile schedules do not count.

        What becomes of pods that were pending before counts only for those that the question is about.
        """
        chosen = DEFAULT_FAIL_ON[command] if fail_on is None else fail_on
        infos = self.after.pods.infos
        left_alone = {
            infos[queued.pod].key
            for queued in self.run.queue
            if queued.place in _LEFT_ALONE and queued.pod not in self.pods.origins
        }
        counted = [placement for placement in self.placements if placement.pod.key not in left_alone]
        return judge(counted, self.context.warnings, chosen, besides=self._besides())

    def _besides(self) -> frozenset[str]:
        """Return the pods that were pending before, beside the question, and the replacements of their victims."""
        rows = set(self.pods.besides)
        for eviction in self.run.evictions:
            if eviction.successor is not None and not rows.isdisjoint((eviction.by, eviction.pod)):
                rows.add(eviction.successor)
        infos = self.after.pods.infos
        return frozenset(infos[row].key for row in rows)

    def report(
        self,
        *,
        fail_on: Sequence[Condition] | None = None,
        command: str = "plan",
        nodes_of: NodesOf | None = None,
        most_ties: int | None = MOST_TIES,
        with_map: bool = False,
        max_listed: int | None = None,
    ) -> PlanReport:
        """Return the PlanReport.

        Parameters
        ----------
        fail_on : what makes the verdict a failure; None for the defaults of `command`
        nodes_of : as for `placement_report`; None explains no single nodes
        most_ties : the number of equal best nodes that a placement names; None for all
        with_map : list every node before and after
        max_listed : the number of pods in the report; the others are counted; None for all
        """
        changes, attempts = self._listed(max_listed)
        others = self._unlisted(max_listed)
        warnings = (*self.context.warnings, *self._endings(), *not_tried(others))
        actions = Counter(change.action for change in self.changes)
        further = sum(self.more.values())
        shown: NodesOf = dict.fromkeys(range(len(self.placements)), ()) if nodes_of is None else nodes_of
        counts = with_more(summary(self.placements), self.placements, self.more)
        return PlanReport(
            snapshot=self.context.snapshot,
            scheduler=self.context.scheduler,
            command=command,
            verdict=abridged(self.verdict(fail_on, command), self.placements, self.more, max_listed),
            summary=PlanSummary(
                **{name: getattr(counts, name) for name in counts.__struct_fields__},
                placed=actions[Action.PLACED],
                moved=actions[Action.MOVED],
                evicted=actions[Action.EVICTED],
                pending=actions[Action.PENDING] + further,
                rounds=self.run.rounds,
            ),
            warnings=warnings,
            queue=self.queue[:max_listed],
            changes=changes,
            placements=tuple(
                _with_few_ties(document, most_ties)
                for document in placement_documents(
                    [self.placements[index] for index in attempts],
                    {place: shown[index] for place, index in enumerate(attempts) if index in shown},
                )
            ),
            max_listed=UNSET if max_listed is None else max_listed,
            unlisted=others,
            utilisation=utilisation(self.before, self.after),
            largest_fit=largest_fits(self.before, self.after),
            cluster=cluster_map(self.before, self.after) if with_map else UNSET,
        )

    @cached_property
    def more(self) -> dict[str, int]:
        """NAMESPACE/NAME -> number of further replicas, which are only counted: they have the outcome of this pod."""
        infos = self.after.pods.infos
        return {infos[row].key: n for row, n in self.pods.more.items()}

    def _listed(self, most: int | None) -> tuple[tuple[PodChange, ...], Sequence[int]]:
        """Return the changes that the report lists, and the indices of their placements."""
        if most is None or max(len(self.changes), len(self.placements)) <= most:
            return self.changes, range(len(self.placements))
        changes = self.changes[:most]
        attempts = sorted({*range(min(most, len(self.placements))), *attempts_of(changes)})
        return renumbered(changes, attempts), attempts

    def _unlisted(self, most: int | None) -> tuple[Unlisted, ...]:
        """Count the pods whose changes the report does not list, by workload and outcome."""
        last = [self.placements[change.attempt] for change in self.changes if change.attempt is not None]
        n_listed = sum(change.attempt is not None for change in self.changes[:most])
        return unlisted(last, self.more, n_listed)

    def _endings(self) -> list[InputWarning]:
        infos = self.after.pods.infos
        warnings = [
            InputWarning("EvictionCycle", f"Pod/{infos[pod].key}", f"{KEEPS_BEING_EVICTED}; it is left pending here")
            for pod in self.run.circling
        ]
        if self.run.hit_limit:
            message = f"the queue was still changing after {self.run.rounds} rounds; what is pending may yet be placed"
            warnings.append(InputWarning("RoundLimit", "", message))
        return warnings

    @property
    def queue(self) -> tuple[QueueEntry, ...]:
        """The queue at the start."""
        return queue_entries(self.run.session, self.run.queue)


def plan_queue(base: Base, question: QuestionPods, *, recreate: bool, max_rounds: int) -> QueuePlan:
    """Work off a scheduling queue in a new fork."""
    runs: list[QueueRun] = []

    def start(session: Session) -> Run:
        session.nominate_from_status(question.rows)
        runs.append(QueueRun(session, question.rows, recreate=recreate, max_rounds=max_rounds))
        return iter(runs[-1])

    plan = base.decide(question, start, with_successors(base, question) if recreate else None)
    return QueuePlan(
        plan.placements,
        runs[0],
        question,
        base.session.cluster,
        plan.session.cluster,
        make_context=plan.make_context,
    )


def with_successors(base: Base, question: QuestionPods) -> Listers | None:
    """Return listers with the claims of the pods that controllers recreate when these pods preempt others."""
    highest = max((base.info_of(question, row).priority for row in question.rows), default=0)
    victims = (info for info in base.session.cluster.pods.infos if info.priority < highest)
    claims = claims_of_successors(victims, base.world)
    return Listers(with_objects(base.world, claims)) if claims else None


def queue_entries(session: Session, queue: Iterable[QueuedPod]) -> tuple[QueueEntry, ...]:
    """Return a queue as a document, in the order in which its pods are scheduled."""
    infos = session.cluster.pods.infos
    return tuple(
        QueueEntry(
            position=position,
            pod=infos[queued.pod].key,
            priority=infos[queued.pod].priority,
            place=queued.place,
            reason=queued.reason,
        )
        for position, queued in enumerate(queue, start=1)
    )


def queue_report(base: Base, question: QuestionPods, *, fail_on: Sequence[Condition] | None = None) -> QueueReport:
    """Return the QueueReport about pending pods, without scheduling any."""
    session = base.fork(question)
    context = base.context(question)
    entries = queue_entries(session, enqueue(session, question.rows))
    chosen = DEFAULT_FAIL_ON["plan"] if fail_on is None else fail_on
    places = Counter(entry.place for entry in entries)
    gated = [Counted(entry.pod, "Gated") for entry in entries if entry.place is QueuePlace.GATED and GATED in chosen]
    return QueueReport(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        verdict=Verdict.of(chosen, [*gated, *counted_warnings(context.warnings, chosen)]),
        summary=QueueSummary(
            pods=len(entries),
            active=places[QueuePlace.ACTIVE],
            gated=places[QueuePlace.GATED],
            foreign=places[QueuePlace.FOREIGN],
            deleting=places[QueuePlace.DELETING],
        ),
        warnings=context.warnings,
        queue=entries,
    )


def _with_few_ties(placement: PodPlacement, most: int | None) -> PodPlacement:
    """Return a placement that counts all equal best nodes and names the first ones only."""
    return replace(placement, ties=placement.ties[:most], ties_count=len(placement.ties))
