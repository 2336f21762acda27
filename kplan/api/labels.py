"""Labels: compiled selectors, canonical, hashable and total; and the well-known keys of Kubernetes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, Literal, NamedTuple

import msgspec

from kplan.api.field_errors import FieldError, aggregate, invalid, not_supported, quoted
from kplan.api.meta import LabelSelector, LabelSelectorRequirement
from kplan.api.names import label_key_problems, label_value_problems
from kplan.api.quantity import INT64, MAX_INT64, natural

HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"
REGION: Final = "topology.kubernetes.io/region"
CONTROL_PLANE: Final = ("node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master")
"""Labels, and keys of taints, of the nodes that run the control plane."""

INSTANCE_TYPE: Final = "node.kubernetes.io/instance-type"
ARCH: Final = "kubernetes.io/arch"
OS: Final = "kubernetes.io/os"
BETA_INSTANCE_TYPE: Final = "beta.kubernetes.io/instance-type"
BETA_ARCH: Final = "beta.kubernetes.io/arch"
BETA_OS: Final = "beta.kubernetes.io/os"
BETA_ZONE: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION: Final = "failure-domain.beta.kubernetes.io/region"
CURRENT_LABEL: Final = {
    BETA_ZONE: ZONE,
    BETA_REGION: REGION,
    BETA_ARCH: ARCH,
    BETA_OS: OS,
    BETA_INSTANCE_TYPE: INSTANCE_TYPE,
}
"""Old label of a node -> the label that took its place."""
UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
"""The key of the taint that the node lifecycle controller puts on cordoned nodes."""
NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
"""Of the taints that it puts on nodes for what their condition Ready says."""
NETWORK_UNAVAILABLE: Final = "node.kubernetes.io/network-unavailable"
MEMORY_PRESSURE: Final = "node.kubernetes.io/memory-pressure"
DISK_PRESSURE: Final = "node.kubernetes.io/disk-pressure"
PID_PRESSURE: Final = "node.kubernetes.io/pid-pressure"
"""Of those for other conditions."""
UNINITIALIZED: Final = "node.cloudprovider.kubernetes.io/uninitialized"
SHUTDOWN: Final = "node.cloudprovider.kubernetes.io/shutdown"
"""Of the taints of cloud providers, on machines that are not known yet, and on those that are off."""
DISRUPTED: Final = "karpenter.sh/disrupted"
UNREGISTERED: Final = "karpenter.sh/unregistered"
"""Of Karpenter's taints, on nodes that it is about to remove, and on those that have just come."""
TO_BE_DELETED: Final = "ToBeDeletedByClusterAutoscaler"
DELETION_CANDIDATE: Final = "DeletionCandidateOfClusterAutoscaler"
"""Of the cluster-autoscaler's taints."""
OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
"""Of the taint with which people say that a machine is off, so that the garbage collector removes its pods."""
ANNOTATION_CLASS: Final = "volume.beta.kubernetes.io/storage-class"
"""The storage class of claims and volumes before there was a field for it; it still takes precedence."""
#: Labels that controllers write onto pods.
TEMPLATE_HASH: Final = "pod-template-hash"
TEMPLATE_GENERATION: Final = "pod-template-generation"
REVISION_HASH: Final = "controller-revision-hash"
STATEFUL_NAME: Final = "statefulset.kubernetes.io/pod-name"
STATEFUL_INDEX: Final = "apps.kubernetes.io/pod-index"
COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
JOB_NAME: Final = "batch.kubernetes.io/job-name"
CONTROLLER_UID: Final = "batch.kubernetes.io/controller-uid"
LEGACY_JOB_NAME: Final = "job-name"
LEGACY_CONTROLLER_UID: Final = "controller-uid"
NODEPOOL: Final = "karpenter.sh/nodepool"
POOL_LABELS: Final = (
    NODEPOOL,
    "eks.amazonaws.com/nodegroup",
    "cloud.google.com/gke-nodepool",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "node-pool",
    "nodepool",
    "pool",
    INSTANCE_TYPE,
)
"""Labels for the name of a node pool; the first one that some node has counts."""
GATED_CONDITION: Final = "Scheduling is blocked due to non-empty scheduling gates"
"""What the API server writes into the condition PodScheduled of a pod with gates (registry/core/pod strategy.go)."""

