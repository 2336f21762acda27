"""How many new nodes of a group its pods need: bin packing, first fit, the largest pods first.

Upstream: cluster-autoscaler estimator/binpacking_estimator.go, decreasing_pod_orderer.go, threshold_based_limiter.go.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec

from kplan.api.core import Pod
from kplan.api.labels import HOSTNAME
from kplan.api.quantity import milli_value, parse, value
from kplan.autoscaling.cluster_autoscaler.scratch import NewNodes, NewRow, Scratch, Wanted
from kplan.autoscaling.cluster_autoscaler.templates import Template
from kplan.plugins.pod_topology_spread.filtering import REASON_SKEW
from kplan.rules.pod_info import PodInfo
from kplan.rules.resources import CPU, MEMORY, PODS

_FIRST_NODES = 4


class PodGroup(msgspec.Struct):
    """Pods that fit the same nodes."""

    pods: list[Pod]
    info: PodInfo  #: of the first pod
    wanted: Wanted  #: what each of them takes from a node
    fits_alone: bool = False  #: whether the verdict of a node on these pods depends on that node alone
    rejected: dict[str, tuple[str, ...]] = {}  #: group of nodes -> why the pods do not fit it
    fitting: list[str] = []  #: groups of nodes that the pods fit


class Estimate(msgspec.Struct):
    """New nodes of a group, and the pods for which they are."""

    n_nodes: int
    pods: list[Pod]
    placement: list[tuple[str, list[Pod]]]  #: node by node; an existing node counts as a new one


def estimate(
    scratch: Scratch, group: str, template: Template, pod_groups: Sequence[PodGroup], most: int | None, *, fast: bool
) -> Estimate:
    """Return how many nodes of a group its fitting pods need, of at most so many that may be added.

    With `fast`, the group of pods that gains most is packed on a single node, and multiplied.
    """
    allocatable = template.node.status.allocatable
    cpu, memory = milli_value(allocatable.get(CPU, 0)), value(allocatable.get(MEMORY, 0))

    def score(group: PodGroup) -> float:
        requests = group.info.resources.requests
        share = requests.get(CPU, 0) / cpu if cpu > 0 else 0.0
        return share + (requests.get(MEMORY, 0) / memory if memory > 0 else 0.0)

    ordered = sorted(pod_groups, key=score, reverse=True)
    last_by_ratio = _best_to_multiply(ordered, template) if fast else None
    if last_by_ratio is not None:
        ordered.append(ordered.pop(last_by_ratio))
    if all(pods.fits_alone for pods in ordered):
        packer: _Packer = _ArithmeticPacker(scratch, template, ordered, most)
    else:
        packer = _TryingPacker(scratch, group, template, most)
    may_add = True
    for number, pods in enumerate(ordered):
        remaining = packer.fill(pods)
        if may_add:
            is_multiplied = last_by_ratio is not None and number == len(ordered) - 1
            may_add = packer.multiply(pods, remaining) if is_multiplied else packer.add(pods, remaining)
    return packer.result()


class _Packer(ABC):
    """Places pods on the nodes added so far, and adds nodes."""

    def __init__(self, most: int | None) -> None:
        self._left: float = math.inf if most is None else most  #: nodes that may still be added
        self.last = ""  #: the name of the node that was added last; empty for none
        self.scheduled: list[Pod] = []
        self.on_node: dict[str, list[Pod]] = {}

    @abstractmethod
    def fill(self, group: PodGroup) -> list[Pod]:
        """Put pods on any of the added nodes, and return those after the first that fits none."""

    @abstractmethod
    def fill_last(self, group: PodGroup, pods: list[Pod]) -> int:
        """Put pods on the last node, up to the first that does not fit it; return how many."""

    @abstractmethod
    def add_node(self) -> str:
        """Add a node, and return its name."""

    def add(self, group: PodGroup, pods: list[Pod]) -> bool:
        """Put pods on the last node, adding nodes; return whether nodes may still be added."""
        left = pods[self.fill_last(group, pods) :] if self.last else pods
        while left:
            if self.last and self.last not in self.on_node:
                return True  # what does not fit an empty node fits no further one
            if not self.permits():
                return False
            self.last = self.add_node()
            left = left[self.fill_last(group, left) :]
        return True

    def multiply(self, group: PodGroup, pods: list[Pod]) -> bool:
        """Fill one node, and count nodes for the other pods by the same ratio; tryFastPath."""
        if not pods:
            return True
        if not self.permits():
            return False
        self.last = self.add_node()
        n_per_node = self.fill_last(group, pods)
        if not n_per_node:
            return True
        for number, first in enumerate(range(n_per_node, len(pods), n_per_node), start=1):
            if not self.permits():
                return False
            for pod in pods[first : first + n_per_node]:
                self.track(pod, f"fake-{number}")
        return True

    def permits(self) -> bool:
        """Take one of the nodes that may be added, and return whether there was one left."""
        self._left -= 1
        return self._left >= 0

    def track(self, pod: Pod, node: str) -> None:
        self.scheduled.append(pod)
        self.on_node.setdefault(node, []).append(pod)

    def result(self) -> Estimate:
        return Estimate(len(self.on_node), self.scheduled, list(self.on_node.items()))


class _ArithmeticPacker(_Packer):
    """Packs pods whose verdicts depend on one node alone."""

    def __init__(self, scratch: Scratch, template: Template, pod_groups: Sequence[PodGroup], most: int | None) -> None:
        super().__init__(most)
        self._cursor = scratch.cursor
        resources = {name for pods in pod_groups for name, _ in pods.wanted}
        infos = [PodInfo(pod) for pod in template.pods]
        allocatable = template.node.status.allocatable
        free = {}
        for name in resources:
            read = milli_value if name == CPU else value
            used = len(infos) if name == PODS else sum(info.resources.requests.get(name, 0) for info in infos)
            free[name] = read(allocatable.get(name, 0)) - used
        # A node without pods is the last one, or stands before that of the pods that are multiplied, which get one.
        self._nodes = NewNodes(free, len(scratch.order), most=sum(len(pods.pods) for pods in pod_groups) + 1)
        self._is_unschedulable = template.node.spec.unschedulable

    def fill(self, group: PodGroup) -> list[Pod]:
        if self._is_unschedulable:
            return group.pods  # a search passes over cordoned nodes
        nodes, self._cursor.last = self._nodes.spread(group.wanted, len(group.pods), self._cursor.last)
        for pod, node in zip(group.pods, nodes, strict=False):
            self.track(pod, _name(node))
        return group.pods[len(nodes) :]

    def fill_last(self, group: PodGroup, pods: list[Pod]) -> int:
        n_fitting = self._nodes.fill_last(group.wanted, len(pods))
        for pod in pods[:n_fitting]:
            self.track(pod, self.last)
        return n_fitting

    def add_node(self) -> str:
        self._nodes.n_nodes += 1
        return _name(self._nodes.n_nodes - 1)


class _TryingPacker(_Packer):
    """Packs pods by trying the scheduler's filters on a scratch cluster with the new nodes."""

    def __init__(self, scratch: Scratch, group: str, template: Template, most: int | None) -> None:
        super().__init__(most)
        self._group, self._template = group, template
        self._names: list[str] = []
        self._new: list[NewRow] = []
        self._start(scratch, _FIRST_NODES)
        self._n_added = 0
        self._is_fresh = False  # no pod was tried on the last node yet

    def _start(self, scratch: Scratch, n_new: int) -> None:
        first = len(self._names)
        names = [f"template-node-for-{self._group}-e-{number}" for number in range(first, first + n_new)]
        self._names += names
        self._scratch, (more,) = scratch.grown([(self._template, names)])
        self._new = [NewRow(self._scratch.row(scratch.name(new.row)), new.pods) for new in self._new] + more
        self._is_new = self._scratch.only(new.row for new in self._new)

    def fill(self, group: PodGroup) -> list[Pod]:
        for number, pod in enumerate(group.pods):
            row = self._scratch.find(self._scratch.pod_row(pod), self._is_new) if self.last else None
            if row is None:
                return group.pods[number:]
            self._put(pod, row)
        return []

    def _put(self, pod: Pod, row: int) -> None:
        self._scratch.bind(self._scratch.pod_row(pod), row)
        self.track(pod, self._scratch.name(row))

    def add_node(self) -> str:
        if self._n_added == len(self._new):
            self._start(self._scratch, len(self._new))
        self._scratch.add_new([self._new[self._n_added]])
        self._n_added += 1
        self._is_fresh = True
        return self._names[self._n_added - 1]

    def fill_last(self, group: PodGroup, pods: list[Pod]) -> int:
        """Put pods on the last node, or on any that their constraint on how they spread over nodes sends them to.

        A pod is sent nowhere else by the node that has come for it.
        """
        spreads = any(one.topology_key == HOSTNAME for one in group.pods[0].spec.topology_spread_constraints)
        scratch, is_fresh = self._scratch, self._is_fresh
        last, self._is_fresh = scratch.row(self.last), False
        for number, pod in enumerate(pods):
            row: int | None = last
            rejection = scratch.rejections(scratch.pod_row(pod), [last])[0]
            if rejection is not None:
                is_sent = spreads and REASON_SKEW in rejection and not (is_fresh and number == 0)
                row = scratch.find(scratch.pod_row(pod), ~scratch.only([last])) if is_sent else None
            if row is None:
                return number
            self._put(pod, row)
        return len(pods)

    def result(self) -> Estimate:
        renamed = {name: _name(number) for number, name in enumerate(self._names)}
        self.on_node = {renamed.get(name, name): pods for name, pods in self.on_node.items()}
        return super().result()


