"""The questions about the whole scheduling queue and every rollout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kplan.cluster.limits import DEFAULT_MAX_ROUNDS
from kplan.questions.base import AskAll, Manifest, PodName, Question
from kplan.questions.subjects import Subject, subject_of

if TYPE_CHECKING:
    from kplan.documents.base import Condition
    from kplan.documents.plan import PlanReport
    from kplan.documents.queue import QueueReport
    from kplan.odds.runs import Drawn
    from kplan.planner.planner import Planner
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

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> PlanReport:
        """Return the PlanReport."""
        subject = self._subject(planner)
        if subject.update is not None:
            from kplan.effects.change import carry_out
            from kplan.effects.report import change_report

            base, workloads = subject.update
            return change_report(base, carry_out(base, workloads, rollout=self.rollout), "plan", fail_on=fail_on)
        plan = subject.planner.plan_queue(
            subject.pods, with_pending=not self.only_these, recreate=self.recreate, max_rounds=self.max_rounds
        )
        return plan.report(fail_on=fail_on)

    def drawn(self, planner: Planner) -> tuple[Planner, Drawn, QuestionPods | None]:
        """Return the question to be asked many times: see :class:`~kplan.questions.many_runs.question.ManyRuns`."""
        from kplan.odds.of_changes import RolledOut
        from kplan.odds.of_pods import InQueue

        subject = self._subject(planner)
        if subject.update is not None:
            return subject.update.planner, RolledOut(tuple(subject.update.workloads), self.rollout), None
        question = InQueue(tuple(subject.pods), not self.only_these, self.recreate, self.max_rounds)
        return subject.planner, question, question.resolve(subject.planner)

    def _subject(self, planner: Planner) -> Subject:
        return subject_of(
            planner,
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

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> QueueReport:
        """Return the QueueReport."""
        from kplan.effects.queue_plan import queue_report

        subject = subject_of(planner, self.pods, self.manifests, namespace=self.namespace)
        queued = subject.planner.queue_of(subject.pods, with_pending=not self.only_these)
        return queue_report(subject.planner, queued, fail_on=fail_on)