Operator = Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]


def job_labels(name: str, uid: str) -> dict[str, str]:
    """Return the labels by which a job finds its pods; the API server sets them, and refuses them in a new job."""
    return {LEGACY_JOB_NAME: name, JOB_NAME: name, LEGACY_CONTROLLER_UID: uid, CONTROLLER_UID: uid}


class InvalidSelector(ValueError):  # noqa: N818 - says what is wrong, as Go's error values do
    """A selector that the API machinery refuses to compile; the message is upstream's."""


class Requirement(NamedTuple):
    """One condition on one label; `values` are sorted and distinct."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str]) -> bool:
        return self.matches_value(labels.get(self.key))

    def matches_value(self, value: str | None) -> bool:
        """Tell whether the condition holds for the label's value; None is an absent label."""
        operator = self.operator
        if operator == "In":
            return value in self.values
        if operator == "NotIn":
            return value not in self.values
        if operator == "Exists":
            return value is not None
        if operator == "DoesNotExist":
            return value is None
        return self._compares(value)

    def _compares(self, value: str | None) -> bool:
        if value is None or len(self.values) != 1:
            return False
        left, right = parse_int64(value), parse_int64(self.values[0])
        if left is None or right is None:
            return False
        return left > right if self.operator == "Gt" else left < right

    def __str__(self) -> str:
        if self.operator == "Exists":
            return self.key
        if self.operator == "DoesNotExist":
            return f"!{self.key}"
        if self.operator in {"Gt", "Lt"}:
            return f"{self.key}{'>' if self.operator == 'Gt' else '<'}{','.join(self.values)}"
        if self.operator == "In" and len(self.values) == 1:
            return f"{self.key}={self.values[0]}"
        return f"{self.key} {'in' if self.operator == 'In' else 'notin'} ({','.join(self.values)})"


class Selector(msgspec.Struct, frozen=True, cache_hash=True, gc=False):
    """Requirements that all must hold; without any the selector matches everything, unless it `is_nothing`.

    Build it with :func:`selector_from`, :func:`selector_from_map` or :func:`selector_of`, which keep it canonical.
    """

    requirements: tuple[Requirement, ...] = ()
    is_nothing: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.requirements and not self.is_nothing

    def matches(self, labels: Mapping[str, str]) -> bool:
        return not self.is_nothing and all(requirement.matches(labels) for requirement in self.requirements)

    def plus(self, *requirements: Requirement) -> Selector:
        """Return the selector with further requirements; one that matches nothing stays the same."""
        return self if self.is_nothing else selector_of((*self.requirements, *requirements))

    def __str__(self) -> str:
        return "<nothing>" if self.is_nothing else ",".join(str(requirement) for requirement in self.requirements)


NOTHING = Selector(is_nothing=True)
EVERYTHING = Selector()


def selector_from(selector: LabelSelector | None) -> Selector:
    """Compile a label selector; None matches nothing, an empty one everything; raises InvalidSelector."""
    if selector is None:
        return NOTHING
    return _compiled(tuple(selector.match_labels.items()), selector.match_expressions)


@lru_cache(maxsize=4096)
def _compiled(labels: tuple[tuple[str, str], ...], expressions: tuple[LabelSelectorRequirement, ...]) -> Selector:
    requirements = [new_requirement(key, "In", (value,)) for key, value in sorted(labels)]
    for expression in expressions:
        if expression.operator not in {"In", "NotIn", "Exists", "DoesNotExist"}:
            raise InvalidSelector(f"{quoted(expression.operator)} is not a valid label selector operator")
        requirements.append(new_requirement(expression.key, expression.operator, expression.values))
    return selector_of(requirements)


def valid_selector(selector: LabelSelector | None) -> Selector:
    """Compile a label selector; None and an invalid one match nothing."""
    try:
        return selector_from(selector)
    except InvalidSelector:
        return NOTHING


def selector_from_map(labels: Mapping[str, str]) -> Selector:
    """Compile a map, as in services and node selectors, without validation; an empty map matches everything."""
    return selector_of(Requirement(key, "In", (value,)) for key, value in labels.items()) if labels else EVERYTHING


def selector_of(requirements: Iterable[Requirement]) -> Selector:
    return Selector(tuple(sorted(set(requirements))))


