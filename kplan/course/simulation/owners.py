"""The state of workloads in a simulation: what they want, the pods they have, and what their controllers do next."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from random import Random
from typing import ClassVar, Self

import msgspec
from msgspec.structs import replace

from kplan.api.core import PodTemplateSpec
from kplan.api.kinds import DAEMON_SET
from kplan.api.labels import Selector, valid_selector
from kplan.api.meta import LabelSelector
from kplan.api.names import WorkloadRef
from kplan.api.pod import ENDED
from kplan.api.workloads import ON_DELETE, Deployment, ReplicaSet, StatefulSet
from kplan.course.simulation.controllers import deployment, replica_set, stateful_set
from kplan.course.simulation.controllers.daemon_set import DaemonLedger, Eligibility, WantedDaemonSet
from kplan.course.simulation.controllers.deployment import ObservedReplicaSet, Scale, WantedDeployment
from kplan.course.simulation.controllers.observed import Action, Create, IsOn, ObservedPod
from kplan.course.simulation.controllers.stateful_set import WantedStatefulSet
from kplan.workloads.autoscalers import Bounds
from kplan.workloads.expansion import MAX_REPLICAS
from kplan.workloads.new_pods import replica_set_of

MOST_WAITING = 1000
"""How many pods of a workload that wants too many may wait for a node: further ones would wait as well."""


def compiled(selector: LabelSelector | None) -> Selector | None:
    """Return a selector in the form that matches labels; None where it is invalid or selects nothing."""
    matcher = valid_selector(selector)
    return None if matcher.is_nothing else matcher


class Owner(msgspec.Struct):
    """A workload that owns pods; what its kind of controller does is written in its class."""

    HAS_REVISIONS: ClassVar[bool] = False  #: its pods may be of several templates at a time
    COPIED: ClassVar[tuple[str, ...]] = ("templates", "pods", "terminating")  #: fields of which a copy has its own
    ref: WorkloadRef
    templates: dict[str, PodTemplateSpec] = {}  #: revision -> pod template
    #: its active pods by row, in the order in which they joined
    pods: dict[int, ObservedPod] = {}
    terminating: dict[int, ObservedPod] = {}  #: its pods that are terminating, by row
    min_ready: int = 0  #: ``minReadySeconds``
    selector: Selector | None = None  #: which pods it takes over that have no controller; None for none
    n_looked_at: int = 0  #: how many orphans of its namespace it has looked at
    #: n_ready, n_available: how many of its pods are ready, and have been so for long enough
    n_ready: int = 0
    n_available: int = 0
    n_created: int = 0  #: how many of its pods were created in this simulation
    n_waiting: int = 0  #: how many of those are pending
    refusal: str = ""  #: why the API server refused its last pod; empty when it accepted

    def copy(self) -> Self:
        """Return a copy, which changes independently."""
        copied = replace(self)
        for field in self.COPIED:
            setattr(copied, field, getattr(self, field).copy())
        return copied

    def actions(self, now: float, draws: Random | None = None) -> list[Action]:
        """Return the next actions of its controller; `draws` decides what a real one leaves to the order of a map."""
        raise NotImplementedError

    def template_of(self, revision: str) -> PodTemplateSpec:
        return self.templates[revision]

    def template_key(self, pod: ObservedPod) -> tuple[str, str]:
        """Return what is equal for its pods of one template: its key, and the revision where it has several."""
        return self.ref.key, pod.revision if self.HAS_REVISIONS else ""

    @property
    def desired(self) -> int:
        """How many pods it wants."""
        raise NotImplementedError

    @property
    def owners(self) -> Collection[Owner]:
        """What owns its pods: a deployment's replica sets, or the workload itself."""
        return (self,)

    @property
    def workload(self) -> WorkloadRef:
        """The workload that a user knows: the deployment of a replica set, where it has one."""
        return self.ref

    @property
    def scale(self) -> int:
        """How many pods a disruption budget in percent counts from."""
        return self.desired

    def keep_within(self, bounds: Bounds) -> bool:  # noqa: ARG002 - others have a number of replicas
        """Scale it to the bound that it is beyond; tell whether it was beyond one."""
        return False

    def is_current(self, pod: ObservedPod) -> bool:  # noqa: ARG002 - others look at it
        return True

    def n_current(self, pods: Sequence[ObservedPod]) -> int:
        """Return how many of its pods are of the template that it wants."""
        if self.HAS_REVISIONS:
            return sum(map(self.is_current, pods))
        return len(pods) if pods and self.is_current(pods[0]) else 0

    @property
    def is_cut_short(self) -> bool:
        """Whether it wants too many pods, and enough exist to know how further ones would fare."""
        return (self.n_waiting >= MOST_WAITING or self.n_created >= MAX_REPLICAS) and self.desired > MAX_REPLICAS

    def join(self, pod: ObservedPod) -> None:
        self.n_created += pod.is_new
        self.pods[pod.row] = pod
        self._count(pod, 1)

    def settle(self, pod: ObservedPod) -> None:
        """Update a pod: it has a node now, or is ready."""
        self._count(self.pods[pod.row], -1)
        self.pods[pod.row] = pod
        self._count(pod, 1)

    def leave(self, pod: ObservedPod) -> None:
        self._count(self.pods.pop(pod.row), -1)

    def _count(self, pod: ObservedPod, sign: int) -> None:
        """Count an active pod, or discount it (sign -1)."""
        if pod.is_ready:
            self.n_ready += sign
            self.n_available += sign * pod.is_available
        if not pod.node:
            self.n_waiting += sign * pod.is_new

    def keep(self, pod: ObservedPod) -> None:
        """Count a pod as terminating from now on."""
        self.terminating[pod.row] = pod

    def bury(self, pod: ObservedPod) -> None:
        del self.terminating[pod.row]


