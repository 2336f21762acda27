"""Workloads as the simulation keeps them: what they ask for, the pods they have, what their controllers say next."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Self

from kplan.api.core import PodTemplateSpec
from kplan.api.meta import LabelSelector
from kplan.simulation.controllers import daemon_set, deployment, job, replica_set, stateful_set
from kplan.simulation.controllers.daemon_set import Eligibility, WantedDaemonSet
from kplan.simulation.controllers.deployment import ObservedReplicaSet, Scale, WantedDeployment
from kplan.simulation.controllers.job import WantedJob
from kplan.simulation.controllers.observed import Action, Create, ObservedPod
from kplan.simulation.controllers.stateful_set import WantedStatefulSet
from kplan.workloads.replicas import MOST_MADE

MOST_WAITING = 1000
"""Of a workload that asks for more pods than can be, no more wait for a node: the next ones end as these do."""


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    """Which workload; names that pods know their controller by."""

    kind: str
    namespace: str
    name: str
    uid: str = ""
    api_version: str = "apps/v1"

    @property
    def key(self) -> str:
        """KIND/NAMESPACE/NAME."""
        return f"{self.kind}/{self.namespace}/{self.name}"


@dataclass
class Owner(ABC):
    """A workload that owns pods."""

    ref: WorkloadRef  #: who it is
    templates: dict[str, PodTemplateSpec] = field(default_factory=dict)  #: revision -> what pods are made from
    #: its active pods by row, in the order in which they came
    pods: dict[int, ObservedPod] = field(default_factory=dict)
    n_ready: int = 0  #: how many of its pods are ready
    n_made: int = 0  #: how many pods were made for it during this simulation
    n_waiting: int = 0  #: how many of those have no node
    #: node -> its active pods there; replica sets of one deployment count together
    related: Counter[str] = field(default_factory=Counter)
    parent: DeploymentState | None = None
    refusal: str = ""

    def copy(self) -> Self:
        """Return a workload that can change without this one noticing."""
        twin = copy.copy(self)
        twin.templates = self.templates.copy()
        twin.pods = self.pods.copy()
        twin.related = self.related.copy()
        return twin

    @abstractmethod
    def actions(self, now: float) -> list[Action]:
        """Ask its controller what to do next."""

    @property
    @abstractmethod
    def desired(self) -> int:
        """How many pods it wants."""

    @property
    def workload(self) -> WorkloadRef:
        """What people call it: a replica set's deployment where it has one."""
        return self.ref if self.parent is None else self.parent.ref

    @property
    def scale(self) -> int:
        """What a budget in percent counts from."""
        return self.desired if self.parent is None else self.parent.wanted.replicas

    def is_current(self, pod: ObservedPod) -> bool:  # noqa: ARG002 - others look at it
        """Tell whether a pod is made from the template that now holds."""
        return True

    @property
    def is_made_no_further(self) -> bool:
        """Whether it asks for more than can be, and so many pods were made, or wait, that further ones tell nothing."""
        return self.desired > MOST_MADE and (self.n_waiting >= MOST_WAITING or self.n_made >= MOST_MADE)

    def join(self, pod: ObservedPod) -> None:
        """Take in a pod."""
        self.n_made += pod.is_new
        self.n_waiting += pod.is_new
        self.pods[pod.row] = pod
        if pod.node:
            self.settle(pod)

    def settle(self, pod: ObservedPod) -> None:
        """Take note that a pod has its node."""
        self.n_waiting -= pod.is_new
        self.pods[pod.row] = pod
        self.n_ready += pod.is_ready
        self.related[pod.node] += 1

    def leave(self, pod: ObservedPod) -> None:
        """Take note that a pod is gone."""
        del self.pods[pod.row]
        if pod.node:
            self.n_ready -= pod.is_ready
            self.related[pod.node] -= 1
        else:
            self.n_waiting -= pod.is_new

    def failed(self, now: float) -> None:  # noqa: B027 - most controllers do not care
        """Take note that a pod was made to go before it was done."""


