"""Deployments and their replica sets as the simulation keeps them."""

from __future__ import annotations

import copy
import math
from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random
from typing import Self

import msgspec
from msgspec.structs import replace

from kplan.api.core import PodTemplateSpec
from kplan.api.meta import LabelSelector
from kplan.api.names import WorkloadRef
from kplan.api.workloads import Deployment
from kplan.course.simulation.controllers import deployment, replica_set
from kplan.course.simulation.controllers.deployment import ObservedReplicaSet, Scale, WantedDeployment
from kplan.course.simulation.controllers.observed import Action, ObservedPod
from kplan.course.simulation.owners import Bounds, Owner


@dataclass
class ReplicaSetState(Owner):
    """A replica set or a replication controller."""

    replicas: int = 0
    template: bytes = b""  #: identity of its template, to compare with that of its deployment
    age: int = 0  #: position in the order of creation, the oldest first
    labels: dict[str, str] = field(default_factory=dict)  #: its own, by which a deployment takes it over
    #: its deployment's replicas, and replicas with surge, when it last scaled the set; None where not known
    annotated: tuple[int | None, int | None] = (None, None)
    because: str = ""
    parent: DeploymentState | None = None
    is_controlled: bool = False  #: it has an owner; without one its controller looks for no related pods
    #: node -> its active pods there; those of all sets of a deployment count together
    related: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Self:
        copied = super().copy()
        copied.related = self.related.copy()
        return copied

    @property
    def workload(self) -> WorkloadRef:
        return self.ref if self.parent is None else self.parent.ref

    @property
    def scale(self) -> int:
        return self.desired if self.parent is None else self.parent.wanted.replicas

    def actions(self, now: float, draws: Random | None = None) -> list[Action]:
        related = self.related if self.is_controlled else {}
        return replica_set.actions(self.replicas, self.pods.values(), related, now, because=self.because, draws=draws)

    @property
    def desired(self) -> int:
        return self.replicas

    def keep_within(self, bounds: Bounds) -> bool:
        before, self.replicas = self.replicas, bounds.bound(self.replicas)
        if self.replicas != before:
            self.because = f"autoscaler {bounds.name} ({bounds.lowest}-{bounds.highest})"
        return self.replicas != before

    def is_current(self, pod: ObservedPod) -> bool:  # noqa: ARG002 - all its pods are
        return self.parent is None or self.template == self.parent.template

    def _count(self, pod: ObservedPod, sign: int) -> None:
        super()._count(pod, sign)
        if pod.node:
            self.related[pod.node] = self.related.get(pod.node, 0) + sign


class Progress(msgspec.Struct, frozen=True):
    """How a rollout gets on, as status and Progressing condition tell. Upstream: controller/deployment/progress.go."""

    is_complete: bool = True
    is_timed_out: bool = False
    since: float = 0.0  #: when it got on last, in whole seconds since 1970
    updated: int = 0  #: pods of the current template
    old: int = 0  #: other pods
    #: ready, available: pods of all templates
    ready: int = 0
    available: int = 0


_DEFAULT_PROGRESS_DEADLINE, _NO_PROGRESS_DEADLINE = 600, 2**31 - 1


