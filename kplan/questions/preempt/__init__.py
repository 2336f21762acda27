"""The question which pods would be evicted to make room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import UNSET
from msgspec.structs import replace

from kplan.course.asking import PLAIN, Showing
from kplan.questions.base import AboutPods
from kplan.reading.arguments import Option

if TYPE_CHECKING:
    from kplan.course.subject import Subject
    from kplan.documents.placement import PreemptionReport


class Preempt(AboutPods, frozen=True):
    """Asks which pods would be evicted to make room, and why these.

    Attributes
    ----------
    pods, manifests, namespace, replicas, run_cron_jobs : as for Place; without pods and manifests the question is about
        every pending pod that fits nowhere
    settle_preemption : carry out each preemption and place its pod before the next one is tried
    follow : tell where the victims go
    explain : tell for every candidate node which of its pods are spared
    """

    settle_preemption: Annotated[bool, Option()] = False
    follow: bool = True
    explain: bool = False

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> PreemptionReport:
        from kplan.course.answers.plan import before_growth
        from kplan.course.answers.utilisation import cluster_map
        from kplan.course.carried_out import Decisions
        from kplan.course.in_order import place_in_order
        from kplan.course.odds.luck import luck_of_change
        from kplan.course.report import ChangedPods
        from kplan.course.task import WorkedOff
        from kplan.questions.preempt.document import follow_victims, pending_in_turn, preemption_report, without_room

        is_all = subject.is_choice or not (subject.pods or subject.manifests)
        pods = subject.pods if subject.is_choice or not is_all else pending_in_turn(subject.base)
        plan = place_in_order(subject.base, pods, settle_preemption=self.settle_preemption)
        placements = without_room(plan.placements) if is_all else plan.placements
        report = preemption_report(
            plan,
            placements,
            fail_on=showing.fail_on,
            nodes_of=None if showing.nodes is UNSET else dict.fromkeys(range(len(placements)), showing.nodes),
            explain=self.explain,
        )
        looked_at = {placement.pod.key for placement in placements}
        fits = {one.pod.key: one.node for one in plan.placements if one.pod.key not in looked_at and one.node}
        report = replace(report, fits=fits or UNSET)
        if not self.follow:
            return report
        aftermath, course = follow_victims(subject.base, WorkedOff(tuple(pods)))
        before, after = subject.base.session.cluster, course.simulation.cluster
        return replace(
            report,
            aftermath=aftermath,
            cluster=cluster_map(before_growth(before, after), after) if showing.with_map else UNSET,
            luck=luck_of_change(course, ChangedPods(course, Decisions()).changes, report.verdict.fail_on),
        )
