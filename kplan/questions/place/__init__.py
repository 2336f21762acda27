"""The question where pods would land."""

from __future__ import annotations

from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal

from msgspec import UNSET

from kplan.course.asking import PLAIN, Showing
from kplan.course.clock import Clock
from kplan.errors import ParameterError, UsageError
from kplan.questions.base import AboutPods, change_of, drawn_change, with_right_sizing
from kplan.reading.arguments import Option, Rollout

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kplan.cluster.base import Base
    from kplan.course.answers.placement import Placement
    from kplan.course.answers.plan import NodesOf
    from kplan.course.odds.runs import Drawn
    from kplan.course.subject import Subject
    from kplan.course.task import Task
    from kplan.documents.placement import PlacementReport
    from kplan.documents.plan import PlanReport


class Place(AboutPods, frozen=True):
    """Asks where these pods would land, one after the other.

    Attributes
    ----------
    rollout : replace the pods of a workload that runs already: if its template changes, always, or never
    settle_preemption : evict the victims of preemption, and try the pod again
    timeline : a clock, so that the answer about manifests says when everything happens
    """

    command: ClassVar[Literal["place"]] = "place"

    rollout: Annotated[Rollout, Option(more=True)] = "auto"
    settle_preemption: bool = False
    timeline: Clock | None = None

    def subject(self, base: Base) -> Subject:
        if not self.pods and not self.manifests:
            raise UsageError("nothing to place", hint="name pods or manifests")
        return super().subject(base)

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> PlacementReport | PlanReport:
        """Return the PlacementReport, or the PlanReport about workloads of the cluster."""
        from kplan.course.in_order import place_in_order

        self._check(subject)
        if self.timeline is not None or subject.has_updates:
            return change_of(*subject.task(self._task()), showing, subject.origins)
        plan = place_in_order(
            subject.base,
            subject.pods,
            settle_preemption=self.settle_preemption,
            shown=showing.explained,
            explains_all=showing.explains_all_alike(len(subject.pods)),
        )
        if not plan.is_roomy:
            from kplan.course.odds.luck import with_luck_in_order

            plan = with_luck_in_order(subject.base, plan, subject.pods, settle_preemption=self.settle_preemption)
        document = plan.report(
            fail_on=showing.fail_on,
            nodes_of=nodes_to_show(plan.placements, showing),
            max_listed=showing.max_listed,
            with_map=showing.with_map,
        )
        return with_right_sizing(document, subject)

    def _check(self, subject: Subject) -> None:
        if self.timeline is not None and (subject.names_pods or subject.manifests is None):
            hint = "give manifests, or ask kplan plan {timeline} for when pending pods run"
            raise ParameterError("{timeline} needs manifests", hint=hint)

    def _task(self) -> Task:
        from kplan.course.task import deciding

        return deciding(self.timeline, rollout=self.rollout, command=self.command)

    def drawn(self, subject: Subject) -> tuple[Base, Drawn]:
        self._check(subject)
        if self.timeline is not None or subject.has_updates:
            return drawn_change(*subject.task(self._task()))
        from kplan.course.odds.of_pods import of_pods

        return subject.base, partial(of_pods, pods=tuple(subject.pods), settle_preemption=self.settle_preemption)


def nodes_to_show(placements: Sequence[Placement], showing: Showing) -> NodesOf | None:
    """Return the nodes of each placement, all for the first of each outcome of a workload; None for all of them."""
    if showing.only_outcomes:
        return {}
    if showing.nodes is UNSET:
        return None
    from kplan.documents.base import MOST_DAEMONS
    from kplan.framework.results import Outcome
    from kplan.questions.place.view import representatives, workload_groups

    groups = workload_groups([placement.pod for placement in placements])
    chosen = representatives([(placement.outcome, placement.message) for placement in placements], groups)
    # Each pod of a DaemonSet is meant for another node.
    daemons = (index for index, one in enumerate(placements) if one.pod.is_daemon)
    unplaced = (index for index in daemons if placements[index].outcome is not Outcome.SCHEDULED)
    return showing.nodes_of(len(placements), chosen.union(islice(unplaced, MOST_DAEMONS)), showing.others)