@dataclass
class ReplicaSetState(Owner):
    """A replica set or a replication controller."""

    replicas: int = 0
    template: bytes = b""  #: identity of its template, to compare with that of its deployment
    age: int = 0  #: position in the order of creation
    #: what its deployment asked for when it scaled the set last: replicas, and the most pods; None unknown
    noted: tuple[int | None, int | None] = (None, None)
    because: str = ""

    def actions(self, now: float) -> list[Action]:
        """See `Owner`."""
        return list(replica_set.actions(self.replicas, self.pods.values(), self.related, now, because=self.because))

    @property
    def desired(self) -> int:
        """See `Owner`."""
        return self.replicas

    def is_current(self, pod: ObservedPod) -> bool:  # noqa: ARG002 - all its pods are
        """See `Owner`."""
        return self.parent is None or self.template == self.parent.template


@dataclass
class DeploymentState:
    """A deployment."""

    ref: WorkloadRef
    wanted: WantedDeployment
    template: bytes  #: identity of its template
    spec: PodTemplateSpec
    selector: LabelSelector
    revision: str
    sets: dict[str, ReplicaSetState] = field(default_factory=dict)  #: its replica sets by name
    related: Counter[str] = field(default_factory=Counter)  #: node -> active pods of all its sets
    #: replica set -> available pods and pods, as the deployment controller knows them: as they were when it looked
    #: last, for what came of that is reported only while it goes on
    reported: dict[str, tuple[int, int]] = field(default_factory=dict)
    #: replica set -> how many more of its pods it reports as available next: pods that are made together come in
    #: batches of one, two, four and so on, and the first of them are known before the last
    pace: dict[str, int] = field(default_factory=dict)
    refusal: str = ""  #: why the API server did not take its new replica set; empty when it did

    def adopt(self, replica_set: ReplicaSetState) -> None:
        """Take in one of its replica sets."""
        self.sets[replica_set.ref.name] = replica_set
        self.related.update(replica_set.related)
        replica_set.parent = self
        replica_set.related = self.related

    def copy(self) -> DeploymentState:
        """Return a deployment, with its replica sets, that can change without this one noticing."""
        twin = copy.copy(self)
        twin.related = self.related.copy()
        twin.reported, twin.pace = self.reported.copy(), self.pace.copy()
        twin.sets = {}
        for name, each in self.sets.items():
            mine = twin.sets[name] = each.copy()
            mine.parent, mine.related = twin, twin.related
        return twin

    @property
    def current(self) -> ReplicaSetState | None:
        """The oldest set of the template that now holds."""
        mine = [each for each in self.sets.values() if each.template == self.template]
        return min(mine, key=lambda each: each.age, default=None)

    def actions(self) -> list[Scale]:
        """Ask the deployment controller what to do next."""
        current = self.current
        return deployment.actions(
            self.wanted,
            [
                ObservedReplicaSet(
                    each.ref.name,
                    each is current,
                    each.age,
                    each.replicas,
                    *self.reported.get(each.ref.name, (0, 0)),
                    *each.noted,
                )
                for each in self.sets.values()
            ],
        )

    def hear(self) -> bool:
        """Take in what the replica sets report now; tell whether that is news."""
        reports = {}
        for name, each in self.sets.items():
            known = self.reported.get(name, (0, 0))[0] if self.reported else each.n_ready
            available = min(each.n_ready, known + self.pace.get(name, 1))
            self.pace[name] = self.pace.get(name, 1) * 2 if available < each.n_ready else 1
            reports[name] = (available, len(each.pods))
        is_news = reports != self.reported
        self.reported = reports
        return is_news


@dataclass
class StatefulSetState(Owner):
    """A stateful set."""

    wanted: WantedStatefulSet = field(default_factory=lambda: WantedStatefulSet(0))
    says_revision: bool = False  #: the names of its revisions are those of its status

    def actions(self, now: float) -> list[Action]:  # noqa: ARG002 - it chooses by number, not by age
        """See `Owner`."""
        return stateful_set.actions(self.wanted, self.pods.values())

    @property
    def desired(self) -> int:
        """See `Owner`."""
        return self.wanted.replicas

    def is_current(self, pod: ObservedPod) -> bool:
        """See `Owner`."""
        return pod.revision == self.wanted.update

    def complete(self) -> None:
        """Call the new revision the current one once all pods have it. Upstream: completeRollingUpdate."""
        if len(self.pods) == self.n_ready == self.wanted.replicas and all(map(self.is_current, self.pods.values())):
            self.wanted = replace(self.wanted, current=self.wanted.update)


