"""Every plugin by its name: kube-scheduler's own, and those that somebody brings along.

A plugin that kube-scheduler does not bring along is compiled into it, and then enabled by a profile of the
configuration. Here its class is given to the planner, ``Planner(snapshot, config, plugins=[MyPlugin])``, and a profile
enables it just so; `docs/plugins.md` has an example.

Upstream: pkg/scheduler/framework/runtime/registry.go.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from kplan.config.model import Profile
from kplan.errors import UsageError
from kplan.framework.interface import Handle, Plugin
from kplan.framework.session import PluginFactory
from kplan.plugins.dynamic_resources.plugin import DynamicResources
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
    {
        "pre_enqueue": "pre_enqueue",
        "queue_sort": "sort_key",
        "pre_filter": "pre_filter",
        "filter": "filter",
        "post_filter": "post_filter",
        "pre_score": "pre_score",
        "score": "score",
        "reserve": "reserve",
        "permit": "permit",
    }
)
"""Extension point -> the method by which a plugin implements it."""


class PluginClass(Protocol):
    """A class whose objects are plugins; `args` is what `pluginConfig` says, typed for in-tree plugins."""

    name: str

    def __call__(self, args: Any, handle: Handle) -> Plugin:
        """Make the plugin."""


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
    )
}


def out_of_tree(plugins: Iterable[PluginClass]) -> dict[str, frozenset[str]]:
    """Return plugins that are brought along with the extension points that each implements.

    Raises UsageError when two have the same name, one has the name of an in-tree plugin, or one implements nothing.
    """
    found: dict[str, frozenset[str]] = {}
    for plugin in plugins:
        points = frozenset(point for point, method in POINT_METHODS.items() if hasattr(plugin, method))
        if plugin.name in PLUGINS or plugin.name in found:
            raise UsageError(f"a plugin named {plugin.name} already exists", hint="give it a name of its own")
        if not points:
            methods = ", ".join(POINT_METHODS.values())
            raise UsageError(f"plugin {plugin.name} implements no extension point", hint=f"give it one of {methods}")
        found[plugin.name] = points
    return found


def plugin_factory(others: Iterable[PluginClass] = ()) -> PluginFactory:
    """Return what makes a profile's plugins out of those of kube-scheduler and `others`."""
    return partial(_make_plugins, {**PLUGINS, **{plugin.name: plugin for plugin in others}})


def _make_plugins(known: Mapping[str, PluginClass], profile: Profile, handle: Handle) -> dict[str, Plugin]:
    wanted = set(profile.plugin_names())
    return {name: make(profile.args.get(name), handle) for name, make in known.items() if name in wanted}
