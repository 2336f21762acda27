"""The plugins that ship inside kube-scheduler v1.36, as facts: names, extension points, default order.

Configuration has to know which extension points a plugin implements in order to expand `multiPoint`, but may not
import plugins; a test in the plugin room holds the two against each other.

Upstream: framework/plugins/registry.go NewInTreeRegistry, apis/config/v1/default_plugins.go getDefaultPlugins (v1.36).
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DEFAULT_PLUGINS",
    "EXTENSION_POINTS",
    "GATED_PLUGINS",
    "IMPLEMENTS",
    "PLACEMENT_POINTS",
    "REMOVED_PLUGINS",
    "UPSTREAM_POINT_NAMES",
]

#: The extension points of a pod's scheduling cycle, in the order in which a pod meets them.
EXTENSION_POINTS: Final = (
    "pre_enqueue",
    "queue_sort",
    "pre_filter",
    "filter",
    "post_filter",
    "pre_score",
    "score",
    "reserve",
    "permit",
    "pre_bind",
    "bind",
    "post_bind",
)

#: Extension points of whole pod groups. They run only with the gate TopologyAwareWorkloadScheduling, off by default.
PLACEMENT_POINTS: Final = ("placement_generate", "placement_score")

#: Extension point -> the Go type by which kube-scheduler's start-up errors call its plugins.
UPSTREAM_POINT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "pre_enqueue": "PreEnqueuePlugin",
        "queue_sort": "QueueSortPlugin",
        "pre_filter": "PreFilterPlugin",
        "filter": "FilterPlugin",
        "post_filter": "PostFilterPlugin",
        "pre_score": "PreScorePlugin",
        "score": "ScorePlugin",
        "reserve": "ReservePlugin",
        "permit": "PermitPlugin",
        "pre_bind": "PreBindPlugin",
        "bind": "BindPlugin",
        "post_bind": "PostBindPlugin",
        "placement_generate": "PlacementGeneratePlugin",
        "placement_score": "PlacementScorePlugin",
    }
)

#: In-tree plugin -> the extension points that it implements.
IMPLEMENTS: Final[Mapping[str, frozenset[str]]] = MappingProxyType(
    {
        "DefaultBinder": frozenset({"bind"}),
        "DefaultPreemption": frozenset({"pre_enqueue", "post_filter"}),
        "DynamicResources": frozenset(
            {"pre_enqueue", "pre_filter", "filter", "post_filter", "score", "reserve", "pre_bind"}
        ),
        "GangScheduling": frozenset({"pre_enqueue", "permit"}),
        "ImageLocality": frozenset({"score"}),
        "InterPodAffinity": frozenset({"pre_filter", "filter", "pre_score", "score"}),
        "NodeAffinity": frozenset({"pre_filter", "filter", "pre_score", "score"}),
        "NodeDeclaredFeatures": frozenset({"pre_filter", "filter"}),
        "NodeName": frozenset({"filter"}),
        "NodePorts": frozenset({"pre_filter", "filter"}),
        "NodeResourcesBalancedAllocation": frozenset({"pre_score", "score"}),
        "NodeResourcesFit": frozenset({"pre_filter", "filter", "pre_score", "score", "placement_score"}),
        "NodeUnschedulable": frozenset({"filter"}),
        "NodeVolumeLimits": frozenset({"pre_filter", "filter"}),
        "PodGroupPodsCount": frozenset({"placement_score"}),
        "PodTopologySpread": frozenset({"pre_filter", "filter", "pre_score", "score"}),
        "PrioritySort": frozenset({"queue_sort"}),
        "SchedulingGates": frozenset({"pre_enqueue"}),
        "TaintToleration": frozenset({"filter", "pre_score", "score"}),
        "TopologyPlacementGenerator": frozenset({"placement_generate"}),
        "VolumeBinding": frozenset({"pre_filter", "filter", "pre_score", "score", "reserve", "pre_bind"}),
        "VolumeRestrictions": frozenset({"pre_filter", "filter"}),
        "VolumeZone": frozenset({"pre_filter", "filter"}),
    }
)

#: The default profile's `multiPoint`, in order, with the weight that counts where the plugin scores (0: none given).
DEFAULT_PLUGINS: Final = (
    ("SchedulingGates", 0),
    ("PrioritySort", 0),
    ("NodeUnschedulable", 0),
    ("NodeName", 0),
    ("TaintToleration", 3),
    ("NodeAffinity", 2),
    ("NodePorts", 0),
    ("NodeResourcesFit", 1),
    ("VolumeRestrictions", 0),
    ("NodeVolumeLimits", 0),
    ("VolumeBinding", 0),
    ("VolumeZone", 0),
    ("PodTopologySpread", 2),
    ("InterPodAffinity", 2),
    # Before DefaultPreemption: giving back an idle ResourceClaim is better than evicting a pod.
    ("DynamicResources", 2),
    ("DefaultPreemption", 0),
    ("NodeResourcesBalancedAllocation", 1),
    ("ImageLocality", 1),
    ("DefaultBinder", 0),
    ("NodeDeclaredFeatures", 0),
)

#: In-tree plugin -> the feature gate, off by default, without which it has nothing to act on.
GATED_PLUGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "GangScheduling": "GangScheduling",
        "PodGroupPodsCount": "TopologyAwareWorkloadScheduling",
        "TopologyPlacementGenerator": "TopologyAwareWorkloadScheduling",
    }
)

#: Plugins that configuration v1 refuses by name, and what does their work now.
REMOVED_PLUGINS: Final[Mapping[str, str]] = MappingProxyType(
    {
        "AzureDiskLimits": "NodeVolumeLimits",
        "CinderLimits": "NodeVolumeLimits",
        "EBSLimits": "NodeVolumeLimits",
        "GCEPDLimits": "NodeVolumeLimits",
    }
)