class DeploymentState(msgspec.Struct):
    """A deployment."""

    ref: WorkloadRef
    wanted: WantedDeployment
    template: bytes  #: identity of its template
    spec: PodTemplateSpec
    selector: LabelSelector
    revision: str
    sets: dict[str, ReplicaSetState] = {}  #: its replica sets by name
    related: dict[str, int] = {}  #: node -> active pods of all its sets
    #: replica set -> available pods and pods, as the deployment controller knows them: as they were when it looked
    #: last, for what came of that is reported only while it goes on
    reported: dict[str, tuple[int, int]] = {}
    #: replica set -> how many more of its pods it reports as available next: pods created together become ready in
    #: batches of one, two, four and so on, and the first of them are reported before the last
    pace: dict[str, int] = {}
    n_looked_at: int = 0  #: how many replica sets without a controller in its namespace it has looked at
    refusal: str = ""  #: why the API server refused its new replica set; empty when it accepted
    min_ready: int = 0  #: ``minReadySeconds``
    deadline: int | None = None  #: ``progressDeadlineSeconds``; None for none
    progress: Progress = Progress()  #: how its rollout gets on, with a clock

    def want(self, obj: Deployment) -> bool:
        """Want what an object says; tell whether that is another number of replicas, or a pause."""
        before, self.wanted = self.wanted, WantedDeployment.of(obj)
        self.min_ready = obj.spec.min_ready_seconds
        seconds = obj.spec.progress_deadline_seconds
        self.deadline = {None: _DEFAULT_PROGRESS_DEADLINE, _NO_PROGRESS_DEADLINE: None}.get(seconds, seconds)
        return (self.wanted.replicas, self.wanted.paused) != (before.replicas, before.paused)

    def keep_within(self, bounds: Bounds) -> bool:
        """Scale it to the bound that it is beyond; tell whether it was beyond one."""
        before, self.wanted = self.wanted, replace(self.wanted, replicas=bounds.bound(self.wanted.replicas))
        return self.wanted != before

    def adopt(self, replica_set: ReplicaSetState) -> None:
        self.sets[replica_set.ref.name] = replica_set
        for node, n in replica_set.related.items():
            self.related[node] = self.related.get(node, 0) + n
        replica_set.parent, replica_set.is_controlled = self, True
        replica_set.related = self.related

    def copy(self) -> DeploymentState:
        """Return a copy, with copies of its replica sets."""
        copied = copy.copy(self)
        copied.related = self.related.copy()
        copied.reported, copied.pace = self.reported.copy(), self.pace.copy()
        copied.sets = {}
        for name, state in self.sets.items():
            copied_set = copied.sets[name] = Owner.copy(state)
            copied_set.parent, copied_set.related = copied, copied.related
        return copied

    @property
    def owners(self) -> Collection[ReplicaSetState]:
        return self.sets.values()

    @property
    def desired(self) -> int:
        return self.wanted.replicas

    @property
    def current(self) -> ReplicaSetState | None:
        matching = [state for state in self.sets.values() if state.template == self.template]
        return min(matching, key=lambda state: state.age, default=None)

    def actions(self) -> list[Scale]:
        current = self.current
        return deployment.actions(
            self.wanted,
            [
                ObservedReplicaSet(
                    state.ref.name,
                    state is current,
                    state.age,
                    state.replicas,
                    *self.reported.get(state.ref.name, (0, 0)),
                    *state.annotated,
                    len(state.terminating),
                )
                for state in self.sets.values()
            ],
        )

    def note_progress(self, now: float) -> float | None:
        """Note how the rollout gets on; return when the deadline for further progress is over, None for no deadline."""
        sets, current = self.sets.values(), self.current
        updated = 0 if current is None else len(current.pods)
        old = sum(len(state.pods) for state in sets) - updated
        ready, available = sum(state.n_ready for state in sets), sum(state.n_available for state in sets)
        before, wanted = self.progress, self.wanted.replicas
        counts = Progress(updated=updated, old=old, ready=ready, available=available)
        if before.is_complete and old == 0:
            self.progress = replace(counts, is_complete=True)
            return None
        is_complete = updated == available == wanted and old == 0
        has_progressed = (
            before.is_complete
            or updated > before.updated
            or old < before.old
            or ready > before.ready
            or available > before.available
        )
        if is_complete or has_progressed:
            self.progress = replace(counts, is_complete=is_complete, since=math.floor(now))
        else:
            is_late = self.deadline is not None and before.since + self.deadline < now
            is_timed_out = before.is_timed_out or is_late
            self.progress = replace(counts, is_complete=False, since=before.since, is_timed_out=is_timed_out)
        if self.deadline is None or self.progress.is_complete or self.progress.is_timed_out:
            return None
        return self.progress.since + self.deadline + 1

    def observe_status(self) -> bool:
        """Read the status of the replica sets; tell whether it has changed."""
        reports = {}
        for name, state in self.sets.items():
            known = self.reported.get(name, (0, 0))[0] if self.reported else state.n_available
            available = min(state.n_available, known + self.pace.get(name, 1))
            self.pace[name] = self.pace.get(name, 1) * 2 if available < state.n_available else 1
            reports[name] = (available, len(state.pods))
        has_changed = reports != self.reported
        self.reported = reports
        return has_changed
