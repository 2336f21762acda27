"""The question what the autoscaler does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec.structs import replace

from kplan.course.asking import PLAIN, Showing
from kplan.course.clock import Clock, Seconds
from kplan.errors import ParameterError, UsageError
from kplan.questions.base import AboutPods
from kplan.reading.arguments import Option

if TYPE_CHECKING:
    from kplan.course.subject import Subject
    from kplan.documents.remedies import NodesReport


def _seconds(text: str) -> tuple[float, ...]:
    try:
        return tuple(float(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--loops {text}: expected seconds with commas between", hint="such as 0,10,610") from None


class Nodes(AboutPods, frozen=True):
    """Asks which nodes the autoscaler would add, remove or replace, and why each other node stays.

    Attributes
    ----------
    pods, manifests, namespace, replicas, run_cron_jobs : pods that are pending, too, where kube-scheduler works first
    settles : kube-scheduler and the controllers work first, until nothing moves
    full : add the whole decision, in the autoscaler's own terms, to JSON and YAML
    loops : seconds at which the cluster-autoscaler looks, such as 0,10 (default: until nothing is left to remove)
    timeline : a clock: the autoscaler looks again and again, nodes come and go, and pods move meanwhile
    """

    settles: bool = False
    full: Annotated[bool, Option()] = False
    loops: Annotated[tuple[Seconds, ...] | None, Option("SECONDS,...", read=_seconds)] = (0.0,)
    timeline: Clock | None = None

    def check(self) -> None:
        for name, is_set in (("full", self.full), ("loops", self.loops not in (None, (0.0,)))):
            if self.timeline is not None and is_set:
                raise ParameterError(f"{{timeline}} and {{{name}}} do not go together", hint="leave one of them out")

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> NodesReport:
        from kplan.questions.nodes.document import as_scheduled, decided_in_time, decided_now, following

        self.check()
        base = subject.base
        if self.timeline is not None:
            document = decided_in_time(subject, self.timeline, showing)
        elif self.settles:
            rest = as_scheduled(following(base, None), subject.pods)
            document = decided_now(following(rest, base.autoscaler), self.loops, showing, full=self.full)
        else:
            document = decided_now(base, self.loops, showing, full=self.full)
        return replace(document, snapshot=base.context().snapshot)
