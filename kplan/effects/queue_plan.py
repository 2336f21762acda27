"""The answer of `kplan plan`: pods that are placed, moved, evicted or stay pending, and the nodes' utilisation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from kplan.answers.answer import Answer
from kplan.answers.cluster_map import cluster_map
from kplan.answers.listing import abridged, attempts_of, not_tried, renumbered, unlisted, with_more
from kplan.answers.new_nodes import before_growth, with_new_nodes
from kplan.answers.pickled_as_question import PickledAsQuestion
from kplan.answers.placement import Placement
from kplan.answers.placement_report import NodesOf, placement_documents, summary
from kplan.answers.utilisation import largest_fits, utilisation
from kplan.answers.verdict import DEFAULT_FAIL_ON, GATED, counted_warnings, judge
from kplan.api.names import object_name
from kplan.cluster.base import Base
from kplan.cluster.growth import Growth, node_changes
from kplan.cluster.in_order import decide
from kplan.cluster.siblings import with_siblings
from kplan.cluster.unmodelled import in_whole_groups
from kplan.documents.base import Condition, Counted, Verdict
from kplan.documents.change import Step
from kplan.documents.placement import Luck, Unlisted
from kplan.documents.plan import Action, PlanReport, PlanSummary, PodChange
from kplan.documents.queue import QueueEntry, QueuePlace, QueueReport, QueueSummary
from kplan.effects.carried_out import being_deleted
from kplan.effects.missing import telling_missing
from kplan.effects.pod_groups import group_plans, held_back, pending_in_groups
from kplan.effects.provisioning import Growing
from kplan.effects.queue_course import LEFT_ALONE, QueueCourse, QueueOpening, WorkedOff
from kplan.engine.cluster import NOWHERE, Cluster
from kplan.facts import InputWarning
from kplan.framework.results import Outcome
from kplan.framework.session import Session
from kplan.simulation.journal import Removal
from kplan.simulation.nodes import comes_with_node
from kplan.simulation.outcome import note_stuck, pods_at_rest, workload_changes
from kplan.simulation.queue import QueuedPod, in_turn
from kplan.subjects.sequence import QuestionPods, Run

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
class QueuePlan(PickledAsQuestion, Answer):
    """What happens when the scheduling queue is worked off, until nothing moves."""

    placements: tuple[Placement, ...]  #: every decision, in order
    course: QueueCourse = field(repr=False)
    pods: QuestionPods = field(repr=False)  #: the pods in the queue at the start
    before: Cluster = field(repr=False)  #: the cluster; not to be changed
    fewest_nodes: int = field(default=0, repr=False)  #: as of `kplan.answers.plan.Plan`
    #: tells what differs between draws of the same queue; None if nobody asks
    luck: Callable[[Sequence[Condition]], Luck | UnsetType] | None = field(default=None, repr=False, compare=False)

    @property
    def after(self) -> Cluster:
        """The cluster at the end; not to be changed."""
        return self.course.simulation.session.cluster

    @property
    def growth(self) -> Growth | None:
        """The nodes that an autoscaler adds; None where none is followed."""
        provisioner = self.course.simulation.provisioner
        return provisioner.growth if isinstance(provisioner, Growing) else None

    @property
    def steps(self) -> Sequence[Step]:
        """All steps, in order."""
        return self.course.simulation.steps

    @cached_property
    def changes(self) -> tuple[PodChange, ...]:
        """What happens to each pending or evicted pod: in the order of the queue, of evictions, and of creation."""
        simulation = self.course.simulation
        replaced_by = simulation.replaced_by
        origin = {new: old for old, new in replaced_by.items()}
        last = {pod: index for index, pod in enumerate(self.course.attempts)}
        latest: dict[int, int | None] = {queued.pod: queued.pod for queued in self.course.queue}
        removed: dict[int, Removal] = {}
        for removal in simulation.removals:
            first = row = removal.pod.row
            while first in origin:
                first = origin[first]
            if first in latest or not removal.pod.is_new:
                latest[first] = replaced_by.get(row)
                removed[first] = removal
        covered = set(latest.values())
        new = (row for row, pod in simulation.pods.items() if pod.is_new and not comes_with_node(simulation, pod))
        latest |= {row: row for row in new if row not in covered}
        changes = [self._change(first, current, removed.get(first), last) for first, current in latest.items()]
        return tuple(held_back(simulation, with_siblings(changes, self.after)))

    def _change(self, first: int, current: int | None, removal: Removal | None, last: dict[int, int]) -> PodChange:
        infos, names = self.after.pods.infos, self.after.nodes.names
        source = self._node(self.before, first)
        target = None if current is None else self._node(self.after, current)
        simulation = self.course.simulation
        # Nothing has come in its place because the same pods are evicted again and again.
        is_circling = removal is not None and bool(simulation.circle) and removal.pod.row in simulation.unreplaced
        if target is not None:
            action = Action.PLACED if source is None else Action.MOVED
        else:
            action = Action.EVICTED if current is None and not is_circling else Action.PENDING
        attempt = None if current is None else last.get(current)
        decision = None if attempt is None or target is not None else self.placements[attempt]
        reason = "" if decision is None else decision.message
        by = None if removal is None else removal.by
        return PodChange(
            action=action,
            pod=infos[first].key,
            workload=self._workload(first),
            from_node=None if source is None else names[source],
            to_node=None if target is None else names[target],
            by=by,
            recreated_as=None if current is None or current == first else infos[current].key,
            outcome=_PENDING_OUTCOMES[None if decision is None else decision.outcome],
            reason=KEEPS_BEING_EVICTED if is_circling and target is None else reason,
            attempt=attempt,
            because="" if removal is None or by is not None else removal.because,
            caused_by="waiting" if not self._waited.isdisjoint((infos[first].key, by)) else "change",
        )

    @cached_property
    def _waited(self) -> frozenset[str | None]:
        """The pods of the cluster that were pending before the question."""
        known, infos = len(self.before.node_of), self.after.pods.infos
        rows = (queued.pod for queued in self.course.queue)
        return frozenset(infos[row].key for row in rows if row < known and row not in self.pods.origins)

    def _workload(self, pod: int) -> str:
        origin = self.pods.origins.get(pod)
        if origin is not None:
            return "" if origin.kind == "Pod" else f"{origin.kind}/{origin.name}"
        info = self.after.pods.infos[pod]
        if info.controller is None:
            return ""
        _, kind, name = info.controller
        owner = self.course.simulation.workloads.owner(object_name(kind, info.namespace, name))
        return f"{kind}/{name}" if owner is None else f"{owner.workload.kind}/{owner.workload.name}"

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
            for queued in self.course.queue
            if queued.place in LEFT_ALONE and queued.pod not in self.pods.origins
        }
        counted = [placement for placement in self.placements if placement.pod.key not in left_alone]
        groups = pending_in_groups(self.course.simulation)
        return judge(
            counted,
            [*self.context.warnings, *self._endings()],
            chosen,
            pending_before=self._pending_before(),
            groups=groups,
            group_plans=group_plans(self.course.simulation, self.changes, with_remedies=False),
        )

    def _pending_before(self) -> frozenset[str]:
        """Return the pods that were pending before, beside the question, and the replacements of their victims."""
        infos, simulation = self.after.pods.infos, self.course.simulation
        names: set[str | None] = {infos[row].key for row in self.pods.pending_before}
        for removal in simulation.removals:
            replacement = simulation.replaced_by.get(removal.pod.row)
            if replacement is not None and not names.isdisjoint((removal.by, removal.pod.key)):
                names.add(infos[replacement].key)
        return frozenset(name for name in names if name)

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
        growth = self.growth
        adds = () if growth is None else growth.adds
        before = before_growth(self.before, self.after)
        node_of = {pod.key: pod.node for pod in self.course.simulation.pods.values()}
        shown: NodesOf = dict.fromkeys(range(len(self.placements)), ()) if nodes_of is None else nodes_of
        verdict = self.verdict(fail_on, command)
        groups = group_plans(self.course.simulation, self.changes)
        counts = with_more(summary(self.placements, groups), self.placements, self.more)
        return PlanReport(
            snapshot=self.context.snapshot,
            scheduler=self.context.scheduler,
            command=command,
            verdict=abridged(verdict, self.placements, self.more, max_listed),
            summary=PlanSummary(
                **{name: getattr(counts, name) for name in counts.__struct_fields__},
                placed=actions[Action.PLACED],
                moved=actions[Action.MOVED],
                evicted=actions[Action.EVICTED],
                pending=actions[Action.PENDING] + further,
                rounds=self.course.simulation.rounds,
            ),
            warnings=warnings,
            queue=self.queue[:max_listed],
            changes=changes,
            placements=with_new_nodes(
                tuple(
                    replace(document, ties=document.ties[:most_ties], ties_count=len(document.ties))
                    for document in placement_documents(
                        [self.placements[index] for index in attempts],
                        {place: shown[index] for place, index in enumerate(attempts) if index in shown},
                    )
                ),
                adds,
            ),
            max_listed=UNSET if max_listed is None else max_listed,
            unlisted=others,
            utilisation=utilisation(before, self.after),
            largest_fit=largest_fits(before, self.after),
            cluster=cluster_map(before, self.after) if with_map else UNSET,
            steps=tuple(self.steps),
            after=pods_at_rest(self.course.simulation),
            workloads=workload_changes(self.course.simulation, ()),
            nodes=UNSET if growth is None else node_changes(growth, node_of),
            groups=groups or UNSET,
            luck=UNSET if self.luck is None else self.luck(verdict.fail_on),
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

    def _endings(self) -> Iterator[InputWarning]:
        course = self.course
        yield from course.simulation.warnings
        yield from () if self.growth is None else self.growth.all_warnings
        yield from being_deleted(course.simulation.already_leaving)
        if course.simulation.circle:
            yield InputWarning("EvictionCycle", "", course.simulation.circle)
        if course.simulation.hit_limit:
            rounds = course.simulation.rounds
            message = f"the queue was still changing after {rounds} rounds; what is pending may yet be placed"
            yield InputWarning("RoundLimit", "", message)

    @property
    def queue(self) -> tuple[QueueEntry, ...]:
        return queue_entries(self.course.simulation.session, self.course.queue)


def plan_queue(base: Base, queue: WorkedOff) -> QueuePlan:
    """Work off a scheduling queue in a new fork."""
    question = queue.pods_of(base)
    opening = QueueOpening(base, queue, question)
    courses: list[QueueCourse] = []

    def begin() -> tuple[Session, Run]:
        courses.append(opening.begin())
        return courses[-1].simulation.session, iter(courses[-1])

    plan = decide(base, question, begin)
    simulation = courses[0].simulation
    note_stuck(simulation, workload_changes(simulation, ()))
    make_context = partial(in_whole_groups, plan.make_context)
    return QueuePlan(
        plan.placements,
        courses[0],
        question,
        base.session.cluster,
        fewest_nodes=plan.fewest_nodes,
        make_context=make_context,
    )


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
    entries = queue_entries(session, in_turn(session, question.rows))
    chosen = DEFAULT_FAIL_ON["plan"] if fail_on is None else fail_on
    n_at = Counter(entry.place for entry in entries)
    gated = [Counted(entry.pod, "Gated") for entry in entries if entry.place is QueuePlace.GATED and GATED in chosen]
    return QueueReport(
        snapshot=context.snapshot,
        scheduler=context.scheduler,
        verdict=Verdict.of(chosen, [*gated, *counted_warnings(context.warnings, chosen)]),
        summary=QueueSummary(
            pods=len(entries),
            active=n_at[QueuePlace.ACTIVE],
            gated=n_at[QueuePlace.GATED],
            foreign=n_at[QueuePlace.FOREIGN],
            deleting=n_at[QueuePlace.DELETING],
        ),
        warnings=context.warnings,
        queue=entries,
    )


def work_off(base: Base, queue: WorkedOff) -> QueuePlan:
    """Work off the scheduling queue, with preemption, on a private copy of the cluster; see `kplan.Planner`."""
    plan = plan_queue(base, queue)
    return telling_missing(plan, base) if queue.pods is None or queue.with_pending else plan