def new_requirement(key: str, operator: str, values: Sequence[str], path: str = "") -> Requirement:
    """Check and build one requirement, with `path` before the fields of a message; raises InvalidSelector."""
    if errors := requirement_errors(key, operator, values, path):
        raise InvalidSelector(aggregate(errors))
    return Requirement(key, operator, tuple(sorted(set(values))))  # type: ignore[arg-type]  # it is known by now


def requirement_errors(key: str, operator: str, values: Sequence[str], path: str = "") -> list[FieldError]:
    """Return what is wrong with a requirement at a path (upstream NewRequirement)."""
    prefix, errors = f"{path}." if path else "", list[FieldError]()
    if problems := label_key_problems(key):
        errors.append(invalid(f"{prefix}key", key, "; ".join(problems)))
    least, most, words = _ON_VALUES.get(operator, _ANY)
    if operator not in _ON_VALUES:
        errors.append(not_supported(f"{prefix}operator", operator, _SELECTION_OPERATORS))
    elif not least <= len(values) <= most:
        errors.append(invalid(f"{prefix}values", list(values) or None, words))
    for index, value in enumerate(values if operator in {"Gt", "Lt"} else ()):
        if parse_int64(value) is None:
            words = "for 'Gt', 'Lt' operators, the value must be an integer"
            errors.append(invalid(f"{prefix}values[{index}]", value, words))
    for index, value in enumerate(values):
        if problems := label_value_problems(value):
            errors.append(invalid(f"{prefix}values[{index}][{key}]", value, "; ".join(problems)))
    return errors


_SOME = (1, math.inf, "for 'in', 'notin' operators, values set can't be empty")
_NONE = (0, 0, "values set must be empty for exists and does not exist")
_ONE = (1, 1, "for 'Gt', 'Lt' operators, exactly one value is required")
_ANY = (0, math.inf, "")
#: Operator -> how many values it takes, at least and at most, and what a message says of another number.
_ON_VALUES = {"In": _SOME, "NotIn": _SOME, "Exists": _NONE, "DoesNotExist": _NONE, "Gt": _ONE, "Lt": _ONE}
_SELECTION_OPERATORS = ("!", "=", "==", "exists", "gt", "in", "lt", "notin", "!=")  #: as messages name them


def parse_int64(text: str) -> int | None:
    """Return the number as Go's ParseInt parses it in base 10; None for another text."""
    number = natural(text[1:] if text[:1] in {"+", "-"} else text, MAX_INT64 + 1)
    if number is None:
        return None
    number = -number if text[0] == "-" else number
    return number if number in INT64 else None


_KEY = r"[^\s=!,()]+"
_SET = rf"({_KEY})\s+(in|notin)\s+\(([^()]*)\)"
_EQUAL = rf"({_KEY})\s*(==|=|!=)\s*([^\s=!,()]*)"
_EXISTS = rf"(!?)\s*({_KEY})"


def parse_selector(text: str) -> Selector:
    """Parse a selector such as ``app=web,tier in (a, b),!canary``, or an empty one; raises InvalidSelector."""
    if not text.strip():
        return Selector()
    return selector_of(_requirement(part.strip()) for part in _parts(text))


def _parts(text: str) -> list[str]:
    # From the end, since a comma stands within parentheses where a closing one comes before the next opening one.
    parts: list[str] = []
    end, within = len(text), False
    for position in range(len(text) - 1, -1, -1):
        character = text[position]
        if character in "()":
            within = character == ")"
        elif character == "," and not within:
            parts.append(text[position + 1 : end])
            end = position
    return [text[:end], *reversed(parts)]


def _requirement(part: str) -> Requirement:
    if match := re.fullmatch(_SET, part):
        key, operator, values = match.groups()
        chosen = [value.strip() for value in values.split(",")]
        return new_requirement(key, "In" if operator == "in" else "NotIn", chosen)
    if match := re.fullmatch(_EQUAL, part):
        key, operator, value = match.groups()
        return new_requirement(key, "NotIn" if operator == "!=" else "In", [value])
    if match := re.fullmatch(_EXISTS, part):
        return new_requirement(match[2], "DoesNotExist" if match[1] else "Exists", [])
    raise InvalidSelector(f"cannot read {part!r} as a part of a label selector")
