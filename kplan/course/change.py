"""The answer of `Planner.plan_queue`, `roll_out`, `drain` and `timeline`: a task carried out, and its report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import structs

from kplan.changes import values as c
from kplan.changes.timed import Timed, read_changes
from kplan.cluster.base import Base
from kplan.cluster.incoming import accepted_objects
from kplan.course.answers.plan import Reported
from kplan.course.asking import Showing
from kplan.course.carried_out import CarriedOut, Decisions
from kplan.course.carry_out import carry_out
from kplan.course.report import change_report
from kplan.course.task import Task
from kplan.diagnosis.explanation import Shown
from kplan.documents.base import Condition
from kplan.facts import InputWarning
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.workloads.manifests import Manifest, WrittenWorkload
from kplan.workloads.manifests import read_changes as read_objects

if TYPE_CHECKING:
    from kplan.documents.plan import PlanReport


@dataclass(frozen=True)
class ChangePlan(Reported, CarriedOut):
    """A task that was carried out. Its pickle is the task, which the copy carries out again, with the same end."""

    def __reduce__(self) -> tuple[Any, ...]:
        return plan_of, (self.origin, self.task)

    def report(self, *, fail_on: Sequence[Condition] | None = None, with_map: bool = False) -> PlanReport:
        """Return the report that the command prints; without a clock all is carried out once more, for its decisions.

        `fail_on`: what makes the verdict a failure; None for the defaults of the command. `with_map`: list every node
        before and after.
        """
        shown = Shown()
        decisions = Decisions(nodes=shown, others=shown, covers_all=True)
        change = self if self.task.clock is not None else carry_out(self.origin, self.task, decisions)
        return change_report(change, Showing(fail_on=fail_on, nodes=shown, with_map=with_map), decisions)


def plan_of(base: Base, task: Task) -> ChangePlan:
    change = carry_out(base, task)
    return ChangePlan(**{field.name: getattr(change, field.name) for field in fields(change)})


class WrittenManifests(msgspec.Struct, frozen=True):
    """The objects of manifests."""

    workloads: list[WrittenWorkload]
    additions: list[msgspec.Struct]  #: other objects that the API server accepts
    warnings: tuple[InputWarning, ...]  #: which objects it refuses, and why


def read_manifests(base: Base, manifests: Iterable[Manifest], namespace: str | None) -> WrittenManifests:
    """Read manifests, and put objects other than workloads through admission; parameters as for `roll_out`."""
    workloads, objects, warnings = read_objects(manifests, namespace or DEFAULT_NAMESPACE)
    admitting, additions = accepted_objects(objects, base.objects, base.release.number)
    return WrittenManifests(workloads, additions, (*warnings, *admitting.warnings))


def read_steps(
    base: Base, changes: Iterable[Mapping[str, Any]], namespace: str | None
) -> tuple[tuple[Timed, ...], tuple[InputWarning, ...]]:
    """Return the changes of a timeline with their manifests read, and warnings about objects that are refused."""
    steps: list[Timed] = []
    warnings: list[InputWarning] = []
    for step in (one for change in changes for one in read_changes(change)):
        if isinstance(step.change, c.Apply):
            written = read_manifests(base, step.change.manifests, namespace)
            warnings += written.warnings
            step = structs.replace(step, workloads=written.workloads, additions=written.additions)  # noqa: PLW2901 - the same, read
        steps.append(step)
    return tuple(steps), tuple(warnings)
