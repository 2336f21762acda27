"""Typed plugin arguments, with their defaults.

An attribute is the snake case of the JSON field. A struct without arguments holds the plugin's defaults. Fields
without a default are empty (`""`, 0) when a file leaves them out, and validation then refuses them, as upstream.

Upstream: staging kube-scheduler/config/v1/types_pluginargs.go, apis/config/v1/defaults.go (default gates).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, TypeVar

import msgspec
from msgspec.structs import replace

from kplan.api.affinity import NodeAffinity, TopologySpreadConstraint
from kplan.api.durations import SECOND, Nanoseconds
from kplan.config.releases import Release

S = TypeVar("S", bound=msgspec.Struct)


class ConfigStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of all structs of the configuration: frozen, by keyword, camel case in JSON."""


def filled(struct: S) -> S:
    """Return a struct with its defaults in place of empty texts and lists, and of zeros."""
    fields = [field for field in msgspec.structs.fields(struct) if not field.required and field.type is not bool]
    return replace(struct, **{field.name: field.default for field in fields if not getattr(struct, field.name)})


class PluginArgs(ConfigStruct, frozen=True, kw_only=True):
    """Base of all plugin arguments."""


class ResourceSpec(ConfigStruct, frozen=True, kw_only=True):
    """A resource to score by, with its weight among the others."""

    name: str
    weight: int = 1


#: The resources that score when none are named: CPU and memory with equal weights.
DEFAULT_RESOURCES: Final = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class UtilizationShapePoint(ConfigStruct, frozen=True, kw_only=True):
    """One point of a piecewise linear score: at `utilization` (0 to 100) the `score` (0 to 10)."""

    utilization: int
    score: int


class RequestedToCapacityRatioParam(ConfigStruct, frozen=True, kw_only=True):
    """The score of the strategy RequestedToCapacityRatio, as points in order of utilization."""

    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(ConfigStruct, frozen=True, kw_only=True):
    """How NodeResourcesFit scores: LeastAllocated, MostAllocated or RequestedToCapacityRatio."""

    type: str
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class NodeResourcesFitArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of NodeResourcesFit; an ignored group `example.com` ignores every `example.com/…`."""

    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")


class NodeResourcesBalancedAllocationArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of NodeResourcesBalancedAllocation; the only valid weight is 1."""

    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class InterPodAffinityArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of InterPodAffinity; the weight is that of required affinity of running pods in scores."""

    hard_pod_affinity_weight: int = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class PodTopologySpreadArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of PodTopologySpread.

    With `defaulting_type` System the list is empty and the plugin uses Kubernetes' default constraints; with
    List it is the list that applies to pods without constraints, and may be empty.
    """

    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: str = "System"


class NodeAffinityArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of NodeAffinity; `added_affinity` applies to every pod of the profile besides its own."""

    added_affinity: NodeAffinity | None = None


class DefaultPreemptionArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of DefaultPreemption: how many candidates a sampled dry run looks for at least."""

    min_candidate_nodes_percentage: int = 10
    min_candidate_nodes_absolute: int = 100


class VolumeBindingArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of VolumeBinding; with the gate StorageCapacityScoring there is a `shape`, and without it None."""

    bind_timeout_seconds: int = 600
    shape: tuple[UtilizationShapePoint, ...] | None = None


class DynamicResourcesArgs(PluginArgs, frozen=True, kw_only=True):
    """Arguments of DynamicResources; a filter timeout of 0 means no limit, None that its feature is off."""

    filter_timeout: Nanoseconds | None = Nanoseconds(10 * SECOND)
    binding_timeout: Nanoseconds | None = Nanoseconds(600 * SECOND)


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
    """Return the default arguments of a plugin."""
    return defaulted(ARGS_TYPES[name](), release)


def defaulted(args: PluginArgs, release: Release) -> PluginArgs:
    """Return arguments with defaults in place of empty lists, empty texts and weights of 0, as a release has them."""
    if isinstance(args, DynamicResourcesArgs):
        is_bound = release.is_on("DRADeviceBindingConditions") and release.is_on("DRAResourceClaimDeviceStatus")
        is_limited = release.is_on("DRASchedulerFilterTimeout")
        filtering, binding = args.filter_timeout if is_limited else None, args.binding_timeout if is_bound else None
        return DynamicResourcesArgs(filter_timeout=filtering, binding_timeout=binding)
    if isinstance(args, VolumeBindingArgs):
        return with_default_shape(args, release)
    if isinstance(args, NodeResourcesFitArgs):
        strategy = filled(args.scoring_strategy)
        resources = tuple(map(filled, strategy.resources))
        return replace(args, scoring_strategy=replace(strategy, resources=resources))
    if isinstance(args, NodeResourcesBalancedAllocationArgs):
        return replace(args, resources=tuple(map(filled, filled(args).resources)))
    return filled(args) if isinstance(args, PodTopologySpreadArgs) else args


def with_default_shape(args: VolumeBindingArgs, release: Release) -> VolumeBindingArgs:
    """Return arguments of VolumeBinding with a shape where the release scores storage: emptier storage is better.

    Upstream: apis/config/v1/defaults.go SetDefaults_VolumeBindingArgs.
    """
    if args.shape or not release.is_on(STORAGE_SCORING_GATE):
        return args
    return replace(args, shape=_EMPTIER_FIRST)
