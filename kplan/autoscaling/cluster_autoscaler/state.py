"""What the cluster-autoscaler remembers of its groups: their nodes, its own requests, failures.

Upstream: cluster-autoscaler clusterstate/clusterstate.go, utils/backoff/exponential_backoff.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from kplan.api.core import Node
from kplan.api.meta import is_true
from kplan.api.quantity import grouped
from kplan.api.time import SECOND, Nanoseconds, format_duration, to_micros
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.nodes import is_ready, is_to_be_deleted
from kplan.autoscaling.cluster_autoscaler.options import Options

_FOREVER = 2**62


class Readiness(msgspec.Struct):
    """The nodes of a group by their state; those that are being deleted are only registered."""

    ready: list[str] = []
    unready: list[str] = []
    not_started: list[str] = []
    suspended: list[str] = []
    registered: list[str] = []
    unregistered: list[str] = []
    long_unregistered: list[str] = []


class Request(msgspec.Struct):
    """Nodes that the autoscaler asked for."""

    increase: int
    at: int  #: microseconds since 1970


class _Range(NamedTuple):
    """How many nodes of a group should be there."""

    least: int
    target: int


class _Backoff(NamedTuple):
    duration: int
    until: int
    failed_at: int


class _WrongSize(NamedTuple):
    current: int
    expected: int
    since: int


class ClusterState:
    """The groups as the autoscaler sees them, from loop to loop."""

    def __init__(self, groups: Sequence[NodeGroup], options: Options, now: int) -> None:
        self._groups, self._options = groups, options
        self.requests: dict[str, Request] = {}
        self._readiness: dict[str, Readiness] = {}
        self._n_unready = 0
        self.decreased: dict[str, int] = {}  #: group -> by how much its target was lowered in this loop
        self.events: list[tuple[str, str]] = []  #: (reason, text) of this loop
        self._ranges: dict[str, _Range] = {}
        self._backoffs: dict[str, _Backoff] = {}
        self._wrong_sizes: dict[str, _WrongSize] = {}
        self._unregistered: dict[str, int] = {}
        self._failed: set[str] = set()
        self._templates: frozenset[str] = frozenset()
        self._now = now
        for group in groups:
            if group.requested > 0:
                ago = now - int(group.requested_ago * 1_000_000)
                self.register(group, group.requested, ago if group.requested_at is None else group.requested_at)
            if group.is_backed_off:
                self._backoffs[group.name] = _Backoff(options.max_node_group_backoff_duration, _FOREVER, now)

    def register(self, group: NodeGroup, delta: int, now: int) -> None:
        """Note that nodes were asked for, or that some of them will not come; registerOrUpdateScaleUpNoLock."""
        request = self.requests.get(group.name)
        if request is None:
            if delta > 0:
                self.requests[group.name] = Request(delta, now)
            return
        if request.increase + delta <= 0:
            del self.requests[group.name]
            return
        request.increase += delta
        if delta > 0:
            request.at = now

    def update(
        self, nodes: Sequence[Node], group_of: Mapping[str, NodeGroup], templates: Iterable[str], now: int
    ) -> None:
        self._now = now
        self._templates = frozenset(templates)
        self.decreased, self.events = {}, []
        missing = [instance.id for group in self._groups for instance in group.instances if not instance.error_code]
        self._unregistered = {name: self._unregistered.get(name, now) for name in missing}
        self._update_readiness(nodes, group_of)
        targets = {group.name: group.target for group in self._groups}
        self._update_ranges(targets)
        self._update_requests()
        self._note_failures()
        # By the targets that were read before these two lowered some, as upstream.
        self._update_ranges(targets)
        self._update_sizes()

    def readiness(self, name: str) -> Readiness:
        """Return the nodes of a group, by its name, by their state."""
        return self._readiness.get(name, Readiness())

    def recalculate(self) -> None:
        self._update_ranges({group.name: group.target for group in self._groups})

    def _update_readiness(self, nodes: Sequence[Node], group_of: Mapping[str, NodeGroup]) -> None:
        self._readiness, total = {}, Readiness()
        startup_time = self._options.max_node_startup_time
        for node in nodes:
            group = group_of.get(node.metadata.name)
            if group is not None:
                startup_time = group.options.max_node_startup_time
                _count(self._readiness.setdefault(group.name, Readiness()), node, startup_time, self._now)
            _count(total, node, startup_time, self._now)
        self._n_unready = len(total.unready)
        for group in self._groups:
            for instance in group.instances:
                since = self._unregistered.get(instance.id)
                if since is None:
                    continue
                readiness = self._readiness.setdefault(group.name, Readiness())
                is_late = since + group.options.max_node_provision_time < self._now
                (readiness.long_unregistered if is_late else readiness.unregistered).append(instance.id)

    def _update_ranges(self, targets: Mapping[str, int]) -> None:
        self._ranges = {}
        for name, target in targets.items():
            request, n_late = self.requests.get(name), len(self.readiness(name).long_unregistered)
            increase = 0 if request is None else request.increase
            self._ranges[name] = _Range(target - n_late - increase, target)

    def _update_requests(self) -> None:
        """End the requests that are met, and those that nobody meets."""
        reset = self._options.node_group_backoff_reset_timeout
        self._backoffs = {name: held for name, held in self._backoffs.items() if held.failed_at + reset >= self._now}
        for group in self._groups:
            request = self.requests.get(group.name)
            if request is None:
                continue
            if self._n_upcoming(group.name) <= 0:
                del self.requests[group.name]
            elif request.at + group.options.max_node_provision_time < self._now:
                seconds = format_duration(Nanoseconds((self._now - request.at) // 1_000_000 * SECOND))
                words = f"Nodes added to group {group.name} failed to register within {seconds}"
                self.events.append(("ScaleUpTimedOut", words))
                self._back_off(group.name)
                # A cloud lowers no target below the nodes that are there.
                if group.target - request.increase >= len(group.nodes):
                    self._decrease(group, request.increase)
                del self.requests[group.name]

    def _decrease(self, group: NodeGroup, by: int) -> None:
        group.target -= by
        self.decreased[group.name] = self.decreased.get(group.name, 0) + by

    def _back_off(self, name: str) -> None:
        if name not in self._templates:
            return
        held = self._backoffs.get(name)
        duration = self._options.initial_node_group_backoff_duration
        if held is not None:
            doubled = min(2 * held.duration, self._options.max_node_group_backoff_duration)
            duration = doubled if held.until < self._now else held.duration
        self._backoffs[name] = _Backoff(duration, self._now + duration, self._now)

    def _note_failures(self) -> None:
        """Back groups off whose machines cannot be made; handleInstanceCreationErrors."""
        failed: set[str] = set()
        for group in self._groups:
            broken = [instance for instance in group.instances if instance.error_code]
            failed.update(instance.id for instance in broken)
            by_code = grouped(((one.error_class, one.error_code), one) for one in broken)
            for (kind, code), instances in by_code.items():
                new = [instance for instance in instances if instance.id not in self._failed]
                if new and group.name in self.requests and self._n_upcoming(group.name) > 0:
                    messages = list(dict.fromkeys(instance.error_message for instance in instances))
                    text = ", ".join(messages) + (", ..." if len(messages) > 3 else "")
                    words = f"Failed adding {len(new)} nodes to group {group.name} due to {kind}.{code}"
                    words += f"; source errors: {text}"
                    self.events.append(("ScaleUpFailed", words))
                    self.register(group, -len(new), self._now)
                    self._back_off(group.name)
        self._failed = failed

    def delete_failed(self) -> None:
        """Delete machines that cannot be made; deleteCreatedNodesWithErrors, which alone looks at sizes again."""
        failed = [(group, [one.id for one in group.instances if one.error_code]) for group in self._groups]
        deleted = [self._delete(group, machines) for group, machines in failed]
        if any(deleted):
            self.recalculate()

    def _delete(self, group: NodeGroup, machines: Sequence[str]) -> Sequence[str]:
        """Delete machines, and return which; of a group that goes as a whole, all or none."""
        every = [*group.nodes, *(instance.id for instance in group.instances)]
        if machines and group.is_atomic and len(machines) != len(every):
            machines = () if group.options.allow_non_atomic_scale_up_to_max else every
        if machines:
            gone = frozenset(machines)
            group.instances = tuple(instance for instance in group.instances if instance.id not in gone)
            self._decrease(group, len(machines))
        return machines

    def remove_long_unregistered(self) -> None:
        """Delete machines that did not become nodes in time, as far as the least size allows."""
        for group in self._groups:
            old = self.readiness(group.name).long_unregistered
            removed = self._delete(group, old[: max(group.target - group.least, 0)])
            self.events += [("DeleteUnregistered", f"Removed unregistered node {name}") for name in removed]

    def _update_sizes(self) -> None:
        wrong: dict[str, _WrongSize] = {}
        for name, expected in self._ranges.items():
            readiness = self._readiness.get(name)
            if readiness is None:
                continue
            n_registered = len(readiness.registered)
            n_missing = len(readiness.unregistered) + len(readiness.long_unregistered)
            if expected.target - n_missing <= n_registered <= expected.target:
                continue
            held, current = self._wrong_sizes.get(name), (n_registered, expected.target)
            since = held.since if held is not None and held[:2] == current else self._now
            wrong[name] = _WrongSize(*current, since)
        self._wrong_sizes = wrong

    def fix_sizes(self) -> bool:
        """Lower targets that were too high for long, and return whether there were any; fixNodeGroupSize."""
        is_fixed = False
        for group in self._groups:
            wrong = self._wrong_sizes.get(group.name)
            is_old = wrong is not None and wrong.since + group.options.max_node_provision_time < self._now
            if wrong is not None and is_old and wrong.current < wrong.expected:
                self._decrease(group, wrong.expected - wrong.current)
                is_fixed = True
        return is_fixed

    def is_healthy(self, n_nodes: int) -> bool:
        share = self._options.max_total_unready_percentage / 100.0
        return not (self._n_unready > self._options.ok_total_unready_count and self._n_unready > share * n_nodes)

    def is_group_healthy(self, name: str) -> bool:
        expected, readiness = self._ranges.get(name), self._readiness.get(name)
        if expected is None:
            return False
        if readiness is None:
            return expected.target == 0 or (expected.least == 0 and expected.target > 0)
        n_fine = len(readiness.ready) + len(readiness.suspended)
        n_missing = max(expected.least - n_fine, 0)
        n_all = n_fine + len(readiness.unready) + len(readiness.not_started)
        share = self._options.max_total_unready_percentage / 100.0
        return not (n_missing > self._options.ok_total_unready_count and n_missing > share * n_all)

    def is_backed_off(self, name: str) -> bool:
        held = self._backoffs.get(name)
        return name in self._templates and held is not None and held.until >= self._now

    def _n_upcoming(self, name: str) -> int:
        expected = self._ranges.get(name)
        readiness = self.readiness(name)
        if expected is None:
            return 0
        n_there = len(readiness.ready) + len(readiness.unready) + len(readiness.suspended)
        return expected.target - n_there - len(readiness.long_unregistered)

    def upcoming(self) -> dict[str, int]:
        """Return how many nodes of each group will come; those that have not started are among them."""
        requested = (group.name for group in self._groups if group.name in self.requests)
        counts = {name: self._n_upcoming(name) for name in requested if not self.is_backed_off(name)}
        return {name: count for name, count in counts.items() if count > 0}


def _count(readiness: Readiness, node: Node, startup_time: int, now: int) -> None:
    name = node.metadata.name
    created = node.metadata.creation_timestamp
    is_starting = created is not None and to_micros(created) + startup_time > now
    readiness.registered.append(name)
    if is_to_be_deleted(node):
        return
    if is_true(node.status.conditions, "Suspended"):
        readiness.suspended.append(name)
    elif is_ready(node):
        readiness.ready.append(name)
    else:
        (readiness.not_started if is_starting else readiness.unready).append(name)
