"""What is carried out in a cluster: a value, which decides with the cluster all that happens, and is asked again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from kplan.changes import values as c
from kplan.changes.timed import Timed, applied, read_changes
from kplan.cluster.base import Base, PodLike
from kplan.cluster.incoming import accepted_objects
from kplan.cluster.runs import QuestionPods
from kplan.course.clock import Clock
from kplan.facts import InputWarning
from kplan.reading.arguments import DEFAULT_MAX_ROUNDS, Rollout
from kplan.snapshot.defaults import DEFAULT_NAMESPACE
from kplan.workloads import WrittenWorkload
from kplan.workloads.manifests import Manifest
from kplan.workloads.manifests import read_changes as read_objects

Command = Literal["place", "plan", "drain"]


class WorkedOff(msgspec.Struct, frozen=True):
    """The scheduling queue worked off until nothing moves."""

    pods: tuple[PodLike, ...] | None = None  #: the pods in the queue; None for every pending pod
    with_pending: bool = False  #: add every pending pod; beside other pods the question is not about these
    recreate: bool = True  #: controllers create new pods for preempted ones
    max_rounds: int = DEFAULT_MAX_ROUNDS  #: it ends after so many; a new one begins when a pod is tried again

    @property
    def has_all_pending(self) -> bool:
        """Whether every pending pod is in it, so that it also tells what becomes of the cluster as it is."""
        return self.pods is None or self.with_pending

    def pods_of(self, base: Base) -> QuestionPods:
        return base.queue_of(self.pods, with_pending=self.with_pending)


class Task(msgspec.Struct, frozen=True):
    """Changes, and how they are carried out."""

    #: the changes; without a clock they follow one another, each when nothing moves any more
    steps: tuple[Timed, ...] = ()
    clock: Clock | None = None  #: how long everything takes; None where nothing takes time
    #: the scheduling queue, which is worked off first; with a clock its pods are tried at the start. None where the
    #: scheduler has tried all pending pods before
    queue: WorkedOff | None = None
    rollout: Rollout = "auto"  #: when workloads of the cluster roll out
    one_by_one: bool = False  #: without a clock, pods are evicted one after the other, each when nothing moves any more
    waits: bool = True  #: then in the end jobs that back off get time to recreate their pods
    removes_nodes: bool = False  #: with a clock, the autoscaler that is followed removes nodes, too
    namespace: str = ""  #: of pods that are named without one
    command: Command = "plan"  #: the command that asks for it
    #: KIND/NAMESPACE/NAME of the workloads of which it tells what they are at present; None for all, where it is about
    #: all pending pods
    tells_of: frozenset[str] | None = None
    tells_luck: bool = False  #: documents tell what depends on draws among equals
    warnings: tuple[InputWarning, ...] = ()  #: about manifests that are left out

    @property
    def workloads(self) -> list[WrittenWorkload]:
        return [workload for step in self.steps for workload in step.workloads]

    @property
    def is_queue(self) -> bool:
        """Whether nothing changes: it tells what becomes of pending pods."""
        return self.queue is not None and not self.steps

    @property
    def asks_about_queue(self) -> bool:
        """Whether it tells what becomes of the pods of its queue, which changes may follow."""
        return self.is_queue or (self.queue is not None and bool(self.queue.pods))

    @property
    def is_about_all(self) -> bool:
        """Whether it tells besides what becomes of the whole cluster."""
        return self.queue is not None and self.is_queue and self.queue.has_all_pending

    @property
    def carries_on(self) -> bool:
        """Whether controllers go on with what is under way in the cluster: where no pods are named, of all it tells."""
        names_pods = self.queue is None or bool(self.queue.pods)
        return self.is_queue and (self.tells_of is not None or (self.is_about_all and not names_pods))

    @property
    def options(self) -> c.DrainOptions:
        drains = (step.change for step in self.steps if isinstance(step.change, c.Drain))
        return next((drain.options for drain in drains if drain.options is not None), c.DrainOptions())

    def with_options(self, options: c.DrainOptions) -> Task:
        return replace(self, steps=tuple(step.with_options(options) for step in self.steps))


def deciding(clock: Clock | None, **more: Any) -> Task:
    """Return the task of a question that decides where pods go, with further fields of the task."""
    return Task(clock=clock, removes_nodes=bool(clock and clock.runs_for), tells_luck=clock is None, **more)


def applying(workloads: Sequence[WrittenWorkload], additions: Sequence[msgspec.Struct] = ()) -> tuple[Timed, ...]:
    """Return the steps of a task that applies what manifests say."""
    return (applied(workloads, additions),) if workloads or additions else ()


def read_manifests(
    base: Base, manifests: Iterable[Manifest], namespace: str | None
) -> tuple[list[WrittenWorkload], list[msgspec.Struct], list[InputWarning]]:
    """Return the workloads of manifests, other objects that the API server accepts, and which it refuses, and why."""
    workloads, objects, warnings = read_objects(manifests, namespace or DEFAULT_NAMESPACE)
    admitting, additions = accepted_objects(objects, base.objects, base.release.number)
    return workloads, additions, [*warnings, *admitting.warnings]


def read_steps(
    base: Base, changes: Iterable[Mapping[str, Any]], namespace: str | None
) -> tuple[tuple[Timed, ...], tuple[InputWarning, ...]]:
    """Return the changes of a timeline with their manifests read, and warnings about objects that are refused."""
    steps = [step for change in changes for step in read_changes(change)]
    warnings: list[InputWarning] = []
    for number, step in enumerate(steps):
        if isinstance(step.change, c.Apply):
            workloads, additions, refused = read_manifests(base, step.change.manifests, namespace)
            steps[number] = replace(step, workloads=workloads, additions=additions)
            warnings += refused
    return tuple(steps), tuple(warnings)
