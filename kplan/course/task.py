"""What is carried out in a cluster: a value, which decides with the cluster all that happens, and is asked again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from kplan.changes import values as c
from kplan.changes.timed import Timed, applied
from kplan.cluster.base import Base, PodLike
from kplan.cluster.workload_pods import QuestionPods
from kplan.course.clock import Clock
from kplan.course.simulation.applying import Rollout
from kplan.facts import InputWarning
from kplan.reading.arguments import DEFAULT_MAX_ROUNDS
from kplan.workloads.manifests import WrittenWorkload

Command = Literal["place", "plan", "drain"]


class WorkedOff(msgspec.Struct, frozen=True):
    """The scheduling queue worked off until nothing moves.

    Attributes
    ----------
    pods : the pods in the queue; None for every pending pod
    with_pending : add every pending pod; beside other pods the question is not about these
    recreate : controllers create new pods for preempted ones
    max_rounds : it ends after so many rounds; a new one begins when a pod is tried again
    """

    pods: tuple[PodLike, ...] | None = None
    with_pending: bool = False
    recreate: bool = True
    max_rounds: int = DEFAULT_MAX_ROUNDS

    @property
    def has_all_pending(self) -> bool:
        """Whether every pending pod is in it, so that it also tells what becomes of the cluster as it is."""
        return self.pods is None or self.with_pending

    def pods_of(self, base: Base) -> QuestionPods:
        """Return the pods as rows of the planner's sessions."""
        return base.queue_of(self.pods, with_pending=self.with_pending)


class Task(msgspec.Struct, frozen=True):
    """Changes, and how they are carried out.

    Attributes
    ----------
    steps : the changes; without a clock they follow one another, each when nothing moves any more
    clock : how long everything takes; None where nothing takes time
    queue : the scheduling queue, which is worked off first; with a clock its pods are tried at the start. None where
        the scheduler has tried all pending pods before
    rollout : when workloads of the cluster roll out
    one_by_one : without a clock, pods are evicted one after the other, each when nothing moves any more
    waits : then in the end jobs that back off get time to recreate their pods
    removes_nodes : with a clock, the autoscaler that is followed removes nodes, too
    namespace : of pods that are named without one
    command : the command that asks for it
    tells_luck : documents tell what depends on draws among equals
    warnings : about manifests that are left out
    """

    steps: tuple[Timed, ...] = ()
    clock: Clock | None = None
    queue: WorkedOff | None = None
    rollout: Rollout = "auto"
    one_by_one: bool = False
    waits: bool = True
    removes_nodes: bool = False
    namespace: str = ""
    command: Command = "plan"
    tells_luck: bool = False
    warnings: tuple[InputWarning, ...] = ()

    @property
    def workloads(self) -> list[WrittenWorkload]:
        return [workload for step in self.steps for workload in step.workloads]

    @property
    def is_queue(self) -> bool:
        """Whether nothing changes: it tells what becomes of pending pods."""
        return self.queue is not None and not self.steps

    @property
    def is_about_all(self) -> bool:
        """Whether it tells besides what becomes of the whole cluster."""
        return self.queue is not None and self.is_queue and self.queue.has_all_pending

    @property
    def options(self) -> c.DrainOptions:
        drains = (step.change for step in self.steps if isinstance(step.change, c.Drain))
        return next((drain.options for drain in drains if drain.options is not None), c.DrainOptions())

    def with_options(self, options: c.DrainOptions) -> Task:
        return replace(self, steps=tuple(step.with_options(options) for step in self.steps))


def applying(workloads: Sequence[WrittenWorkload], additions: Sequence[msgspec.Struct] = (), **more: object) -> Task:
    """Return the task to apply what manifests say, with further fields of the task."""
    steps = (applied(workloads, additions),) if workloads or additions else ()
    return replace(Task(steps), **more)
