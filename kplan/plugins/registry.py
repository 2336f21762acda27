"""Every plugin that kplan has, by its upstream name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kplan.config.model import Profile
from kplan.framework.interface import Handle, Plugin
from kplan.plugins.dynamic_resources import DynamicResources
from kplan.plugins.image_locality import ImageLocality
from kplan.plugins.inter_pod_affinity import InterPodAffinity
from kplan.plugins.node_affinity import NodeAffinity
from kplan.plugins.node_declared_features import NodeDeclaredFeatures
from kplan.plugins.node_name import NodeName
from kplan.plugins.node_ports import NodePorts
from kplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from kplan.plugins.node_resources_fit import NodeResourcesFit
from kplan.plugins.node_unschedulable import NodeUnschedulable
from kplan.plugins.node_volume_limits import NodeVolumeLimits
from kplan.plugins.pod_topology_spread import PodTopologySpread
from kplan.plugins.priority_sort import PrioritySort
from kplan.plugins.scheduling_gates import SchedulingGates
from kplan.plugins.taint_toleration import TaintToleration
from kplan.plugins.volume_binding import VolumeBinding
from kplan.plugins.volume_restrictions import VolumeRestrictions
from kplan.plugins.volume_zone import VolumeZone

PLUGINS: Mapping[str, Callable[[Any, Handle], Plugin]] = {
    plugin.name: plugin
    for plugin in (
        SchedulingGates,
        PrioritySort,
        NodeUnschedulable,
        NodeName,
        TaintToleration,
        NodeAffinity,
        NodePorts,
        NodeResourcesFit,
        PodTopologySpread,
        InterPodAffinity,
        DynamicResources,
        NodeResourcesBalancedAllocation,
        ImageLocality,
        NodeDeclaredFeatures,
        VolumeRestrictions,
        NodeVolumeLimits,
        VolumeBinding,
        VolumeZone,
    )
}


def make_plugins(profile: Profile, handle: Handle) -> dict[str, Plugin]:
    """Make the plugins that a profile uses at any extension point."""
    wanted = {ref.name for refs in profile.plugins.values() for ref in refs}
    return {name: make(profile.args.get(name), handle) for name, make in PLUGINS.items() if name in wanted}