@dataclass
class DaemonSetState(Owner):
    """A daemon set."""

    wanted: WantedDaemonSet = field(default_factory=lambda: WantedDaemonSet(""))
    nodes: dict[str, Eligibility] = field(default_factory=dict)  #: whether each node should get a pod and may keep it
    by_node: dict[str, list[ObservedPod]] = field(default_factory=dict)  #: node -> pods that are there or meant for it

    def actions(self, now: float) -> list[Action]:  # noqa: ARG002 - age does not matter
        """See `Owner`."""
        return daemon_set.actions(self.wanted, self.nodes, self.by_node)

    @property
    def desired(self) -> int:
        """See `Owner`."""
        return sum(each.should_run for each in self.nodes.values())

    def is_current(self, pod: ObservedPod) -> bool:
        """See `Owner`."""
        return pod.revision == self.wanted.revision

    def join(self, pod: ObservedPod) -> None:
        """See `Owner`."""
        self.by_node[pod.target] = [*self.by_node.get(pod.target, ()), pod]
        super().join(pod)

    def settle(self, pod: ObservedPod) -> None:
        """See `Owner`."""
        super().settle(pod)
        theirs = self.by_node.get(pod.target, [])
        self.by_node[pod.target] = [pod if each.row == pod.row else each for each in theirs]

    def leave(self, pod: ObservedPod) -> None:
        """See `Owner`."""
        super().leave(pod)
        theirs = [each for each in self.by_node[pod.target] if each.row != pod.row]
        if theirs:
            self.by_node[pod.target] = theirs
        else:
            del self.by_node[pod.target]

    def copy(self) -> Self:
        """See `Owner`."""
        twin = super().copy()
        twin.by_node = self.by_node.copy()
        return twin


HALF_A_SECOND = 0.5
"""By which a time that is noted in whole seconds lies in the past, on average."""


@dataclass
class JobState(Owner):
    """A job."""

    wanted: WantedJob = field(default_factory=WantedJob)
    #: a pod that is told to go counts as failed at once (podReplacementPolicy TerminatingOrFailed)
    counts_leaving: bool = True
    failures: int = 0  #: since this simulation began; the job waits longer after each
    waits_until: float = 0.0  #: no pod is made before
    #: a pod that was told to go stays until the next one is made: meanwhile the controller would have to report more
    #: ready pods than active ones, which the API server refuses, so it cannot let the pod go
    holds_on: bool = False

    def actions(self, now: float) -> list[Action]:
        """See `Owner`."""
        found = job.actions(self.wanted, self.pods.values(), now)
        if now < self.waits_until:
            return [action for action in found if not isinstance(action, Create)]
        return found

    @property
    def desired(self) -> int:
        """See `Owner`."""
        wanted = self.wanted
        if wanted.is_over or wanted.is_suspended or wanted.failed > wanted.backoff_limit:
            return 0
        left = wanted.parallelism if wanted.completions is None else wanted.completions - wanted.succeeded
        return max(min(left, wanted.parallelism), 0)

    def failed(self, now: float) -> None:
        """See `Owner`."""
        if not self.counts_leaving or self.wanted.is_suspended:
            return
        self.failures += 1
        self.wanted = replace(self.wanted, failed=self.wanted.failed + 1)
        self.waits_until = now + job.backoff(self.failures) - HALF_A_SECOND
        self.holds_on = self.n_ready > 0


@dataclass
class ForeignState(Owner):
    """A controller that kplan does not know, or whose object is not in the snapshot: it makes lost pods again."""

    lost: list[str] = field(default_factory=list)  #: templates of pods that are gone and not recreated yet
    size: int = 0

    def actions(self, now: float) -> list[Action]:  # noqa: ARG002 - it makes what was lost
        """See `Owner`."""
        return [Create("its controller recreates it", revision) for revision in self.lost]

    def copy(self) -> Self:
        """See `Owner`."""
        twin = super().copy()
        twin.lost = self.lost.copy()
        return twin

    @property
    def desired(self) -> int:
        """See `Owner`."""
        return self.size
