"""Registry of plugins by name: in-tree and out-of-tree ones.

An out-of-tree plugin is compiled into kube-scheduler and enabled by a profile of the configuration. Here its class is
passed to the planner, ``Planner(snapshot, config, plugins=[MyPlugin])``, and a profile enables it in the same way;
`docs/plugins.md` has an example.

Upstream: pkg/scheduler/framework/runtime/registry.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from kplan.config.model import Profile
from kplan.config.wire import EXTENSION_POINTS
from kplan.errors import UsageError
from kplan.framework.interface import Handle, Plugin
from kplan.framework.session import PluginFactory
from kplan.plugins.dynamic_resources.plugin import DynamicResources
from kplan.plugins.gang_scheduling import GangScheduling
from kplan.plugins.guarding import guarded
from kplan.plugins.image_locality import ImageLocality
from kplan.plugins.inter_pod_affinity.plugin import InterPodAffinity
from kplan.plugins.node_affinity import NodeAffinity
from kplan.plugins.node_declared_features import NodeDeclaredFeatures
from kplan.plugins.node_name import NodeName
from kplan.plugins.node_ports import NodePorts
from kplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation
from kplan.plugins.node_resources_fit import NodeResourcesFit
from kplan.plugins.node_unschedulable import NodeUnschedulable
from kplan.plugins.node_volume_limits.plugin import NodeVolumeLimits
from kplan.plugins.pod_topology_spread.plugin import PodTopologySpread
from kplan.plugins.priority_sort import PrioritySort
from kplan.plugins.scheduling_gates import SchedulingGates
from kplan.plugins.taint_toleration import TaintToleration
from kplan.plugins.volume_binding.plugin import VolumeBinding
from kplan.plugins.volume_restrictions import VolumeRestrictions
from kplan.plugins.volume_zone import VolumeZone
from kplan.preemption.default_preemption import DefaultPreemption

POINT_METHODS: Mapping[str, str] = MappingProxyType(
    {point: {"queue_sort": "sort_key"}.get(point, point) for point in EXTENSION_POINTS if not point.endswith("bind")}
)
"""Extension point -> the method by which a plugin implements it."""


class PluginClass(Protocol):
    """A class of plugins; `args` are the plugin's arguments from `pluginConfig`, typed for in-tree plugins."""

    name: str

    def __call__(self, args: Any, handle: Handle) -> Plugin:
        """Create the plugin."""


PLUGINS: Mapping[str, PluginClass] = {
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
        DefaultPreemption,
        GangScheduling,
    )
}


def out_of_tree(plugins: Iterable[PluginClass]) -> dict[str, frozenset[str]]:
    """Return the extension points that each out-of-tree plugin implements, by plugin name.

    Raises UsageError when two plugins, or a plugin and an in-tree plugin, have the same name, or a plugin implements no
    extension point.
    """
    points_of: dict[str, frozenset[str]] = {}
    for plugin in plugins:
        if not isinstance(getattr(plugin, "name", None), str):
            raise UsageError(f"{plugin!r} is no plugin", hint="give a class with a name: see docs/plugins.md")
        points = frozenset(point for point, method in POINT_METHODS.items() if hasattr(plugin, method))
        if plugin.name in PLUGINS or plugin.name in points_of:
            raise UsageError(f"a plugin named {plugin.name} already exists", hint="give it a name of its own")
        if not points:
            methods = ", ".join(POINT_METHODS.values())
            raise UsageError(f"plugin {plugin.name} implements no extension point", hint=f"give it one of {methods}")
        points_of[plugin.name] = points
    return points_of


def plugin_factory(others: Iterable[PluginClass] = ()) -> PluginFactory:
    """Return a function that creates a profile's plugins, in-tree ones and those of `others`."""
    return partial(_make_plugins, {**PLUGINS, **{plugin.name: guarded(plugin) for plugin in others}})


def _make_plugins(plugin_classes: Mapping[str, PluginClass], profile: Profile, handle: Handle) -> dict[str, Plugin]:
    wanted = set(profile.plugin_names())
    return {
        name: plugin_class(profile.args.get(name), handle)
        for name, plugin_class in plugin_classes.items()
        if name in wanted
    }
