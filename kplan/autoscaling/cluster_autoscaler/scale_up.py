"""Which groups grow, by how much, and for which pods; and the expanders, which choose among groups that could grow.

The patterns of priorities, which one of them reads from a ConfigMap, are Go's regular expressions, which the CEL
library evaluates alike, in linear time.

Upstream: cluster-autoscaler core/scaleup/orchestrator/orchestrator.go, expander/.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kplan.api.core import Node, Pod
from kplan.api.labels import INSTANCE_TYPE
from kplan.api.quantity import count, milli_value, parse, value
from kplan.autoscaling.cluster_autoscaler.estimator import Estimate, PodGroup, estimate
from kplan.autoscaling.cluster_autoscaler.groups import ListedGroup, NodeGroup, Quotas, Skipped
from kplan.autoscaling.cluster_autoscaler.nodes import GPU_LABEL, GPU_RESOURCES, gpus, quotient
from kplan.autoscaling.cluster_autoscaler.options import GIB, Options, yaml_of
from kplan.autoscaling.cluster_autoscaler.pods import equivalence_groups
from kplan.autoscaling.cluster_autoscaler.scratch import Rejection, Scratch, wanted_by
from kplan.autoscaling.cluster_autoscaler.state import ClusterState
from kplan.autoscaling.cluster_autoscaler.templates import Growth, Template, are_similar, balanced
from kplan.facts import InputWarning
from kplan.rules.resources import CPU, MEMORY
from kplan.snapshot.model import Snapshot

CONFIG_MAP = "cluster-autoscaler-priority-expander"
_NAMESPACE = "kube-system"  #: of the autoscaler, where --namespace names no other

Priorities = Mapping[int, tuple[str, ...]]  #: priority -> patterns of the names of groups


def priorities_of(snapshot: Snapshot, namespace: str, warnings: list[InputWarning]) -> Priorities | None:
    """Return the priorities in the namespace of the autoscaler; if it is empty, preferably its default.

    None where there are none that can be read, with the reason in `warnings`.
    """
    from kplan.cel.values import CelError

    named = (one for one in snapshot.config_maps if one.metadata.name == CONFIG_MAP)
    own = (one for one in named if namespace in ("", one.metadata.namespace))
    config_map = min(own, key=lambda one: one.metadata.namespace != _NAMESPACE, default=None)
    if config_map is None:
        return None
    try:
        return _parsed(config_map.data.priorities)
    except (ValueError, TypeError, CelError) as error:
        name = f"ConfigMap/{config_map.metadata.key}"
        message = f"its priorities cannot be read, so the expander filters nothing: {error}"
        warnings.append(InputWarning("PriorityConfigMapInvalid", name, message[:500]))
        return None


def matches(name: str, pattern: str) -> bool:
    """Return whether a pattern is in a name; raises CelError for a pattern that is none."""
    from kplan.cel.library import evaluate

    return evaluate("name.matches(pattern)", name=name, pattern=pattern) is True


def _parsed(text: str) -> dict[int, tuple[str, ...]]:
    content = yaml_of(text, CONFIG_MAP)
    if not isinstance(content, Mapping):
        raise TypeError("no priorities")
    priorities: dict[int, tuple[str, ...]] = {}
    for priority, patterns in content.items():
        listed = [] if patterns is None else patterns
        if not isinstance(listed, list) or any(not isinstance(pattern, str | int | float | None) for pattern in listed):
            raise TypeError(f"priority {priority} has no list of patterns")
        texts = tuple(map(_text, listed))
        for pattern in texts:
            matches("", pattern)
        priorities[int(str(priority))] = texts  # which true is not
    return priorities


def _text(pattern: str | float | None) -> str:
    """Return a pattern as sigs.k8s.io/yaml makes a text of it."""
    if pattern is None:
        return ""
    return str(pattern).lower() if isinstance(pattern, bool) else str(pattern)


_STABILIZING = {CPU: 500 * 10**6, MEMORY: 500 * 1024**2 * 10**9}
_PREFERRED_CPUS = ((2, 1000), (6, 2000), (20, 4000), (60, 8000), (200, 16000))
_MOST_PREFERRED_CPU = 32000
_GPU_UNFITNESS = 1000.0


class Option(Estimate):
    """A group that could grow: by how many nodes, for which pods."""

    group: NodeGroup
    similar: tuple[NodeGroup, ...]


class Choice(msgspec.Struct, frozen=True):
    """The chosen option, and how it was chosen."""

    best: Option
    steps: tuple[tuple[str, tuple[str, ...]], ...]  #: expander -> the groups that it leaves, in order
    tied: tuple[str, ...]  #: groups among which the autoscaler would draw


class Prices:
    """Prices: ``instanceTypes`` by name, and the price of one ``cpu``, ``memoryGiB`` and ``gpu``."""

    def __init__(self, prices: Mapping[str, Any]) -> None:
        self._types: Mapping[str, Any] = prices.get("instanceTypes") or {}
        self._cpu = float(prices.get("cpu") or 0)
        self._memory = float(prices.get("memoryGiB") or 0)
        self._gpu = float(prices.get("gpu") or 0)

    def of_node(self, node: Node) -> float:
        instance_type = node.metadata.labels.get(INSTANCE_TYPE, "")
        if instance_type in self._types:
            return float(self._types[instance_type])
        return self.of({name: parse(amount).nanos for name, amount in node.status.capacity.items()})

    def of_pod(self, pod: Pod) -> float:
        total: Counter[str] = Counter()
        for container in pod.spec.containers:
            total.update({name: parse(amount).nanos for name, amount in container.resources.requests.items()})
        return self.of(total)

    def of(self, nanos: Mapping[str, int]) -> float:
        n_gpus = sum(nanos.get(name, 0) for name in GPU_RESOURCES)
        return (
            nanos.get(CPU, 0) / 10**9 * self._cpu
            + nanos.get(MEMORY, 0) / 10**9 / GIB * self._memory
            + n_gpus / 10**9 * self._gpu
        )


class Expanders(msgspec.Struct, frozen=True):
    """What expanders need besides the options."""

    templates: Mapping[str, Template]
    priorities: Priorities | None
    prices: Prices | None
    n_nodes: int  #: nodes of the cluster
    now: int  #: microseconds since 1970
    scratch: Scratch

    def choose(self, names: Sequence[str], options: Sequence[Option]) -> Choice | None:
        """Filter options by one expander after the other; the first that are left in the end tie."""
        filters: Mapping[str, Callable[[list[Option]], list[Option]]] = {
            "random": lambda options: options,
            "least-waste": lambda options: _least(options, self._waste),
            "most-pods": lambda options: _least(options, lambda option: -len(option.pods)),
            "least-nodes": lambda options: _least(options, lambda option: option.n_nodes),
            "price": self._cheapest,
            "priority": self._most_important,
        }
        left = list(options)
        steps = []
        for name in names:
            left = filters[name](left)
            steps.append((name, tuple(option.group.name for option in left)))
            if len(left) == 1:
                break
        if not left:
            return None
        return Choice(left[0], tuple(steps), tuple(dict.fromkeys(option.group.name for option in left)))

    def _waste(self, option: Option) -> float:
        """Return the share of CPU and memory that the pods leave unused; capacity counts, not what is allocatable."""
        capacity = self.templates[option.group.name].node.status.capacity
        cpu = milli_value(capacity.get(CPU, 0)) * option.n_nodes
        memory = value(capacity.get(MEMORY, 0)) * option.n_nodes
        requests = [self.scratch.info(pod).resources.requests for pod in option.pods]
        wanted_cpu = sum(request.get(CPU, 0) for request in requests)
        wanted_memory = sum(request.get(MEMORY, 0) for request in requests)
        return quotient(cpu - wanted_cpu, cpu) + quotient(memory - wanted_memory, memory)

    def _cheapest(self, options: list[Option]) -> list[Option]:
        if self.prices is None:
            return options
        stabilizing = self.prices.of(_STABILIZING)
        prices = self.prices

        def score(option: Option) -> float:
            node = self.templates[option.group.name].node
            own_price = option.group.price
            nodes_price = (prices.of_node(node) if own_price is None else own_price) * option.n_nodes
            pods_price = 0.0
            for pod in option.pods:
                pods_price += prices.of_pod(pod)
            ratio = quotient(nodes_price + stabilizing, pods_price + stabilizing)
            return self._unfitness(node, option.n_nodes) * ratio

        return _least(options, score)

    def _unfitness(self, node: Node, n_nodes: int) -> float:
        """Return how far a node is from the size that is best for a cluster of this size."""
        if GPU_LABEL in node.metadata.labels or gpus(node):
            return _GPU_UNFITNESS
        preferred = next((cpu for size, cpu in _PREFERRED_CPUS if self.n_nodes <= size), _MOST_PREFERRED_CPU)
        cpu = milli_value(node.status.capacity.get(CPU, 0))
        unfitness = max(quotient(preferred, cpu), quotient(cpu, preferred))
        return (unfitness - 1.0) * (1.0 - math.tanh((n_nodes - 1) / 15.0)) + 1.0

    def _most_important(self, options: list[Option]) -> list[Option]:
        if self.priorities is None:
            return options
        highest = -1
        best: list[Option] = []
        for option in options:
            for priority, patterns in self.priorities.items():
                if priority < highest or not any(matches(option.group.name, pattern) for pattern in patterns):
                    continue
                if priority > highest:
                    highest, best = priority, []
                best.append(option)
        return best or options


def _least(options: list[Option], score: Callable[[Option], float]) -> list[Option]:
    """Return the options with the lowest score, in order."""
    scores = [score(option) for option in options]
    lowest = scores[0] if scores else 0.0
    for candidate in scores[1:]:
        lowest = min(lowest, candidate)
    return [option for option, candidate in zip(options, scores, strict=True) if candidate == lowest] or options[:1]


_NOT_READY = "not ready for scale-up"
_UNHEALTHY = Skipped((_NOT_READY,), "too many of its nodes are missing or not ready")
_UNKNOWN = Skipped((_NOT_READY,), "nothing shows what a new node of it would be like")
_BACKED_OFF, _FAILED_LATELY = ("in backoff after failed scale-up",), "a scale-up of it failed a short time ago"
MAX_NODES_TOTAL = "Max total nodes in cluster reached: {}"

SUCCESSFUL = "ScaleUpSuccessful"
FAILED = "ScaleUpError"
LIMITED = "ScaleUpLimitedByMaxNodesTotal"


class Unhelped(msgspec.Struct, frozen=True):
    """A pod that fits no new node of any group."""

    pod: Pod
    rejected: Mapping[str, tuple[str, ...]]  #: group -> the words of the scheduler
    skipped: Mapping[str, Skipped]  #: group -> why it does not grow at all


class ScaleUp(msgspec.Struct):
    """What a scale-up came to."""

    result: str
    error: str = ""
    growths: list[Growth] = []
    options: list[Option] = []
    choice: Choice | None = None
    triggered: list[Pod] = []
    awaiting: list[Pod] = []
    unhelped: list[Unhelped] = []
    events: list[tuple[str, str]] = []


class Orchestrator:
    """Scales up a cluster with all nodes that are there or will be, and what was placed on them."""

    def __init__(
        self,
        scratch: Scratch,
        groups: Sequence[NodeGroup],
        state: ClusterState,
        options: Options,
        *,
        expanders: Expanders,
        quotas: Quotas,
    ) -> None:
        self._scratch, self._groups, self._state, self._options = scratch, groups, state, options
        self._templates, self._expanders, self._quotas = expanders.templates, expanders, quotas

    def scale_up(self, pods: Sequence[Pod]) -> ScaleUp:
        if (unknown := self._unknown_upcoming()) is not None:
            error = f"could not get upcoming nodes: failed to find template node for node group {unknown}"
            return ScaleUp(FAILED, error, unhelped=[Unhelped(pod, {}, {}) for pod in pods])
        alike = ((own, self._scratch.info(own[0])) for own in equivalence_groups(pods))
        pod_groups = [PodGroup(own, info, wanted_by(info.requests)) for own, info in alike]
        # Which groups may grow, and why the others may not; filterValidScaleUpNodeGroups.
        reasons = {group.name: self._reason_to_skip(group) for group in self._groups}
        skipped = {name: reason for name, reason in reasons.items() if reason is not None}
        valid = [group for group in self._groups if group.name not in skipped]
        self._try_groups(pod_groups, [group.name for group in valid])
        outcome = ScaleUp("ScaleUpNoOptionsAvailable")
        self._compute_options(outcome, pod_groups, valid)
        if outcome.options:
            self._decide(outcome, pod_groups)
        outcome.unhelped = self._unhelped(pod_groups, skipped)
        if outcome.result == SUCCESSFUL and outcome.choice is not None:
            best = outcome.choice.best.group.name
            outcome.awaiting = [
                pod
                for pod_group in pod_groups
                if pod_group.fitting and best in pod_group.rejected
                for pod in pod_group.pods
            ]
        return outcome

    def _unknown_upcoming(self) -> str | None:
        """Return a group whose nodes are awaited though nothing shows what they will be like; UpcomingNodes."""
        listed = {group.name for group in self._groups if isinstance(group, ListedGroup)}
        unknown = (name for name in self._state.upcoming() if name not in self._templates and name not in listed)
        return next(unknown, None)

    def _reason_to_skip(self, group: NodeGroup) -> Skipped | None:
        if (reason := self._unsafe(group)) is not None:
            return reason
        if group.target >= group.most:
            return Skipped(("max node group size reached",), f"it has its maximum of {count(group.most, 'node')}")
        n_nodes = group.most - group.target if group.is_atomic else 1
        most = self._options.max_nodes_total
        if group.is_atomic and most and len(self._scratch.order) + n_nodes > most:
            words = f"its {count(n_nodes, 'node')} come all at once, and the cluster may have {most} at most"
            return Skipped(("atomic scale-up exceeds cluster node count limit",), words)
        template = self._templates.get(group.name)
        if template is None:
            return _UNKNOWN
        return self._quotas.check(template.node, group, n_nodes).skipped

    def _unsafe(self, group: NodeGroup) -> Skipped | None:
        if not self._state.is_group_healthy(group.name):
            return _UNHEALTHY
        if not self._state.is_backed_off(group.name):
            return None
        return Skipped(_BACKED_OFF, f"{_FAILED_LATELY}{f' ({group.backoff})' if group.backoff else ''}")

    def _try_groups(self, pod_groups: Sequence[PodGroup], names: Sequence[str]) -> None:
        """Note which groups of nodes could hold which pods; SchedulablePodGroups, for all groups at once."""
        if not names or not pod_groups:
            return
        scratch, new = self._scratch.grown([(self._templates[name], [f"template-node-for-{name}"]) for name in names])
        nodes = [node for (node,) in new]
        rows = [node.row for node in nodes]
        mark = scratch.mark()
        scratch.add_new(nodes)
        harder: list[PodGroup] = []
        for pod_group in pod_groups:
            pod = scratch.pod_row(pod_group.pods[0])
            pod_group.fits_alone = scratch.fits_alone(pod)
            if not pod_group.fits_alone:
                harder.append(pod_group)
                continue
            for name, rejection in zip(names, scratch.rejections(pod, rows), strict=True):
                _note(pod_group, name, rejection)
        scratch.undo(mark)
        for name, node in zip(names, nodes, strict=True) if harder else ():
            scratch.add_new([node])
            for pod_group in harder:
                _note(pod_group, name, scratch.rejections(scratch.pod_row(pod_group.pods[0]), [node.row])[0])
            scratch.undo(mark)

    def _compute_options(self, outcome: ScaleUp, pod_groups: Sequence[PodGroup], valid: Sequence[NodeGroup]) -> None:
        fitting = {group.name: [pods for pods in pod_groups if group.name in pods.fitting] for group in valid}
        for group in valid:
            if not fitting[group.name]:
                continue
            similar = self._similar(group, fitting)
            most = self._options.max_nodes_total
            # Of these limits 0 is none, and a negative one forbids all; getMinLimit.
            limits = (
                self._options.max_nodes_per_scaleup,
                sum(other.room for other in (group, *similar)) or -1,
                (max(most - len(self._scratch.order), 0) or -1) if most else 0,
            )
            limit = 0 if min(limits) < 0 else min(filter(None, limits), default=None)
            template, fast = self._templates[group.name], self._options.fastpath_binpacking_enabled
            result = estimate(self._scratch, group.name, template, fitting[group.name], limit, fast=fast)
            n_nodes = group.most if group.is_atomic and result.n_nodes > 0 else result.n_nodes
            if result.pods and n_nodes:
                outcome.options.append(Option(n_nodes, result.pods, result.placement, group, similar))
        self._fitting = fitting

    def _similar(self, group: NodeGroup, fitting: Mapping[str, Sequence[PodGroup]]) -> tuple[NodeGroup, ...]:
        """Return the groups that may grow in place of one, for the same pods; ComputeSimilarNodeGroups."""
        if not self._options.balance_similar_node_groups or group.is_atomic or not fitting.get(group.name):
            return ()
        own = self._templates[group.name]
        return tuple(
            other
            for other in self._groups
            if other is not group
            and other.name in self._templates
            and are_similar(own, self._templates[other.name], self._options)
            and self._unsafe(other) is None
            and other.name in fitting
            and all(any(pods is held for held in fitting[other.name]) for pods in fitting[group.name])
        )

    def _decide(self, outcome: ScaleUp, pod_groups: Sequence[PodGroup]) -> None:
        """Choose an option, cap it, share it among similar groups, and carry it out."""
        choice = self._expanders.choose(self._options.expander, outcome.options)
        if choice is None:
            _reject_all(pod_groups, "expansion options filtered out and no longer considered")
            return
        outcome.choice, best = choice, choice.best
        outcome.triggered = best.pods
        n_nodes = self._capped(outcome, best.n_nodes, len(self._scratch.order))
        if n_nodes < 1:
            outcome.result, outcome.error = FAILED, "max node total count already reached"
            _reject_all(pod_groups, "scale-up execution failed")
            return
        n_nodes = self._quotas.check(self._templates[best.group.name].node, best.group, n_nodes).n_nodes
        outcome.growths = self._shared(best.group, n_nodes)
        outcome.result = SUCCESSFUL
        self.execute(outcome.growths)

    def _capped(self, outcome: ScaleUp, n_nodes: int, n_present: int) -> int:
        """Return how many nodes may come beside those present, and note it where that is fewer than are wanted."""
        most = self._options.max_nodes_total
        if most <= 0 or n_nodes + n_present <= most:
            return n_nodes
        outcome.events.append(("MaxNodesTotalReached", MAX_NODES_TOTAL.format(most)))
        return most - n_present

    def _shared(self, group: NodeGroup, n_nodes: int) -> list[Growth]:
        """Share new nodes among a group and those similar to it; balanceScaleUps, capScaleUpsByQuota."""
        similar = [
            other
            for other in self._similar(group, self._fitting)
            if not self._quotas.check(self._templates[other.name].node, other, 1).exceeded
        ]
        growths = balanced([group, *similar], n_nodes)
        for growth in growths:
            node, delta = self._templates[growth.group.name].node, growth.wanted - growth.current
            growth.wanted = growth.current + self._quotas.consume(node, growth.group, delta).n_nodes
        return [growth for growth in growths if growth.wanted != growth.current]

    def execute(self, growths: Sequence[Growth]) -> None:
        for growth in growths:
            growth.group.target = growth.wanted
            self._state.register(growth.group, growth.wanted - growth.current, self._expanders.now)
        self._state.recalculate()

    def scale_to_least(self) -> ScaleUp:
        """Let groups grow to their least size; ScaleUpToNodeGroupMinSize."""
        outcome = ScaleUp("ScaleUpNotNeeded")
        for group in self._groups:
            template = self._templates.get(group.name)
            if group.target >= group.least or self._unsafe(group) is not None or template is None:
                continue
            if self._quotas.check(template.node, group, 1).exceeded:
                continue
            allowed = self._quotas.check(template.node, group, group.least - group.target).n_nodes
            n_nodes = self._capped(outcome, allowed, group.target)
            if n_nodes > 0:
                outcome.growths.append(Growth(group, group.target, group.target + n_nodes))
        if outcome.growths:
            outcome.result = SUCCESSFUL
            self.execute(outcome.growths)
        return outcome

    def _unhelped(self, pod_groups: Sequence[PodGroup], skipped: Mapping[str, Skipped]) -> list[Unhelped]:
        """Return the pods that fit no group that may grow; GetRemainingPods."""
        stuck = [pod_group for pod_group in pod_groups if not pod_group.fitting]
        if self._options.scaleup_simulation_for_skipped_node_groups_enabled:
            self._try_groups(stuck, [name for name in skipped if name in self._templates])
        return [
            Unhelped(pod, pods.rejected, {name: why for name, why in skipped.items() if name not in pods.rejected})
            for pods in stuck
            for pod in pods.pods
        ]


def _note(pod_group: PodGroup, name: str, rejection: Rejection | None) -> None:
    if rejection is None:
        pod_group.fitting.append(name)
    else:
        pod_group.rejected[name] = rejection


def _reject_all(pod_groups: Sequence[PodGroup], reason: str) -> None:
    """Note that pods are not helped after all; markAllGroupsAsUnschedulable."""
    for pod_group in pod_groups:
        for name in pod_group.fitting:
            pod_group.rejected[name] = (reason,)
        pod_group.fitting.clear()
