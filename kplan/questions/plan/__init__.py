"""The questions about the whole scheduling queue and every rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from kplan.course.asking import PLAIN, Showing
from kplan.course.clock import Clock
from kplan.errors import ParameterError
from kplan.questions.base import AboutPods, PodName, Question, change_of, drawn_change, with_right_sizing
from kplan.reading.arguments import DEFAULT_MAX_ROUNDS, Manifest, Option, Positive, Rollout

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.course.odds.runs import Drawn
    from kplan.course.subject import Subject
    from kplan.course.task import Task
    from kplan.documents.plan import PlanReport, QueueReport


class Plan(AboutPods, frozen=True):
    """Asks what happens to the scheduling queue and to the rollouts of manifests, to the end.

    Attributes
    ----------
    pods, manifests, namespace, replicas, run_cron_jobs : as for Place; these pods join the queue
    rollout : replace the pods of a workload that runs already: if its template changes, always, or never
    only_these : only the pods given here, not the other pending pods of the cluster
    recreate : recreate evicted pods as their controllers do
    max_rounds : stop after N rounds over the pods that are left
    timeline : a clock, so that the answer says when everything happens
    """

    command: ClassVar[Literal["plan"]] = "plan"

    rollout: Annotated[Rollout, Option(more=True)] = "auto"
    only_these: Annotated[bool, Option("--only-given")] = False
    recreate: Annotated[bool, Option(more=True)] = True
    max_rounds: Annotated[Positive, Option("N", more=True)] = DEFAULT_MAX_ROUNDS
    timeline: Clock | None = None

    def check(self) -> None:
        if self.timeline is not None and self.only_these:
            raise ParameterError("{timeline} and {only_these} do not go together", hint="leave one of them out")

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> PlanReport:
        self.check()
        document = change_of(*subject.task(self._task(subject)), showing, subject.origins)
        return with_right_sizing(document, subject)

    def drawn(self, subject: Subject) -> tuple[Base, Drawn]:
        self.check()
        return drawn_change(*subject.task(self._task(subject)))

    def _task(self, subject: Subject) -> Task:
        """Return how the queue is worked off, and then manifests are applied."""
        from kplan.cluster.incoming import IncomingPod
        from kplan.course.task import WorkedOff, deciding

        pods = tuple(pod for pod in subject.pods if subject.manifests is None or not isinstance(pod, IncomingPod))
        queue = WorkedOff(pods, not self.only_these, self.recreate, self.max_rounds)
        return deciding(self.timeline, queue=queue, rollout=self.rollout)


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
        from kplan.course.subject import subject_of

        return subject_of(base, self.manifests, self.pods, namespace=self.namespace)

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> QueueReport:
        from kplan.course.queue_course import queue_report

        queued = subject.base.queue_of(subject.pods, with_pending=not self.only_these)
        return queue_report(subject.base, queued, fail_on=showing.fail_on)
