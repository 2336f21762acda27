"""Typed plugin arguments, with their defaults.

An attribute is the snake case of the JSON field. A struct without arguments holds the plugin's defaults. Fields
without a default are empty (`""`, 0) when a file leaves them out, and validation then refuses them, as upstream.

Upstream: staging kube-scheduler/config/v1/types_pluginargs.go, apis/config/v1/defaults.go (default gates).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from kplan.api.affinity import NodeAffinity, TopologySpreadConstraint
from kplan.api.durations import SECOND, Nanoseconds
from kplan.config.releases import Release


class ConfigStruct(msgspec.Struct, frozen=True, kw_only=True, rename="camel", gc=False):
    """Base of all structs of the configuration: frozen, by keyword, camel case in JSON."""


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
    args = ARGS_TYPES[name]()
    if isinstance(args, VolumeBindingArgs):
        return with_default_shape(args, release)
    if not isinstance(args, DynamicResourcesArgs):
        return args
    return DynamicResourcesArgs(
        filter_timeout=args.filter_timeout if has_filter_timeout(release) else None,
        binding_timeout=args.binding_timeout if has_binding_timeout(release) else None,
    )


def with_default_shape(args: VolumeBindingArgs, release: Release) -> VolumeBindingArgs:
    """Return arguments of VolumeBinding with a shape where the release scores storage: emptier storage is better.

    Upstream: apis/config/v1/defaults.go SetDefaults_VolumeBindingArgs.
    """
    if args.shape or not release.is_on(STORAGE_SCORING_GATE):
        return args
    return msgspec.structs.replace(args, shape=_EMPTIER_FIRST)


def has_filter_timeout(release: Release) -> bool:
    """Tell whether DynamicResources limits the time of its filter for a node."""
    return release.is_on("DRASchedulerFilterTimeout")


def has_binding_timeout(release: Release) -> bool:
    """Tell whether DynamicResources waits for devices to become ready."""
    return release.is_on("DRADeviceBindingConditions") and release.is_on("DRAResourceClaimDeviceStatus")
