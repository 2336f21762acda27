"""The expanders, which choose among groups that could grow.

The patterns of priorities, which one of them reads from a ConfigMap, are Go's regular expressions, which the CEL
library evaluates alike, in linear time.

Upstream: cluster-autoscaler expander/.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from kplan.api.core import Node, Pod
from kplan.api.labels import INSTANCE_TYPE
from kplan.api.quantity import milli_value, parse, value
from kplan.autoscaling.cluster_autoscaler.estimator import Estimate
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.nodes import GPU_LABEL, GPU_RESOURCES, gpus, quotient
from kplan.autoscaling.cluster_autoscaler.options import GIB, yaml_of
from kplan.autoscaling.cluster_autoscaler.scratch import Scratch
from kplan.autoscaling.cluster_autoscaler.templates import Template
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