class StatefulSetState(Owner):
    """A stateful set."""

    HAS_REVISIONS = True
    wanted: WantedStatefulSet = WantedStatefulSet(0)
    has_revision: bool = False  #: its status or the snapshot names its revisions
    n_claims: int = 0  #: claims of each pod: how many ``volumeClaimTemplates`` it has
    deletes_claims: bool = False  #: claims of pods that are scaled away are deleted (whenScaled Delete)

    def actions(self, now: float, draws: Random | None = None) -> list[Action]:  # noqa: ARG002 - it chooses by number, not by age
        return stateful_set.actions(self.wanted, (*self.pods.values(), *self.terminating.values()))

    def want(self, obj: StatefulSet, current: str, update: str, is_on: IsOn) -> None:
        """Want what an object says; `current` and `update` are the names of its revisions."""
        self.wanted = WantedStatefulSet.of(obj, current, update, is_on)
        self.min_ready = obj.spec.min_ready_seconds
        policy = obj.spec.persistent_volume_claim_retention_policy
        self.deletes_claims = policy is not None and policy.when_scaled == "Delete"

    def keep_within(self, bounds: Bounds) -> bool:
        before, self.wanted = self.wanted, replace(self.wanted, replicas=bounds.bound(self.wanted.replicas))
        return self.wanted != before

    def template_of(self, revision: str) -> PodTemplateSpec:
        """See `Owner`; the update revision's template where the snapshot does not have that of a revision."""
        return self.templates.get(revision) or self.templates[self.wanted.update]

    @property
    def desired(self) -> int:
        return self.wanted.replicas

    def is_current(self, pod: ObservedPod) -> bool:
        return pod.revision == self.wanted.update

    def gives_up_claims_of(self, index: int | None) -> bool:
        """Tell whether the claims of a pod that is gone are deleted, as the set is scaled below its ordinal."""
        ordinals = range(self.wanted.start, self.wanted.start + self.wanted.replicas)
        return self.deletes_claims and index is not None and index not in ordinals

    def complete(self) -> None:
        """Make the update revision the current one once all pods have it. Upstream: completeRollingUpdate."""
        if self.wanted.strategy == ON_DELETE:
            return
        if len(self.pods) == self.n_ready == self.wanted.replicas and all(map(self.is_current, self.pods.values())):
            self.wanted = replace(self.wanted, current=self.wanted.update)


