"""What all questions share, and manifests of workloads that run already, which are changes of them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import msgspec
from msgspec import UNSET
from msgspec.structs import replace

from kplan.catalogue import QUESTIONS, loaded
from kplan.course.asking import PLAIN, Showing
from kplan.reading.arguments import Manifest, Number

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.course.odds.runs import Drawn
    from kplan.course.subject import Subject
    from kplan.course.task import Task
    from kplan.documents.base import Head
    from kplan.documents.placement import Origin, PlacementReport
    from kplan.documents.plan import PlanReport


__all__ = ["PLAIN", "AboutPods", "PodName", "Question", "Showing", "question_type"]

R = TypeVar("R", "PlacementReport", "PlanReport")

PodName = str | dict[str, Any]  #: NAMESPACE/NAME of a pending pod, or a pod object


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

        own = (self.manifests, self.pods, self.namespace, self.replicas)
        return subject_of(base, *own, run_cron_jobs=self.run_cron_jobs)


def question_type(kind: str) -> type[Question]:
    """Return the struct of a kind of question, such as ``DrainQuestion``; raises KeyError where there is none."""
    struct: type[Question] = loaded(QUESTIONS[kind])
    return struct


def with_right_sizing(report: R, subject: Subject) -> R:
    """Return a report about pods of the cluster with the nodes that new requests free; that of manifests as it is."""
    is_resized = any(change.change == "resize" for change in subject.base.snapshot.changes or ())
    if subject.manifests is not None or not is_resized:
        return report
    from kplan.capacity.shrink import right_sizing

    return replace(report, right_sizing=right_sizing(subject.base))


def drawn_change(base: Base, task: Task) -> tuple[Base, Drawn]:
    """Return a task as it is drawn again and again, and its cluster."""
    from kplan.course.odds.of_changes import of_change

    return base, partial(of_change, task=task)


def change_of(
    base: Base, task: Task, showing: Showing, origins: Mapping[str, Origin] = {}, *, brings_nodes: bool = False
) -> PlanReport:
    """Carry a task out, and return the report about it; `origins` are the manifests of workloads.

    With `brings_nodes` the task itself adds nodes, also where no autoscaler does.
    """
    from kplan.course.carried_out import Decisions
    from kplan.course.carry_out import carry_out
    from kplan.course.report import change_report

    clock, decisions = task.clock, Decisions(showing, origins)
    change = carry_out(base, task, None if clock is None and showing.nodes is UNSET else decisions)
    if clock is not None:
        if clock.node_start and base.autoscaler is None and not brings_nodes:
            showing.tell_no_effect("node_start", "no autoscaler is followed, so that no node comes")
        clock.tell_unused(change.simulation.durations, showing)
    return change_report(change, decisions)
