"""Affinity, topology spread constraints, node selectors and tolerations, as in objects and compiled.

Upstream: k8s.io/api core/v1 Toleration.ToleratesTaint, component-helpers scheduling/corev1.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final, TypeVar

import msgspec

from kplan.api.field_errors import aggregate, invalid, not_supported
from kplan.api.labels import InvalidSelector, Requirement, Selector, new_requirement, parse_int64, selector_of
from kplan.api.meta import Int32, Int64, KubeStruct, LabelSelector

NO_SCHEDULE = "NoSchedule"
PREFER_NO_SCHEDULE = "PreferNoSchedule"
NO_EXECUTE = "NoExecute"
EFFECTS = (NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE)

DO_NOT_SCHEDULE = "DoNotSchedule"
SCHEDULE_ANYWAY = "ScheduleAnyway"
HONOR = "Honor"

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
"""The field of affinity that decides, in JSON."""

COMPARISON_GATE: Final = "TaintTolerationComparisonOperators"
"""The feature gate without which the operators Lt and Gt tolerate nothing."""

_DECIMAL: Final = r"0|-?[1-9][0-9]{0,18}"
NAME_FIELD = "metadata.name"  #: the only field of a node that selectors can name
LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
FIELD_OPERATORS = ("In", "NotIn")


class AnyTaint(KubeStruct, frozen=True):
    """A mark on a node or on a device, which repels pods without a matching toleration."""

    key: str = ""
    value: str = ""
    effect: str = ""

    @property
    def text(self) -> str:
        """The taint as ``kubectl taint`` accepts it."""
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


class Taint(AnyTaint, frozen=True):
    time_added: str | None = None


class AnyToleration(KubeStruct, frozen=True):
    """Marks that a pod tolerates; an empty `key` or `effect` means any, an empty `operator` means Equal."""

    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""


class Toleration(AnyToleration, frozen=True):
    toleration_seconds: Int64 | None = None


T = TypeVar("T", bound=AnyTaint)


def tolerates(toleration: AnyToleration, taint: AnyTaint, *, compares: bool = False) -> bool:
    """Tell whether a toleration tolerates a taint; where it `compares` (COMPARISON_GATE), by Lt and Gt, too."""
    return arranged((toleration,), compares=compares).tolerate(taint)


def _decimal(text: str) -> int | None:
    """Return the int64 that a text is in canonical form (no plus sign, no leading zeros), or None."""
    return parse_int64(text) if re.fullmatch(_DECIMAL, text) else None


class Tolerations:
    """Tolerations, arranged so that the time of a look-up does not grow with their number; `compares` as above."""

    def __init__(self, tolerations: Iterable[AnyToleration], *, compares: bool = False) -> None:
        self._exists: set[tuple[str, str]] = set()  # keys and effects, empty for any
        self._equal: set[tuple[str, str, str]] = set()  # the same, and values
        self._above: dict[tuple[str, str], int] = {}  # values below this number are tolerated
        self._below: dict[tuple[str, str], int] = {}  # values above this number are tolerated
        for toleration in tolerations:
            scope = (toleration.key, toleration.effect)
            if toleration.operator in {"", "Equal"}:
                self._equal.add((*scope, toleration.value))
            elif toleration.operator == "Exists":
                self._exists.add(scope)
            elif compares and is_comparison(toleration) and (bound := _decimal(toleration.value)) is not None:
                if toleration.operator == "Lt":
                    self._above[scope] = max(bound, self._above.get(scope, bound))
                else:
                    self._below[scope] = min(bound, self._below.get(scope, bound))

    def tolerate(self, taint: AnyTaint) -> bool:
        key, value, effect = taint.key, taint.value, taint.effect
        scopes = ((key, effect), (key, ""), ("", effect), ("", ""))
        if not self._exists.isdisjoint(scopes) or not self._equal.isdisjoint([(*scope, value) for scope in scopes]):
            return True
        if not self._above and not self._below:
            return False
        number = _decimal(value)
        return number is not None and any(
            number < self._above.get(scope, number) or number > self._below.get(scope, number) for scope in scopes
        )


def untolerated(tolerations: Sequence[AnyToleration], taints: Sequence[T], *, compares: bool = False) -> tuple[T, ...]:
    """Return the taints that no toleration tolerates; the time grows with the sum of both numbers."""
    own = arranged(tuple(tolerations), compares=compares)
    return tuple(taint for taint in taints if not own.tolerate(taint))


@lru_cache(maxsize=64)
def arranged(tolerations: tuple[AnyToleration, ...], *, compares: bool) -> Tolerations:
    return Tolerations(tolerations, compares=compares)


def is_comparison(toleration: AnyToleration) -> bool:
    """Tell whether the toleration compares numbers (Lt, Gt), which needs the gate COMPARISON_GATE."""
    return toleration.operator in {"Lt", "Gt"}


class NodeSelectorRequirement(KubeStruct, frozen=True):
    """One expression over a node's labels or fields; `operator` is In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class NodeSelectorTerm(KubeStruct, frozen=True):
    """Expressions that all must hold; a term without any matches nothing."""

    match_expressions: tuple[NodeSelectorRequirement, ...] = ()
    match_fields: tuple[NodeSelectorRequirement, ...] = ()


