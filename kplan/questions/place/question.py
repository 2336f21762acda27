"""The question where pods would land."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from kplan.errors import UsageError
from kplan.questions.base import PLAIN, Manifest, PodName, Question, Showing

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.placement import PlacementReport
    from kplan.documents.plan import PlanReport
    from kplan.odds.runs import Drawn
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

    def answer(self, base: Base, showing: Showing = PLAIN) -> PlacementReport | PlanReport:
        """Return the PlacementReport, or the PlanReport about workloads of the cluster."""
        subject = self._subject(base)
        if subject.update is not None:
            from kplan.effects.change import carry_out
            from kplan.effects.report import change_report

            base, workloads = subject.update
            change = carry_out(base, workloads, rollout=self.rollout)
            return change_report(base, change, "place", fail_on=showing.fail_on)
        from kplan.cluster.in_order import place_in_order

        plan = place_in_order(subject.base, subject.pods, settle_preemption=self.settle_preemption)
        return plan.report(fail_on=showing.fail_on)

    def _subject(self, base: Base) -> Subject:
        from kplan.questions.subjects import subject_of

        if not self.pods and not self.manifests:
            raise UsageError("nothing to place", hint="name pods or manifests")
        return subject_of(
            base,
            self.pods,
            self.manifests,
            namespace=self.namespace,
            replicas=self.replicas,
            run_cron_jobs=self.run_cron_jobs,
        )

    def drawn(self, base: Base) -> tuple[Base, Drawn, QuestionPods | None]:
        """Return the question to be asked many times: see :class:`~kplan.questions.many_runs.question.ManyRuns`."""
        from kplan.odds.of_changes import RolledOut
        from kplan.odds.of_pods import InOrder

        subject = self._subject(base)
        if subject.update is not None:
            return subject.update.base, RolledOut(tuple(subject.update.workloads), self.rollout), None
        question = InOrder(tuple(subject.pods), self.settle_preemption)
        return subject.base, question, question.resolve(subject.base)
