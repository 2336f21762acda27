"""The question what the autoscaler does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from kplan.effects.clock import Clock
from kplan.errors import ParameterError
from kplan.questions.base import PLAIN, AboutPods, Showing

if TYPE_CHECKING:
    from kplan.documents.nodes_report import NodesReport
    from kplan.effects.subject import Subject


class Nodes(AboutPods, frozen=True):
    """Asks which nodes the autoscaler would add, remove or replace, and why each other node stays.

    Attributes
    ----------
    pods, manifests, namespace, replicas, run_cron_jobs : pods that are pending, too, where kube-scheduler works first
    settles : kube-scheduler and the controllers work first, until nothing moves
    full : include the decision in the autoscaler's own terms
    loops : seconds at which the cluster-autoscaler looks; None for as long as it waits before it removes a node
    timeline : a clock: the autoscaler looks again and again, nodes come and go, and pods move meanwhile
    """

    settles: bool = False
    full: bool = False
    loops: tuple[float, ...] | None = (0.0,)
    timeline: Clock | None = None

    def check(self) -> None:
        """Raise ParameterError for what does not go with a clock."""
        for name, is_set in (("full", self.full), ("loops", self.loops not in (None, (0.0,)))):
            if self.timeline is not None and is_set:
                raise ParameterError(f"{{timeline}} and {{{name}}} do not go together", hint="leave one of them out")

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> NodesReport:
        """Return the NodesReport."""
        from kplan.answers.verdict import NONE
        from kplan.questions.nodes.document import as_scheduled, following, nodes_report

        self.check()
        if self.timeline is not None:
            from kplan.questions.nodes.in_time import nodes_in_time

            return nodes_in_time(subject, self.timeline, showing)
        base = subject.base
        if self.settles:
            base = following(as_scheduled(following(base, None), subject.pods), base.autoscaler)
        fail_on = (NONE,) if showing.fail_on is None else showing.fail_on
        document = nodes_report(base, full=self.full, loops=self.loops, fail_on=fail_on, with_map=showing.with_map)
        return replace(document, snapshot=subject.base.context().snapshot)
