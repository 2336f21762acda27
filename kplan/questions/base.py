"""What all questions share, and manifests of workloads that run already, which are changes of them."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Literal

import msgspec
from msgspec import UNSET

from kplan.catalogue import QUESTIONS
from kplan.course.asking import PLAIN, Showing
from kplan.reading.arguments import Manifest, Number

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kplan.cluster.base import Base
    from kplan.course.carried_out import Decisions
    from kplan.course.clock import Clock
    from kplan.course.odds.runs import Drawn
    from kplan.course.queue_course import WorkedOff
    from kplan.course.subject import Subject
    from kplan.course.timeline import TimelinePlan
    from kplan.documents.base import Head
    from kplan.documents.plan import PlanReport
    from kplan.workloads.manifests import WrittenWorkload


__all__ = ["PLAIN", "AboutPods", "PodName", "Question", "RolloutMode", "Showing", "question_type"]

PodName = str | dict[str, Any]
"""NAMESPACE/NAME of a pending pod, or a pod object."""

RolloutMode = Literal["auto", "always", "never"]
"""Whether a workload of the cluster rolls out: where its template changes, always, or never."""


def _tag(name: str) -> str:
    return f"{name}Question"


class Question(
    msgspec.Struct, frozen=True, tag_field="kind", tag=_tag, rename="camel", omit_defaults=True, kw_only=True
):
    """A question with all of its parameters.

    As a document it has ``apiVersion: kplan/v1``, its ``kind``, such as ``DrainQuestion``, and its parameters.
    """

    api_version: Literal["kplan/v1"] = "kplan/v1"

    def answer(self, base: Base, showing: Showing = PLAIN) -> Head:
        """Return the document that answers the question, as the command prints it with ``-o json``.

        Raises KplanError when the question does not fit the cluster, or its manifests are invalid.

        Parameters
        ----------
        base : the cluster; is not changed
        """
        return self.answer_about(self.subject(base), showing)

    def subject(self, base: Base) -> Subject:
        from kplan.course.subject import Subject

        return Subject(base)

    def answer_about(self, subject: Subject, showing: Showing = PLAIN) -> Head:
        """Return the same as `answer`, about pods and manifests that are read already."""
        # A struct cannot have abstract methods: its metaclass is msgspec's own.
        raise NotImplementedError(type(self).__name__)

    def to_dict(self) -> dict[str, Any]:
        """Return the question as a document of plain values."""
        fields: dict[str, Any] = msgspec.to_builtins(self)
        return {"apiVersion": self.api_version, **fields}


class AboutPods(Question, frozen=True):
    """A question about pods and manifests.

    Attributes
    ----------
    pods : NAMESPACE/NAME of pending pods, or pod objects
    manifests : files, directories or objects; workloads of the cluster are updated as their controllers do it
    namespace : for objects that name none
    replicas : the number of pods of each workload, in place of its own
    run_cron_jobs : each cron job starts a run now
    """

    pods: tuple[PodName, ...] = ()
    manifests: tuple[Manifest, ...] = ()
    namespace: str = ""
    replicas: Number | None = None
    run_cron_jobs: bool = False

    def subject(self, base: Base) -> Subject:
        """Return the pods, and a cluster that holds the other objects of the manifests."""
        from kplan.course.subject import subject_of

        return subject_of(
            base,
            self.manifests,
            self.pods,
            namespace=self.namespace,
            replicas=self.replicas,
            run_cron_jobs=self.run_cron_jobs,
        )


def question_type(kind: str) -> type[Question]:
    """Return the struct of a kind of question, such as ``DrainQuestion``; raises KeyError where there is none."""
    module, _, name = QUESTIONS[kind].partition(":")
    struct: type[Question] = getattr(import_module(module), name)
    return struct


def change_of(
    subject: Subject,
    rollout: RolloutMode,
    command: str,
    showing: Showing,
    *,
    clock: Clock | None = None,
    queue: WorkedOff | None = None,
    even_new: bool = False,
    tells_luck: bool = True,
) -> PlanReport | None:
    """Return the report about manifests if any of them are in the cluster already; None where all are new.

    Parameters
    ----------
    clock : return the report also where all are new, or there are none, with the times at which all happens
    queue : is worked off before, whatever the manifests change; then there is a report also where all of them are new
    even_new : there is one also where all of them are new and no queue is worked off
    tells_luck : tell what depends on draws among equals
    """
    if clock is not None:
        from kplan.course.carried_out import Decisions
        from kplan.course.report import change_report

        decisions = Decisions.of(showing, subject.origins)
        base, change = applied_in_time(
            subject,
            clock,
            rollout,
            is_watched=command == "plan",
            removes_nodes=bool(clock.runs_for),
            decisions=decisions,
            queue=queue,
        )
        if clock.node_start and base.autoscaler is None:
            showing.tell_no_effect("node_start", "no autoscaler is followed, so that no node comes")
        clock.tell_unused(change, showing)
        return change_report(base, change, command, showing, decisions)
    update = subject.applied() if queue is not None else subject.update(even_new=even_new)
    if update is None:
        return None
    from kplan.course.carried_out import Decisions
    from kplan.course.change import carry_out
    from kplan.course.report import change_report

    base, workloads = update
    decisions = Decisions.of(showing, subject.origins)
    noted = None if showing.nodes is UNSET else decisions
    plan = carry_out(base, workloads, rollout=rollout, decisions=noted, queue=queue)
    if tells_luck:
        from kplan.course.odds.luck import with_luck

        plan = with_luck(plan, drawn_update(workloads, rollout, queue))
    return change_report(base, plan, command, showing, decisions)


def applied_in_time(
    subject: Subject,
    clock: Clock,
    rollout: RolloutMode = "auto",
    *,
    is_watched: bool,
    removes_nodes: bool,
    decisions: Decisions | None = None,
    queue: WorkedOff | None = None,
) -> tuple[Base, TimelinePlan]:
    """Apply the manifests of a question with a clock, and return its cluster and what happens.

    Parameters
    ----------
    is_watched : pending pods are tried again at the start, and it is noted how many wait, and how full the nodes are
    removes_nodes, decisions : as for `carry_out_in_time`
    queue : the pending pods, of which the question is about some, or about all
    """
    from kplan.changes.timed import applied
    from kplan.course.timeline import carry_out_in_time

    base, workloads = subject.applied()
    plan = carry_out_in_time(
        base,
        [applied(workloads)],
        clock,
        rollout=rollout,
        decisions=decisions,
        retries_pending=is_watched,
        subject_pods=_pods_in_question(base, workloads, queue),
        removes_nodes=removes_nodes,
        is_watched=is_watched,
    )
    return base, plan


def _pods_in_question(
    base: Base, workloads: Sequence[WrittenWorkload], queue: WorkedOff | None
) -> Collection[str] | None:
    """Return the pods of a queue that the question is about; None where it is about manifests alone."""
    if queue is None or (workloads and not queue.pods):
        return None
    from kplan.course.queue_course import subject_pods_of

    return subject_pods_of(base.session, queue.pods_of(base))


def drawn_in_time(
    subject: Subject, clock: Clock, rollout: RolloutMode, *, queue: WorkedOff | None = None
) -> tuple[Base, Drawn]:
    """Return the change with a clock as a question that is drawn many times, and its cluster."""
    from kplan.changes.timed import applied
    from kplan.course.odds.of_changes import in_time

    base, workloads = subject.applied()
    steps = (applied(workloads),)
    subject_pods = _pods_in_question(base, workloads, queue)
    return base, partial(
        in_time, steps=steps, clock=clock, rollout=rollout, retries_pending=queue is not None, subject_pods=subject_pods
    )


def drawn_update(workloads: Sequence[WrittenWorkload], rollout: RolloutMode, queue: WorkedOff | None = None) -> Drawn:
    """Return the change as a question that is drawn many times."""
    from kplan.course.odds.of_changes import rolled_out

    return partial(rolled_out, workloads=tuple(workloads), rollout=rollout, queue=queue)
