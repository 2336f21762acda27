"""The questions about the whole scheduling queue and every rollout."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec.structs import replace

from kplan.course.asking import PLAIN, Showing
from kplan.course.clock import Clock
from kplan.errors import ParameterError
from kplan.questions.base import AboutPods, PodName, Question, RolloutMode
from kplan.reading.arguments import DEFAULT_MAX_ROUNDS, Manifest, Option, Positive

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.course.odds.runs import Drawn
    from kplan.course.queue_course import WorkedOff
    from kplan.course.subject import Subject
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

    rollout: Annotated[RolloutMode, Option(more=True)] = "auto"
    only_these: Annotated[bool, Option("--only-given")] = False
    recreate: Annotated[bool, Option(more=True)] = True
    max_rounds: Annotated[Positive, Option("N", more=True)] = DEFAULT_MAX_ROUNDS
    timeline: Clock | None = None

    def check(self) -> None:
        """Raise ParameterError for what does not go with a clock."""
        if self.timeline is not None and self.only_these:
            raise ParameterError("{timeline} and {only_these} do not go together", hint="leave one of them out")

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> PlanReport:
        from kplan.questions.base import change_of

        self.check()
        document = change_of(
            subject, self.rollout, self.command, showing, clock=self.timeline, queue=self._queue(subject)
        )
        assert document is not None  # noqa: S101 - there is one even without manifests
        if subject.manifests is not None or not subject.has_new_requests:
            return document
        from kplan.capacity.headroom import right_sizing

        return replace(document, right_sizing=right_sizing(subject.base))

    def drawn(self, subject: Subject) -> tuple[Base, Drawn]:
        """Return the question to be asked many times: see :class:`~kplan.questions.many_runs.ManyRuns`."""
        from kplan.course.odds.of_changes import in_queue
        from kplan.questions.base import drawn_update

        self.check()
        if self.timeline is not None:
            from kplan.questions.base import drawn_in_time

            return drawn_in_time(subject, self.timeline, self.rollout, queue=self._queue(subject))
        queue = self._queue(subject)
        if subject.manifests is None:
            return subject.base, partial(in_queue, queue=queue)
        base, workloads = subject.applied()
        return base, drawn_update(workloads, self.rollout, queue)

    def _queue(self, subject: Subject) -> WorkedOff:
        """Return the queue that is worked off before manifests are applied."""
        from kplan.cluster.incoming import IncomingPod
        from kplan.course.queue_course import WorkedOff

        pods = tuple(pod for pod in subject.pods if subject.manifests is None or not isinstance(pod, IncomingPod))
        return WorkedOff(pods, not self.only_these, self.recreate, self.max_rounds)


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
        from kplan.course.subject import subject_of

        return subject_of(base, self.manifests, self.pods, namespace=self.namespace)

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> QueueReport:
        from kplan.course.queue_course import queue_report

        queued = subject.base.queue_of(subject.pods, with_pending=not self.only_these)
        return queue_report(subject.base, queued, fail_on=showing.fail_on)
