"""Typed plugin arguments: their defaults, and what kube-scheduler refuses in them, with a hint what to write."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from kplan.api import affinity
from kplan.api.field_errors import GoStruct
from kplan.api.labels import requirement_errors
from kplan.api.meta import Int64
from kplan.api.names import label_key_problems
from kplan.api.time import SECOND, Duration, Nanoseconds, format_duration
from kplan.config.problems import FieldPath
from kplan.config.releases import Release

S = TypeVar("S", bound=msgspec.Struct)
_STRATEGIES: Final = ("LeastAllocated", "MostAllocated", "RequestedToCapacityRatio")
_ACTIONS: Final = ("DoNotSchedule", "ScheduleAnyway")
_DEFAULTING: Final = ("System", "List")
_COUNT_HINTS: Final = {
    **dict.fromkeys(("In", "NotIn"), "add at least one value"),
    **dict.fromkeys(("Exists", "DoesNotExist"), "remove values, or write In or NotIn"),
    **dict.fromkeys(("Gt", "Lt"), "write one whole number, in quotes"),
}


class ConfigStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of all structs of the configuration: frozen, by keyword, camel case in JSON, a default for every field."""


def filled(struct: S) -> S:
    """Return a struct with its defaults in place of empty texts and lists, and of zeros."""
    of_all = zip(struct.__struct_fields__, msgspec.structs.astuple(struct), struct.__struct_defaults__, strict=True)
    return replace(struct, **{name: default for name, value, default in of_all if not value and value is not False})


class PluginArgs(ConfigStruct, frozen=True, kw_only=True):
    """Base of all plugin arguments."""

    def defaulted(self, _: Release) -> PluginArgs:
        """Return them with defaults in place of empty lists, empty texts and weights of 0, as a release has them."""
        return self

    def check(self, field: FieldPath) -> None:
        """Record everything that kube-scheduler refuses in them."""


class ResourceSpec(ConfigStruct, frozen=True, kw_only=True):
    """A resource to score by, with its weight among the others."""

    name: str = ""
    weight: Int64 = 1


#: The resources that score when none are named: CPU and memory with equal weights.
DEFAULT_RESOURCES: Final = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class UtilizationShapePoint(ConfigStruct, frozen=True, kw_only=True):
    """One point of a piecewise linear score: at `utilization` (0 to 100) the `score` (0 to 10)."""

    utilization: Int64 = 0
    score: Int64 = 0


class RequestedToCapacityRatioParam(ConfigStruct, frozen=True, kw_only=True):
    """The score of the strategy RequestedToCapacityRatio, as points in order of utilization."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(ConfigStruct, frozen=True, kw_only=True):
    """How NodeResourcesFit scores: LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    type: str = ""
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of NodeResourcesFit; an ignored group `example.com` ignores every `example.com/…`."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")

    def defaulted(self, _: Release) -> NodeResourcesFitArgs:
        strategy = filled(self.scoring_strategy)
        resources = tuple(map(filled, strategy.resources))
        return replace(self, scoring_strategy=replace(strategy, resources=resources))

    def check(self, field: FieldPath) -> None:
        for at, resource in field["ignoredResources"].walk(self.ignored_resources):
            _label_name(resource, at)
        for at, group in field["ignoredResourceGroups"].walk(self.ignored_resource_groups):
            if "/" in group:
                hint = f"write only {group.split('/')[0]}, or the whole name under ignoredResources"
                at.invalid(group, "resource group name can't contain '/'", hint)
            _label_name(group, at)
        strategy, field = self.scoring_strategy, field["scoringStrategy"]
        if strategy.type not in _STRATEGIES:
            hint = "write LeastAllocated (the default), MostAllocated or RequestedToCapacityRatio"
            field["type"].unsupported(strategy.type, _STRATEGIES, hint)
        for at, spec in field["resources"].walk(strategy.resources):
            if not 0 < spec.weight <= 100:
                detail = f"resource weight of {spec.name} not in valid range (0, 100]"
                at["weight"].invalid(spec.weight, detail, "write a number from 1 to 100")
        by_type, ratio = field.release.rules.checks_ratio_by_type, strategy.requested_to_capacity_ratio
        at, is_needed = field["requestedToCapacityRatio"], strategy.type == "RequestedToCapacityRatio"
        if is_needed and ratio is None:
            # A kube-scheduler that does not check it panics.
            hint = "add its shape, for example: shape: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]"
            at.required("must be specified when type is RequestedToCapacityRatio", hint)
        elif ratio is not None and not is_needed and by_type:
            hint = "write type: RequestedToCapacityRatio, or remove requestedToCapacityRatio"
            at.forbidden("must be nil when type is not RequestedToCapacityRatio", hint)
        elif ratio is not None:
            _function_shape(ratio.shape, (at if by_type else field)["shape"])


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of NodeResourcesBalancedAllocation; the only valid weight is 1."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES

    def defaulted(self, _: Release) -> NodeResourcesBalancedAllocationArgs:
        return replace(self, resources=tuple(map(filled, filled(self).resources)))

    def check(self, field: FieldPath) -> None:
        names: set[str] = set()
        for at, resource in field["resources"].walk(self.resources):
            if resource.name in names:
                at["name"].duplicate(resource.name, f"name {resource.name or 'each resource'} once")
            names.add(resource.name)
            if resource.weight != 1:
                hint = "write weight: 1 or leave it out; balance knows no weights"
                at["weight"].invalid(resource.weight, "must be 1", hint)


class InterPodAffinityArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of InterPodAffinity; the weight is that of required affinity of running pods in scores."""

    hard_pod_affinity_weight: Int64 = 1
    ignore_preferred_terms_of_existing_pods: bool = False

    def check(self, field: FieldPath) -> None:
        hint = "write a number from 0 to 100; the default is 1"
        field["hardPodAffinityWeight"].check_range(self.hard_pod_affinity_weight, 100, hint)


class PodTopologySpreadArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of PodTopologySpread.

    With `defaulting_type` System the list is empty and the plugin uses Kubernetes' default constraints; with
    List it is the list that applies to pods without constraints, and may be empty.
    """

    default_constraints: tuple[affinity.TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"

    def defaulted(self, _: Release) -> PodTopologySpreadArgs:
        return filled(self)

    def check(self, field: FieldPath) -> None:
        if self.defaulting_type not in _DEFAULTING:
            hint = "write List to use defaultConstraints, System for Kubernetes' own"
            field["defaultingType"].unsupported(self.defaulting_type, _DEFAULTING, hint)
        elif self.defaulting_type == "System" and self.default_constraints:
            hint = "write defaultingType: List, or remove defaultConstraints"
            field["defaultingType"].invalid(self.defaulting_type, "when .defaultConstraints are not empty", hint)
        pairs: set[tuple[str, str]] = set()
        for at, constraint in field["defaultConstraints"].walk(self.default_constraints):
            _spread_constraint(constraint, at)
            pair = (constraint.topology_key, constraint.when_unsatisfiable)
            if pair in pairs:
                hint = "keep one constraint for each pair of topologyKey and whenUnsatisfiable"
                at.duplicate(f"{{{', '.join(pair)}}}", hint)
            pairs.add(pair)


class NodeAffinityArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of NodeAffinity; `added_affinity` applies to every pod of the profile besides its own."""

    added_affinity: affinity.NodeAffinity | None = None

    def check(self, field: FieldPath) -> None:
        if self.added_affinity is None:
            return
        field = field["addedAffinity"]
        required = self.added_affinity.required_during_scheduling_ignored_during_execution
        if required is not None:
            terms = field["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            for at, term in terms.walk(required.node_selector_terms):
                _node_selector_term(term, at)
        preferred = self.added_affinity.preferred_during_scheduling_ignored_during_execution
        for at, weighted in field["preferredDuringSchedulingIgnoredDuringExecution"].walk(preferred):
            if weighted.weight != 0:  # upstream skips terms of weight 0 without parsing them
                _node_selector_term(weighted.preference, at["preference"])


class DefaultPreemptionArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of DefaultPreemption: how many candidates a sampled dry run looks for at least."""

    min_candidate_nodes_percentage: Int64 = 10
    min_candidate_nodes_absolute: Int64 = 100

    def check(self, field: FieldPath) -> None:
        percentage, absolute = self.min_candidate_nodes_percentage, self.min_candidate_nodes_absolute
        names = ("minCandidateNodesPercentage", "minCandidateNodesAbsolute")
        field[names[0]].check_range(percentage, 100)
        if absolute < 0:
            field[names[1]].invalid(absolute, "not in valid range [0, inf)", "write 0 or more")
        if percentage == 0 and absolute == 0:
            hint = "give one of the two a value above 0; the defaults are 10 and 100"
            for name, other in (names, names[::-1]):
                field[name].invalid(0, f"cannot be zero at the same time as {other}", hint)


class VolumeBindingArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of VolumeBinding; with the gate StorageCapacityScoring there is a `shape`, and without it None."""

    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None

    def defaulted(self, release: Release) -> VolumeBindingArgs:
        """Return arguments with a shape where storage is scored, emptier first (SetDefaults_VolumeBindingArgs)."""
        if self.shape or not release.is_on(STORAGE_SCORING_GATE):
            return self
        return replace(self, shape=_EMPTIER_FIRST)

    def check(self, field: FieldPath) -> None:
        if self.bind_timeout_seconds < 0:
            detail = "invalid BindTimeoutSeconds, should not be a negative value"
            hint = "write 0 (do not wait) or more; the default is 600"
            field["bindTimeoutSeconds"].invalid(self.bind_timeout_seconds, detail, hint)
        if field.release.is_on(STORAGE_SCORING_GATE):
            _function_shape(self.shape or (), field["shape"])
        elif self.shape is not None:
            detail = "unexpected field `shape`, remove it or turn on the feature gate StorageCapacityScoring"
            shape = [GoStruct(msgspec.to_builtins(point)) for point in self.shape]
            field["shape"].invalid(shape, detail, "remove it, or turn that gate on")


class DynamicResourcesArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of DynamicResources; a filter timeout of 0 means no limit, None that its feature is off."""

    filter_timeout: Duration | None = Nanoseconds(10 * SECOND)
    binding_timeout: Duration | None = Nanoseconds(600 * SECOND)

    def defaulted(self, release: Release) -> DynamicResourcesArgs:
        is_bound = release.is_on("DRADeviceBindingConditions") and release.is_on("DRAResourceClaimDeviceStatus")
        is_limited = release.is_on("DRASchedulerFilterTimeout")
        filtering, binding = self.filter_timeout if is_limited else None, self.binding_timeout if is_bound else None
        return DynamicResourcesArgs(filter_timeout=filtering, binding_timeout=binding)

    def check(self, field: FieldPath) -> None:
        if self.filter_timeout is not None and self.filter_timeout < 0:
            hint = "write 0s for no limit, or a duration; the default is 10s"
            field["filterTimeout"].invalid(format_duration(self.filter_timeout), "must be zero or positive", hint)
        if self.binding_timeout is not None and self.binding_timeout < SECOND:
            hint = "write 1s or more; the default is 600s"
            field["bindingTimeout"].invalid(format_duration(self.binding_timeout), "must be at least 1 second", hint)


STORAGE_SCORING_GATE: Final = "StorageCapacityScoring"
"""The feature gate with which VolumeBinding scores nodes by their storage."""

_EMPTIER_FIRST: Final = (
    UtilizationShapePoint(utilization=0, score=10),
    UtilizationShapePoint(utilization=100, score=0),
)

#: Plugin name -> the type of its arguments; other plugins take none.
ARGS_TYPES: Final[Mapping[str, type[PluginArgs]]] = MappingProxyType(
    {
        "DefaultPreemption": DefaultPreemptionArgs,
        "DynamicResources": DynamicResourcesArgs,
        "InterPodAffinity": InterPodAffinityArgs,
        "NodeAffinity": NodeAffinityArgs,
        "NodeResourcesBalancedAllocation": NodeResourcesBalancedAllocationArgs,
        "NodeResourcesFit": NodeResourcesFitArgs,
        "PodTopologySpread": PodTopologySpreadArgs,
        "VolumeBinding": VolumeBindingArgs,
    }
)


def args_type(name: str, release: Release) -> type[PluginArgs] | None:
    """Return the type of a plugin's arguments; None where it takes none in that release."""
    kind = ARGS_TYPES.get(name)
    return None if kind is None or (kind.__name__, "*") in release.absent_fields else kind


def default_args(name: str, release: Release) -> PluginArgs:
    return ARGS_TYPES[name]().defaulted(release)


def _spread_constraint(constraint: affinity.TopologySpreadConstraint, field: FieldPath) -> None:
    if constraint.max_skew <= 0:
        field["maxSkew"].invalid(constraint.max_skew, "not in valid range (0, inf)", "write 1 or more")
    if not constraint.topology_key:
        field["topologyKey"].required("can not be empty", "write a node label, such as topology.kubernetes.io/zone")
    else:
        _label_name(constraint.topology_key, field["topologyKey"])
    hint = "write DoNotSchedule to require it, ScheduleAnyway to prefer it"
    if not constraint.when_unsatisfiable:
        field["whenUnsatisfiable"].required("can not be empty", hint)
    elif constraint.when_unsatisfiable not in _ACTIONS:
        field["whenUnsatisfiable"].unsupported(constraint.when_unsatisfiable, _ACTIONS, hint)
    if constraint.label_selector is not None:
        hint = "remove it; the selector comes from the Services and workloads that select the pod"
        detail = "constraint must not define a selector, as they deduced for each pod"
        field["labelSelector"].forbidden(detail, hint)


def _function_shape(shape: tuple[UtilizationShapePoint, ...], field: FieldPath) -> None:
    if not shape:
        hint = "add points, for example: [{utilization: 0, score: 0}, {utilization: 100, score: 10}]"
        field.required("at least one point must be specified", hint)
        return
    for i, (before, point) in enumerate(pairwise(shape), 1):
        if before.utilization >= point.utilization:
            hint = f"order the points by utilization; this one must be above {before.utilization}"
            field[i]["utilization"].invalid(point.utilization, field.release.texts.utilization_order, hint)
            break
    for at, point in field.walk(shape):
        at["utilization"].check_range(point.utilization, 100)
        at["score"].check_range(point.score, 10)


def _node_selector_term(term: affinity.NodeSelectorTerm, field: FieldPath) -> None:
    for at, requirement in field["matchExpressions"].walk(term.match_expressions):
        _label_requirement(requirement, at)
    for at, requirement in field["matchFields"].walk(term.match_fields):
        if requirement.operator not in affinity.FIELD_OPERATORS:
            hint = "write In or NotIn, with one node name"
            at["operator"].unsupported(requirement.operator, affinity.FIELD_OPERATORS, hint)
        elif len(requirement.values) != 1:
            hint = "write one value; use several terms for several nodes"
            at["values"].invalid(list(requirement.values), "must have one element", hint)


def _label_requirement(requirement: affinity.NodeSelectorRequirement, field: FieldPath) -> None:
    if requirement.operator not in affinity.LABEL_OPERATORS:
        hint = "write In, NotIn, Exists, DoesNotExist, Gt or Lt"
        field["operator"].unsupported(requirement.operator, affinity.LABEL_OPERATORS, hint)
        return
    key, operator, values = requirement.key, requirement.operator, requirement.values
    for error in requirement_errors(key, operator, values, field.path):
        name, is_nested, _ = error.field.removeprefix(f"{field.path}.").partition("][")  # values[INDEX][KEY]
        if name == "key":
            hint = "write the key of a node label, such as topology.kubernetes.io/zone"
        elif name == "values":
            hint = _COUNT_HINTS[operator]
        elif operator in {"Gt", "Lt"}:
            hint = 'write a whole number in quotes, such as "5"'
        else:
            hint = "write a label value: letters, digits, '-', '_' and '.', at most 63"
        field.at(f"{field.path}.{name}{']' if is_nested else ''}").add(error.body, hint)


def _label_name(name: str, field: FieldPath) -> None:
    for error in label_key_problems(name):
        field.invalid(name, error, "write a name such as cpu, example.com or example.com/name")
