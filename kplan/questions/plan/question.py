"""The questions about the whole scheduling queue and every rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kplan.cluster.limits import DEFAULT_MAX_ROUNDS
from kplan.questions.base import PLAIN, Manifest, PodName, Question, Showing
from kplan.questions.subjects import Subject, subject_of

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.plan import PlanReport
    from kplan.documents.queue import QueueReport
    from kplan.odds.runs import Drawn
    from kplan.subjects.question_pods import QuestionPods


class Plan(Question, frozen=True):
    """Asks what happens to the scheduling queue and to the rollouts of manifests, to the end.

    Attributes
    ----------
    pods, manifests, namespace, replicas, rollout, run_cron_jobs : as for Place; these pods join the queue
    only_these : leave out the other pending pods of the cluster
    recreate : controllers create evicted pods again
    max_rounds : stop after so many rounds over the pods that are left
    """

    pods: tuple[PodName, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    namespace: str = ""
    replicas: int | None = None
    rollout: Literal["auto", "always", "never"] = "auto"
    run_cron_jobs: bool = False
    only_these: bool = False
    recreate: bool = True
    max_rounds: int = DEFAULT_MAX_ROUNDS

    def answer(self, base: Base, showing: Showing = PLAIN) -> PlanReport:
        """Return the PlanReport."""
        subject = self._subject(base)
        if subject.update is not None:
            from kplan.effects.change import carry_out
            from kplan.effects.report import change_report

            base, workloads = subject.update
            return change_report(
                base, carry_out(base, workloads, rollout=self.rollout), "plan", fail_on=showing.fail_on
            )
        from kplan.effects.queued import work_off

        plan = work_off(
            subject.base,
            subject.pods,
            with_pending=not self.only_these,
            recreate=self.recreate,
            max_rounds=self.max_rounds,
        )
        return plan.report(fail_on=showing.fail_on)

    def drawn(self, base: Base) -> tuple[Base, Drawn, QuestionPods | None]:
        """Return the question to be asked many times: see :class:`~kplan.questions.many_runs.question.ManyRuns`."""
        from kplan.odds.of_changes import RolledOut
        from kplan.odds.of_pods import InQueue

        subject = self._subject(base)
        if subject.update is not None:
            return subject.update.base, RolledOut(tuple(subject.update.workloads), self.rollout), None
        question = InQueue(tuple(subject.pods), not self.only_these, self.recreate, self.max_rounds)
        return subject.base, question, question.resolve(subject.base)

    def _subject(self, base: Base) -> Subject:
        return subject_of(
            base,
            self.pods,
            self.manifests,
            namespace=self.namespace,
            replicas=self.replicas,
            run_cron_jobs=self.run_cron_jobs,
        )


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

    def answer(self, base: Base, showing: Showing = PLAIN) -> QueueReport:
        """Return the QueueReport."""
        from kplan.effects.queue_plan import queue_report

        subject = subject_of(base, self.pods, self.manifests, namespace=self.namespace)
        queued = subject.base.queue_of(subject.pods, with_pending=not self.only_these)
        return queue_report(subject.base, queued, fail_on=showing.fail_on)
