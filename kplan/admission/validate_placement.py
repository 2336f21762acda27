"""What an API server refuses in the fields that steer placement (pkg/apis/core/validation, v1.36)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kplan.api.affinity import (
    Affinity,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
)
from kplan.api.core import PodSpec
from kplan.api.labels import InvalidSelector, selector_from
from kplan.api.meta import LabelSelector
from kplan.api.names import dns_label_problems, label_key_problems, label_value_problems
from kplan.api.nodeselector import compile_term
from kplan.api.tolerations import NO_EXECUTE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Toleration, is_comparison
from kplan.errors import Problem

__all__ = ["placement_problems"]

_MAX_WEIGHT = 100
_EFFECTS = ("", NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")
_POLICIES = ("Honor", "Ignore")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def placement_problems(spec: PodSpec, path: str) -> Iterator[Problem]:
    """Yield what is wrong with node selector, tolerations, affinity, spreading and gates."""
    for key, value in spec.node_selector.items():
        for text in (*label_key_problems(key), *label_value_problems(value)):
            yield Problem(text, json_path=f"{path}.nodeSelector[{key!r}]")
    for index, toleration in enumerate(spec.tolerations):
        yield from _toleration_problems(toleration, f"{path}.tolerations[{index}]")
    if spec.affinity is not None:
        yield from _affinity_problems(spec.affinity, f"{path}.affinity")
    yield from _spread_problems(spec.topology_spread_constraints, f"{path}.topologySpreadConstraints")
    for index, gate in enumerate(spec.scheduling_gates):
        for text in label_key_problems(gate.name):
            yield Problem(text, json_path=f"{path}.schedulingGates[{index}].name")
    if spec.scheduling_gates and spec.node_name:
        yield Problem("a pod with scheduling gates cannot name its node", json_path=f"{path}.nodeName")


def _affinity_problems(affinity: Affinity, path: str) -> Iterator[Problem]:
    if affinity.node_affinity is not None:
        yield from _node_affinity_problems(affinity.node_affinity, f"{path}.nodeAffinity")
    if affinity.pod_affinity is not None:
        yield from _pod_affinity_problems(affinity.pod_affinity, f"{path}.podAffinity")
    if affinity.pod_anti_affinity is not None:
        yield from _pod_affinity_problems(affinity.pod_anti_affinity, f"{path}.podAntiAffinity")


def _toleration_problems(toleration: Toleration, path: str) -> Iterator[Problem]:
    if toleration.key:
        for text in label_key_problems(toleration.key):
            yield Problem(text, json_path=f"{path}.key")
    elif toleration.operator != "Exists":
        yield Problem(
            "must be Exists when key is empty, which means all values and all keys", json_path=f"{path}.operator"
        )
    if toleration.operator not in {"", "Equal", "Exists"}:
        hint = "Lt and Gt need the gate TaintTolerationComparisonOperators" if is_comparison(toleration) else ""
        yield Problem(f'"{toleration.operator}" is not one of Equal, Exists', json_path=f"{path}.operator", hint=hint)
    if toleration.operator == "Exists" and toleration.value:
        yield Problem("must be empty when operator is Exists", json_path=f"{path}.value")
    if toleration.effect not in _EFFECTS:
        message = f'"{toleration.effect}" is not one of {", ".join(_EFFECTS[1:])}'
        yield Problem(message, json_path=f"{path}.effect")
    if toleration.toleration_seconds is not None and toleration.effect != NO_EXECUTE:
        yield Problem("must be NoExecute where tolerationSeconds is set", json_path=f"{path}.effect")


def _node_affinity_problems(affinity: NodeAffinity, path: str) -> Iterator[Problem]:
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        place = f"{path}.{_REQUIRED}.nodeSelectorTerms"
        if not required.node_selector_terms:
            yield Problem("at least one term is required", json_path=place)
        for index, term in enumerate(required.node_selector_terms):
            for error in compile_term(term).errors:
                yield _from_compiler(error, f"{place}[{index}]")
    for index, preferred in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        place = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight_problems(preferred.weight, place)
        for error in compile_term(preferred.preference).errors:
            yield _from_compiler(error, f"{place}.preference")


def _pod_affinity_problems(affinity: PodAffinity | PodAntiAffinity, path: str) -> Iterator[Problem]:
    for index, term in enumerate(affinity.required_during_scheduling_ignored_during_execution):
        yield from _term_problems(term, f"{path}.{_REQUIRED}[{index}]")
    for index, weighted in enumerate(affinity.preferred_during_scheduling_ignored_during_execution):
        place = f"{path}.{_PREFERRED}[{index}]"
        yield from _weight_problems(weighted.weight, place)
        yield from _term_problems(weighted.pod_affinity_term, f"{place}.podAffinityTerm")


def _term_problems(term: PodAffinityTerm, path: str) -> Iterator[Problem]:
    yield from _topology_key_problems(term.topology_key, path)
    yield from _selector_problems(term.label_selector, f"{path}.labelSelector")
    yield from _selector_problems(term.namespace_selector, f"{path}.namespaceSelector")
    for index, namespace in enumerate(term.namespaces):
        for text in dns_label_problems(namespace):
            yield Problem(f'"{namespace}": {text}', json_path=f"{path}.namespaces[{index}]")
    for field, keys in (("matchLabelKeys", term.match_label_keys), ("mismatchLabelKeys", term.mismatch_label_keys)):
        if keys and term.label_selector is None:
            yield Problem("must not be set without labelSelector", json_path=f"{path}.{field}")
    for key in set(term.match_label_keys) & set(term.mismatch_label_keys):
        yield Problem(f"{key} is also in mismatchLabelKeys", json_path=f"{path}.matchLabelKeys")


def _spread_problems(constraints: Sequence[TopologySpreadConstraint], path: str) -> Iterator[Problem]:
    seen = set()
    for index, constraint in enumerate(constraints):
        place = f"{path}[{index}]"
        yield from _constraint_problems(constraint, place)
        pair = (constraint.topology_key, constraint.when_unsatisfiable)
        if pair in seen:
            yield Problem(f"{', '.join(pair)} is there twice", json_path=place)
        seen.add(pair)


def _constraint_problems(constraint: TopologySpreadConstraint, path: str) -> Iterator[Problem]:
    if constraint.max_skew < 1:
        yield Problem("must be at least 1", json_path=f"{path}.maxSkew")
    yield from _topology_key_problems(constraint.topology_key, path)
    if constraint.when_unsatisfiable not in _ACTIONS:
        message = f'"{constraint.when_unsatisfiable}" is not one of {", ".join(_ACTIONS)}'
        yield Problem(message, json_path=f"{path}.whenUnsatisfiable")
    if constraint.min_domains is not None:
        if constraint.min_domains < 1:
            yield Problem("must be at least 1", json_path=f"{path}.minDomains")
        if constraint.when_unsatisfiable != "DoNotSchedule":
            yield Problem("can only be set with whenUnsatisfiable: DoNotSchedule", json_path=f"{path}.minDomains")
    for field, policy in (
        ("nodeAffinityPolicy", constraint.node_affinity_policy),
        ("nodeTaintsPolicy", constraint.node_taints_policy),
    ):
        if policy is not None and policy not in _POLICIES:
            yield Problem(f'"{policy}" is not one of {", ".join(_POLICIES)}', json_path=f"{path}.{field}")
    if constraint.match_label_keys and constraint.label_selector is None:
        yield Problem("must not be set without labelSelector", json_path=f"{path}.matchLabelKeys")
    yield from _selector_problems(constraint.label_selector, f"{path}.labelSelector")


def _topology_key_problems(key: str, path: str) -> Iterator[Problem]:
    if not key:
        yield Problem("a topology key is required", json_path=f"{path}.topologyKey")
    else:
        for text in label_key_problems(key):
            yield Problem(text, json_path=f"{path}.topologyKey")


def _weight_problems(weight: int, path: str) -> Iterator[Problem]:
    if not 1 <= weight <= _MAX_WEIGHT:
        yield Problem(f"{weight} is not in the range 1 to {_MAX_WEIGHT}", json_path=f"{path}.weight")


def _selector_problems(selector: LabelSelector | None, path: str) -> Iterator[Problem]:
    try:
        selector_from(selector)
    except InvalidSelector as error:
        yield Problem(str(error), json_path=path)


def _from_compiler(error: str, path: str) -> Problem:
    """Turn a compiler's ``field: text`` into a problem at that field."""
    field, _, text = error.partition(": ")
    return Problem(text, json_path=f"{path}.{field}")