class NodeSelector(KubeStruct, frozen=True):
    """Terms of which at least one must hold."""

    node_selector_terms: tuple[NodeSelectorTerm, ...] = ()


class PreferredSchedulingTerm(KubeStruct, frozen=True):
    """A term that adds its weight, 1 to 100, to the score of nodes where it holds."""

    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(KubeStruct, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(KubeStruct, frozen=True):
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    topology_key: str = ""
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(KubeStruct, frozen=True):
    """A term that adds its weight, 1 to 100, for every pod that it matches."""

    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(KubeStruct, frozen=True):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(PodAffinity, frozen=True):
    """The pods near which a pod must not, or preferably should not, run."""


class Affinity(KubeStruct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


def required_node_affinity(affinity: Affinity | None) -> NodeSelector | None:
    """Return the node selector that a pod's affinity requires; None for none."""
    node_affinity = None if affinity is None else affinity.node_affinity
    return None if node_affinity is None else node_affinity.required_during_scheduling_ignored_during_execution


class TopologySpreadConstraint(KubeStruct, frozen=True):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class VolumeNodeAffinity(KubeStruct, frozen=True):
    required: NodeSelector | None = None


class TopologySelectorLabelRequirement(KubeStruct, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(KubeStruct, frozen=True):
    """Label requirements that all must hold; a StorageClass's ``allowedTopologies`` is a list of such terms."""

    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class FieldRequirement(msgspec.Struct, frozen=True):
    """A field that must (or, if `is_negated`, must not) equal the value; unknown fields are empty."""

    key: str
    value: str
    is_negated: bool = False

    def matches(self, node_name: str) -> bool:
        actual = node_name if self.key == NAME_FIELD else ""
        return (actual == self.value) != self.is_negated


class CompiledTerm(msgspec.Struct, frozen=True):
    """One term; `labels` or `fields` is None where the term has no such expressions."""

    labels: Selector | None
    fields: tuple[FieldRequirement, ...] | None
    errors: tuple[str, ...] = ()

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        if self.errors or (self.labels is not None and not self.labels.matches(labels)):
            return False
        if self.fields is None or not node_name:
            return True
        return all(requirement.matches(node_name) for requirement in self.fields)


class CompiledNodeSelector(msgspec.Struct, frozen=True):
    """Terms of which one must hold; without any, no node matches."""

    terms: tuple[CompiledTerm, ...]

    @property
    def errors(self) -> tuple[str, ...]:
        """The errors of invalid terms, in order."""
        return tuple(error for term in self.terms for error in term.errors)

    def matches(self, labels: Mapping[str, str], node_name: str) -> bool:
        return any(term.matches(labels, node_name) for term in self.terms)


class WeightedTerm(msgspec.Struct, frozen=True):
    """A term, and the weight that it adds where it holds."""

    term: CompiledTerm
    weight: int


def compile_node_selector(selector: NodeSelector) -> CompiledNodeSelector:
    """Compile a node selector; errors stay in the terms."""
    terms = enumerate(selector.node_selector_terms)
    compiled = (compile_term(term, f"nodeSelectorTerms[{index}]") for index, term in terms if not _is_empty(term))
    return CompiledNodeSelector(tuple(compiled))


def compile_preferred_terms(terms: Sequence[PreferredSchedulingTerm], path: str = "") -> tuple[WeightedTerm, ...]:
    """Compile terms of some weight with expressions; raises InvalidSelector with all errors of all terms."""
    compiled = tuple(
        WeightedTerm(compile_term(term.preference, f"{path}[{index}]"), term.weight)
        for index, term in enumerate(terms)
        if term.weight and not _is_empty(term.preference)
    )
    if errors := [error for weighted in compiled for error in weighted.term.errors]:
        raise InvalidSelector(aggregate(errors))
    return compiled


def compile_term(term: NodeSelectorTerm, path: str = "") -> CompiledTerm:
    """Compile one term that has expressions or fields; `path` leads the field names of error messages."""
    prefix = f"{path}." if path else ""
    errors: list[str] = []
    labels: list[Requirement] = []
    for index, expression in enumerate(term.match_expressions):
        place = f"{prefix}matchExpressions[{index}]"
        if expression.operator not in LABEL_OPERATORS:
            errors.append(str(not_supported(f"{place}.operator", expression.operator, LABEL_OPERATORS)))
            continue
        try:
            labels.append(new_requirement(expression.key, expression.operator, expression.values, place))
        except InvalidSelector as error:
            errors.append(str(error))
    fields: list[FieldRequirement] = []
    for index, expression in enumerate(term.match_fields):
        place = f"{prefix}matchFields[{index}]"
        if expression.operator not in FIELD_OPERATORS:
            errors.append(str(not_supported(f"{place}.operator", expression.operator, FIELD_OPERATORS)))
        elif len(expression.values) != 1:
            values = list(expression.values) or None
            errors.append(str(invalid(f"{place}.values", values, "must have one element")))
        else:
            fields.append(FieldRequirement(expression.key, expression.values[0], expression.operator == "NotIn"))
    return CompiledTerm(
        labels=selector_of(labels) if term.match_expressions else None,
        fields=tuple(fields) if term.match_fields else None,
        errors=tuple(errors),
    )


def _is_empty(term: NodeSelectorTerm) -> bool:
    return not term.match_expressions and not term.match_fields
