"""The question which pods would be evicted to make room."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kplan.questions.base import PLAIN, Manifest, PodName, Question, Showing

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.preemption_report import PreemptionReport


class Preempt(Question, frozen=True):
    """Asks which pods would be evicted to make room, and why these.

    Attributes
    ----------
    pods, manifests, namespace, replicas, run_cron_jobs : as for Place; without pods and manifests the question is about
        every pending pod that fits nowhere
    settle_preemption : carry out each preemption before the next pod is tried
    follow : tell where the victims go
    explain : tell for every candidate node which of its pods are spared
    """

    pods: tuple[PodName, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    namespace: str = ""
    replicas: int | None = None
    run_cron_jobs: bool = False
    settle_preemption: bool = False
    follow: bool = True
    explain: bool = False

    def answer(self, base: Base, showing: Showing = PLAIN) -> PreemptionReport:
        """Return the PreemptionReport."""
        from kplan.cluster.in_order import place_in_order
        from kplan.questions.preempt.document import follow_victims, pending_in_turn, preemption_report, without_room
        from kplan.questions.subjects import subject_of

        subject = subject_of(
            base,
            self.pods,
            self.manifests,
            namespace=self.namespace,
            replicas=self.replicas,
            run_cron_jobs=self.run_cron_jobs,
        )
        is_all = not self.pods and not self.manifests
        pods = pending_in_turn(base) if is_all else subject.pods
        plan = place_in_order(subject.base, pods, settle_preemption=self.settle_preemption)
        placements = without_room(plan.placements) if is_all else plan.placements
        followed = follow_victims(subject.base, pods) if self.follow else None
        return preemption_report(plan.context, placements, followed, fail_on=showing.fail_on, explain=self.explain)