class DaemonSetState(Owner):
    """A daemon set."""

    HAS_REVISIONS = True
    COPIED = (*Owner.COPIED, "by_node")
    wanted: WantedDaemonSet = WantedDaemonSet("")
    has_revision: bool = False  #: the snapshot names its revisions
    generation: int = 1  #: of its template; pods with its label count as current whatever their template
    nodes: dict[str, Eligibility] = {}  #: whether each node should run its pod
    by_node: dict[str, list[ObservedPod]] = {}  #: node -> pods on it or meant for it
    #: what its controller does next on each node, where it is known
    ledger: DaemonLedger | None = None

    def actions(self, now: float, draws: Random | None = None) -> list[Action]:  # noqa: ARG002 - age does not matter
        self.ledger = self._present_ledger or DaemonLedger(self.wanted, self.nodes, self.by_node)
        return self.ledger.actions(draws)

    @property
    def _present_ledger(self) -> DaemonLedger | None:
        ledger = self.ledger
        return ledger if ledger is not None and ledger.wanted is self.wanted and ledger.nodes is self.nodes else None

    @property
    def desired(self) -> int:
        ledger = self._present_ledger
        return sum(node.should_run for node in self.nodes.values()) if ledger is None else ledger.desired

    def is_current(self, pod: ObservedPod) -> bool:
        return pod.revision == self.wanted.revision

    def join(self, pod: ObservedPod) -> None:
        super().join(pod)
        self._note(pod)

    def settle(self, pod: ObservedPod) -> None:
        super().settle(pod)
        self._note(pod)

    def leave(self, pod: ObservedPod) -> None:
        super().leave(pod)
        self._note(pod, is_there=False)

    def keep(self, pod: ObservedPod) -> None:
        """See `Owner`; the pod stays on its node."""
        super().keep(pod)
        self._note(pod)

    def bury(self, pod: ObservedPod) -> None:
        super().bury(pod)
        self._note(pod, is_there=False)

    def _note(self, pod: ObservedPod, *, is_there: bool = True) -> None:
        """Note a pod on its node; an adopted pod without one is left alone. Upstream: GetTargetNodeName."""
        node = pod.target or pod.node
        if not node:
            return
        pods = {existing.row: existing for existing in self.by_node.get(node, ())}
        if is_there:
            pods[pod.row] = pod
        else:
            pods.pop(pod.row, None)
        if pods:
            self.by_node[node] = [*pods.values()]
        else:
            self.by_node.pop(node, None)
        if self.ledger is not None:
            self.ledger.note(node, self.by_node.get(node, ()))

    def copy(self) -> Self:
        copied = super().copy()
        copied.ledger = None
        return copied


class ForeignState(Owner):
    """A controller that kplan does not know, or whose object is not in the snapshot: it recreates lost pods."""

    COPIED = (*Owner.COPIED, "lost")
    lost: list[str] = []  #: templates of pods that are gone and not recreated yet
    size: int = 0

    def actions(self, now: float, draws: Random | None = None) -> list[Action]:  # noqa: ARG002 - it recreates lost pods
        return [Create("its controller recreates it", revision) for revision in self.lost]

    def lose(self, pod: ObservedPod, *, is_node_there: bool) -> None:
        """Note that a pod is gone: a daemon set has no other for it where the node is gone that it was on."""
        if self.ref.kind == DAEMON_SET and not is_node_there:
            self.size -= 1
        else:
            self.lost.append(pod.revision)

    @property
    def desired(self) -> int:
        return self.size


class ReplicaSetState(Owner):
    """A replica set or a replication controller."""

    COPIED = (*Owner.COPIED, "related")
    replicas: int = 0
    template: bytes = b""  #: identity of its template, to compare with that of its deployment
    age: int = 0  #: position in the order of creation, the oldest first
    labels: dict[str, str] = {}  #: its own, by which a deployment takes it over
    #: its deployment's replicas, and replicas with surge, when it last scaled the set; None where not known
    annotated: tuple[int | None, int | None] = (None, None)
    because: str = ""
    parent: DeploymentState | None = None
    is_controlled: bool = False  #: it has an owner; without one its controller looks for no related pods
    #: node -> its active pods there; those of all sets of a deployment count together
    related: dict[str, int] = {}
    number: int = 0  #: of its revision, as the deployment controller notes it; 0 where it does not

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


