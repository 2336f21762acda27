"""The state of workloads in a simulation: what they want, the pods they have, and their controllers' next actions.

Deployments with their replica sets are in `deployments`, jobs in `jobs`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from random import Random
from typing import ClassVar, Self

import msgspec
from msgspec.structs import replace

from kplan.api.core import PodTemplateSpec
from kplan.api.labels import Selector, valid_selector
from kplan.api.meta import LabelSelector
from kplan.api.names import WorkloadRef
from kplan.api.workloads import HorizontalPodAutoscaler, StatefulSet
from kplan.course.simulation.controllers import stateful_set
from kplan.course.simulation.controllers.daemon_set import DaemonLedger, Eligibility, WantedDaemonSet
from kplan.course.simulation.controllers.observed import Action, Create, IsOn, ObservedPod
from kplan.course.simulation.controllers.stateful_set import ON_DELETE, WantedStatefulSet
from kplan.workloads.expansion import MAX_REPLICAS

ON_EACH_NODE = "DaemonSet"

MOST_WAITING = 1000
"""How many pods of a workload that wants too many may wait for a node: further ones would wait as well."""


def compiled(selector: LabelSelector | None) -> Selector | None:
    """Return a selector in the form that matches labels; None where it is invalid or selects nothing."""
    matcher = valid_selector(selector)
    return None if matcher.is_nothing else matcher


class Bounds(msgspec.Struct, frozen=True):
    """The bounds within which a HorizontalPodAutoscaler keeps the number of replicas, whatever its metrics.

    Upstream: pkg/controller/podautoscaler/horizontal.go reconcileAutoscaler. It looks every 15 seconds, so here when
    nothing else moves any more.
    """

    name: str
    lowest: int
    highest: int

    def bound(self, replicas: int) -> int:
        """Return the number of replicas that the autoscaler sets at once; 0 replicas turn it off."""
        if replicas == 0 and self.lowest > 0:
            return 0
        return self.highest if replicas > self.highest else max(replicas, self.lowest)


def bounds_of(scalers: Iterable[HorizontalPodAutoscaler]) -> Bounds | None:
    """Return the bounds of a workload's only autoscaler; None where it has none, or several, of which none acts."""
    only = list(scalers)
    if len(only) != 1:
        return None
    spec = only[0].spec
    return Bounds(only[0].metadata.name, 1 if spec.min_replicas is None else spec.min_replicas, spec.max_replicas)


@dataclass
class Owner:
    """A workload that owns pods; what its kind of controller does is written in its class."""

    HAS_REVISIONS: ClassVar[bool] = False  #: its pods may be of several templates at a time
    ref: WorkloadRef
    templates: dict[str, PodTemplateSpec] = field(default_factory=dict)  #: revision -> pod template
    #: its active pods by row, in the order in which they joined
    pods: dict[int, ObservedPod] = field(default_factory=dict)
    terminating: dict[int, ObservedPod] = field(default_factory=dict)  #: its pods that are terminating, by row
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
        copied = object.__new__(type(self))  # as `copy.copy`, in a third of the time
        copied.__dict__.update(self.__dict__)
        copied.templates = self.templates.copy()
        copied.pods, copied.terminating = self.pods.copy(), self.terminating.copy()
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
        self.n_ready += sign * pod.is_ready
        self.n_available += sign * pod.is_available
        if not pod.node:
            self.n_waiting += sign * pod.is_new

    def keep(self, pod: ObservedPod) -> None:
        """Count a pod as terminating from now on."""
        self.terminating[pod.row] = pod

    def bury(self, pod: ObservedPod) -> None:
        del self.terminating[pod.row]

    def failed(self, pod: ObservedPod) -> str:  # noqa: ARG002 - most controllers ignore it
        """Return what to warn of where a pod is removed before it is done."""
        return ""


@dataclass
class StatefulSetState(Owner):
    """A stateful set."""

    HAS_REVISIONS = True
    wanted: WantedStatefulSet = field(default_factory=lambda: WantedStatefulSet(0))
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


@dataclass
class DaemonSetState(Owner):
    """A daemon set."""

    HAS_REVISIONS = True
    wanted: WantedDaemonSet = field(default_factory=lambda: WantedDaemonSet(""))
    has_revision: bool = False  #: the snapshot names its revisions
    generation: int = 1  #: of its template; pods with its label count as current whatever their template
    nodes: dict[str, Eligibility] = field(default_factory=dict)  #: whether each node should run its pod
    by_node: dict[str, list[ObservedPod]] = field(default_factory=dict)  #: node -> pods on it or meant for it
    #: what its controller does next on each node, where it is known
    ledger: DaemonLedger | None = field(default=None, repr=False, compare=False)

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
        self._put(pod.target, [*self.by_node.get(pod.target, ()), pod])
        super().join(pod)

    def settle(self, pod: ObservedPod) -> None:
        super().settle(pod)
        there = self.by_node.get(pod.target, ())
        self._put(pod.target, [pod if existing.row == pod.row else existing for existing in there])

    def leave(self, pod: ObservedPod) -> None:
        super().leave(pod)
        self._drop(pod)

    def keep(self, pod: ObservedPod) -> None:
        """See `Owner`; the pod stays on its node."""
        super().keep(pod)
        self._put(pod.target, [*self.by_node.get(pod.target, ()), pod])

    def bury(self, pod: ObservedPod) -> None:
        super().bury(pod)
        self._drop(pod)

    def _drop(self, pod: ObservedPod) -> None:
        self._put(pod.target, [existing for existing in self.by_node[pod.target] if existing.row != pod.row])

    def _put(self, node: str, pods: list[ObservedPod]) -> None:
        if pods:
            self.by_node[node] = pods
        else:
            self.by_node.pop(node, None)
        if self.ledger is not None:
            self.ledger.note(node, pods)

    def copy(self) -> Self:
        copied = super().copy()
        copied.by_node = self.by_node.copy()
        copied.ledger = None
        return copied


@dataclass
class ForeignState(Owner):
    """A controller that kplan does not know, or whose object is not in the snapshot: it recreates lost pods."""

    lost: list[str] = field(default_factory=list)  #: templates of pods that are gone and not recreated yet
    size: int = 0

    def actions(self, now: float, draws: Random | None = None) -> list[Action]:  # noqa: ARG002 - it recreates lost pods
        return [Create("its controller recreates it", revision) for revision in self.lost]

    def lose(self, pod: ObservedPod, *, is_node_there: bool) -> None:
        """Note that a pod is gone: a daemon set has no other for it where the node is gone that it was on."""
        if self.ref.kind == ON_EACH_NODE and not is_node_there:
            self.size -= 1
        else:
            self.lost.append(pod.revision)

    def copy(self) -> Self:
        copied = super().copy()
        copied.lost = self.lost.copy()
        return copied

    @property
    def desired(self) -> int:
        return self.size
