"""The question where pods would land."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from kplan.errors import UsageError
from kplan.questions.base import AskAll, Manifest, PodName, Question

if TYPE_CHECKING:
    from kplan.documents.base import Condition
    from kplan.documents.placement import PlacementReport
    from kplan.documents.plan import PlanReport
    from kplan.odds.runs import Drawn
    from kplan.planner.planner import Planner
    from kplan.questions.subjects import Subject
    from kplan.subjects.question_pods import QuestionPods


class Place(Question, frozen=True):
    """Asks where these pods would land, one after the other.

    Attributes
    ----------
    pods : NAMESPACE/NAME of pending pods, or pod objects
    manifests : files, directories or objects; workloads of the cluster are updated as their controllers do it
    namespace : for objects that name none
    replicas : the number of pods of each workload, in place of its own
    rollout : whether a workload of the cluster rolls out: where its template changes, always, or never
    run_cron_jobs : each cron job starts a run now
    settle_preemption : evict the victims of preemption, and try the pod again
    """

    pods: tuple[PodName, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    namespace: str = ""
    replicas: int | None = None
    rollout: Literal["auto", "always", "never"] = "auto"
    run_cron_jobs: bool = False
    settle_preemption: bool = False

    def answer(
        self, planner: Planner, *, fail_on: Sequence[Condition] | None = None, ask_all: AskAll | None = None
    ) -> PlacementReport | PlanReport:
        """Return the PlacementReport, or the PlanReport about workloads of the cluster."""
        subject = self._subject(planner)
        if subject.update is not None:
            from kplan.effects.change import carry_out
            from kplan.effects.report import change_report

            base, workloads = subject.update
            change = carry_out(base, workloads, rollout=self.rollout)
            return change_report(base, change, "place", fail_on=fail_on)
        plan = subject.planner.plan(subject.pods, settle_preemption=self.settle_preemption)
        return plan.report(fail_on=fail_on)

    def _subject(self, planner: Planner) -> Subject:
        from kplan.questions.subjects import subject_of

        if not self.pods and not self.manifests:
            raise UsageError("nothing to place", hint="name pods or manifests")
        return subject_of(
            planner,
            self.pods,
            self.manifests,
            namespace=self.namespace,
            replicas=self.replicas,
            run_cron_jobs=self.run_cron_jobs,
        )

    def drawn(self, planner: Planner) -> tuple[Planner, Drawn, QuestionPods | None]:
        """Return the question to be asked many times: see :class:`~kplan.questions.many_runs.question.ManyRuns`."""
        from kplan.odds.of_changes import RolledOut
        from kplan.odds.of_pods import InOrder

        subject = self._subject(planner)
        if subject.update is not None:
            return subject.update.planner, RolledOut(tuple(subject.update.workloads), self.rollout), None
        question = InOrder(tuple(subject.pods), self.settle_preemption)
        return subject.planner, question, question.resolve(subject.planner)