class RolloutProgress(msgspec.Struct, frozen=True):
    """How a rollout gets on, as status and Progressing condition tell. Upstream: controller/deployment/progress.go."""

    is_complete: bool = True
    is_timed_out: bool = False
    is_paused: bool = False  #: nothing is expected of it, and the clock starts anew when it is resumed
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
    is_whole: bool = True  #: the snapshot has its template with all fields
    min_ready: int = 0  #: ``minReadySeconds``
    deadline: int | None = None  #: ``progressDeadlineSeconds``; None for none
    progress: RolloutProgress = RolloutProgress()  #: how its rollout gets on, with a clock

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

    def new_set(self) -> ReplicaSet:
        """Return the replica set that it makes of its template."""
        new = replica_set_of(self.ref.as_controller, self.ref.namespace, self.spec, self.selector, self.revision)
        metadata = replace(new.metadata, uid=new.metadata.key)
        return replace(new, metadata=metadata, spec=replace(new.spec, min_ready_seconds=self.min_ready))

    def adopt(self, replica_set: ReplicaSetState) -> None:
        self.sets[replica_set.ref.name] = replica_set
        for node, n in replica_set.related.items():
            self.related[node] = self.related.get(node, 0) + n
        replica_set.parent, replica_set.is_controlled = self, True
        replica_set.related = self.related

    def copy(self) -> DeploymentState:
        """Return a copy, with copies of its replica sets."""
        copied = replace(self)
        copied.related = self.related.copy()
        copied.reported, copied.pace = self.reported.copy(), self.pace.copy()
        copied.sets = {}
        for name, state in self.sets.items():
            copied_set = copied.sets[name] = state.copy()
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
        """Its replica set of the current template: the oldest, as upstream's FindNewReplicaSet has it.

        Where templates are known only in part, those of former revisions may look the same.
        """
        matching = [state for state in self.sets.values() if state.template == self.template]
        if self.is_whole:
            return min(matching, key=lambda state: state.age, default=None)
        return max(matching, key=lambda state: (state.number, state.replicas > 0, state.age), default=None)

    def actions(self) -> list[Scale]:
        current, observed = self.current, []
        for name, state in self.sets.items():
            counts = (state.age, state.replicas, *self.reported.get(name, (0, 0)), *state.annotated)
            terminating = sum(pod.phase not in ENDED for pod in state.terminating.values())
            observed.append(ObservedReplicaSet(name, state is current, *counts, terminating))
        return deployment.actions(self.wanted, observed)

    def note_progress(self, now: float) -> float | None:
        """Note how the rollout gets on; return when the deadline for further progress is over, None for no deadline."""
        sets, current = self.sets.values(), self.current
        updated = 0 if current is None else len(current.pods)
        old = sum(len(state.pods) for state in sets) - updated
        ready, available = sum(state.n_ready for state in sets), sum(state.n_available for state in sets)
        before, wanted = self.progress, self.wanted.replicas
        counts = RolloutProgress(updated=updated, old=old, ready=ready, available=available)
        if before.is_complete and old == 0:
            self.progress = replace(counts, is_complete=True)
            return None
        if self.wanted.paused:
            is_timed_out = before.is_timed_out
            self.progress = replace(counts, is_complete=False, is_timed_out=is_timed_out, is_paused=not is_timed_out)
            return None
        is_complete = updated == available == wanted and old == 0
        has_grown = updated > before.updated or ready > before.ready or available > before.available
        if is_complete or before.is_complete or before.is_paused or old < before.old or has_grown:
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
        before, self.reported = self.reported, reports
        return reports != before


Workload = Owner | DeploymentState
"""What has pods of its own, and a deployment, which has replica sets for that."""