def _name(number: int) -> str:
    return f"e-{number}"


def _best_to_multiply(groups: Sequence[PodGroup], template: Template) -> int | None:
    """Return the group of pods for which multiplying saves the most tries; determineBestPEGToFastpath."""
    capacity = {name: parse(template.node.status.capacity.get(name, 0)).approximate() for name in (CPU, MEMORY)}
    best: int | None = None
    most_saved = 0
    for number, group in enumerate(groups):
        pod, n_pods, repels = group.pods[0], len(group.pods), group.info.affinity.required_anti_affinity
        requests = pod.spec.containers[0].resources.requests if pod.spec.containers else {}
        sizes = (
            (parse(requests[name]).approximate(), size) for name, size in capacity.items() if name in requests and size
        )
        n_nodes = max((math.ceil(n_pods * wanted / size) for wanted, size in sizes), default=0)
        if any(term.topology_key == HOSTNAME and term.selector.matches(group.info.labels) for term in repels):
            n_nodes = max(n_nodes, n_pods)
        saved = n_pods - n_pods // n_nodes if n_nodes else 0
        is_of_hosts = all(term.topology_key == HOSTNAME for term in repels)
        if saved >= most_saved and is_of_hosts and not pod.spec.topology_spread_constraints:
            best, most_saved = number, saved
    return best
