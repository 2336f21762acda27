"""The questions about the whole scheduling queue and every rollout."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, ClassVar, Literal

from msgspec import UNSET
from msgspec.structs import replace

from kplan.cluster.asking import PLAIN, Showing
from kplan.cluster.limits import DEFAULT_MAX_ROUNDS, Positive
from kplan.effects.clock import Clock
from kplan.errors import ParameterError
from kplan.questions.base import AboutPods, Manifest, PodName, Question, RolloutMode

if TYPE_CHECKING:
    from kplan.answers.placement_report import NodesOf
    from kplan.cluster.base import Base, PodLike
    from kplan.documents.plan import PlanReport
    from kplan.documents.queue import QueueReport
    from kplan.effects.queue_course import WorkedOff
    from kplan.effects.queue_plan import QueuePlan
    from kplan.effects.subject import Subject
    from kplan.odds.runs import Drawn


class Plan(AboutPods, frozen=True):
    """Asks what happens to the scheduling queue and to the rollouts of manifests, to the end.

    Attributes
    ----------
    pods, manifests, namespace, replicas, run_cron_jobs : as for Place; these pods join the queue
    rollout : whether a workload of the cluster rolls out: where its template changes, always, or never
    only_these : leave out the other pending pods of the cluster
    recreate : controllers create evicted pods again
    max_rounds : stop after so many rounds over the pods that are left
    timeline : a clock, so that the answer says when everything happens
    """

    command: ClassVar[Literal["plan"]] = "plan"

    rollout: RolloutMode = "auto"
    only_these: bool = False
    recreate: bool = True
    max_rounds: Positive = DEFAULT_MAX_ROUNDS
    timeline: Clock | None = None

    def check(self) -> None:
        """Raise ParameterError for what does not go with a clock."""
        if self.timeline is not None and self.only_these:
            raise ParameterError("{timeline} and {only_these} do not go together", hint="leave one of them out")

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> PlanReport:
        """Return the PlanReport."""
        from kplan.questions.updates import change_of

        self.check()
        queue = self._before(subject)
        change = change_of(subject, self.rollout, self.command, showing, clock=self.timeline, queue=queue)
        if change is not None:
            return change
        from kplan.capacity.right_sizing import right_sizing
        from kplan.effects.queue_plan import MOST_TIES, work_off
        from kplan.odds.luck import with_luck_in_queue

        worked_off = self._queue(tuple(subject.pods))
        plan = with_luck_in_queue(subject.base, work_off(subject.base, worked_off), worked_off)
        document = plan.report(
            fail_on=showing.fail_on,
            nodes_of=nodes_to_show(plan, showing),
            most_ties=None if showing.explain else MOST_TIES,
            with_map=showing.with_map,
            max_listed=showing.max_listed,
        )
        return document if subject.manifests is not None else replace(document, right_sizing=right_sizing(subject.base))

    def drawn(self, subject: Subject) -> tuple[Base, Drawn]:
        """Return the question to be asked many times: see :class:`~kplan.questions.many_runs.question.ManyRuns`."""
        from kplan.odds.of_queues import in_queue
        from kplan.questions.updates import drawn_update

        self.check()
        if self.timeline is not None:
            from kplan.questions.updates import drawn_in_time

            return drawn_in_time(subject, self.timeline, self.rollout, retries_pending=True)
        queue = self._before(subject)
        update = subject.update(even_new=queue is not None)
        if update is not None:
            return update.base, drawn_update(update.workloads, self.rollout, queue)
        return subject.base, partial(in_queue, queue=self._queue(tuple(subject.pods)))

    def _queue(self, pods: tuple[PodLike, ...]) -> WorkedOff:
        from kplan.effects.queue_course import WorkedOff

        return WorkedOff(pods, not self.only_these, self.recreate, self.max_rounds)

    def _before(self, subject: Subject) -> WorkedOff | None:
        """Return the queue that is worked off before new manifests are applied; None for those of running workloads."""
        from kplan.subjects.incoming import IncomingPod

        if subject.manifests is None or subject.has_updates:
            return None
        return self._queue(tuple(pod for pod in subject.pods if not isinstance(pod, IncomingPod)))


class Queue(Question, frozen=True):
    """Asks in which order the scheduler would try the pending pods.

    Attributes
    ----------
    pods, manifests, namespace : as for Plan
    only_these : leave out the other pending pods of the cluster
    """

    pods: tuple[PodName, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    namespace: str = ""
    only_these: bool = False

    def subject(self, base: Base) -> Subject:
        """Return the pods, and a cluster that holds the other objects of the manifests."""
        from kplan.effects.subject import subject_of

        return subject_of(base, self.manifests, self.pods, namespace=self.namespace)

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> QueueReport:
        """Return the QueueReport."""
        from kplan.effects.queue_plan import queue_report

        queued = subject.base.queue_of(subject.pods, with_pending=not self.only_these)
        return queue_report(subject.base, queued, fail_on=showing.fail_on)


def nodes_to_show(plan: QueuePlan, showing: Showing) -> NodesOf | None:
    """Return the nodes to show for each placement: none for those of which tables show none.

    None shows no nodes for any placement.
    """
    if showing.nodes is UNSET:
        return None
    from kplan.questions.plan.view import attempts_in_full

    others = showing.others if showing.explain else ()
    return showing.nodes_of(len(plan.placements), attempts_in_full(plan.changes), others)
