"""Registry of plugins by name: in-tree and out-of-tree ones.

An out-of-tree plugin is compiled into kube-scheduler and enabled by a profile of the configuration. Here its class is
passed to the planner, ``Planner(snapshot, config, plugins=[MyPlugin])``, and a profile enables it in the same way;
`docs/plugins.md` has an example. Whatever goes wrong in such a plugin is an error that names it, and what it returns is
checked. Plugins of kplan are trusted, and run without these checks.

Upstream: pkg/scheduler/framework/runtime/registry.go.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast

import numpy as np

from kplan.config.model import EXTENSION_POINTS, Profile
from kplan.engine.verdicts import Verdicts
from kplan.errors import KplanError, UsageError
from kplan.framework.interface import Handle, Plugin
from kplan.framework.session import PluginFactory
from kplan.plugins.dynamic_resources import DynamicResources
from kplan.plugins.gang_scheduling import GangScheduling
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
from kplan.preemption.default_preemption import DefaultPreemption

PluginLike = TypeVar("PluginLike")
_SCORES = ("normalize_score", "final_score", "constant_score", "score_details")
_METHODS = (*EXTENSION_POINTS, "__init__", "sort_key", "queueing_hint", "unreserve", "reads", *_SCORES)


def guarded(plugin: PluginLike) -> PluginLike:
    """Return a subclass of a plugin whose methods raise nothing but KplanError; a factory that is no class as it is."""
    if not isinstance(plugin, type):
        return plugin
    methods = {method: _guard(plugin, method) for method in _METHODS if hasattr(plugin, method)}
    if _depth(plugin, "final_score") > min(_depth(plugin, "score"), _depth(plugin, "normalize_score")) >= 0:
        # The inherited one knows nothing of the plugin's own scores.
        methods["final_score"] = lambda own, cycle, nodes: own.normalize_score(cycle, own.score(cycle, nodes))
    return cast("PluginLike", type(plugin.__name__, (plugin,), {**methods, "is_out_of_tree": True}))


def _depth(plugin: type, method: str) -> int:
    """Return how far above a class the one is that defines a method; -1 where none does."""
    return next((depth for depth, base in enumerate(plugin.__mro__) if method in vars(base)), -1)


def _guard(plugin: type, method: str) -> Any:
    name, function = getattr(plugin, "name", plugin.__name__), getattr(plugin, method)

    @functools.wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        try:
            result = function(*args, **options)
        except KplanError:
            raise
        except Exception as error:
            cause = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise KplanError(
                f"plugin {name} failed in {method}: {cause}",
                hint="this is the plugin's own error; in Python, its traceback appears above this one",
            ) from error
        if problem := _problem(method, result, args):
            raise KplanError(f"plugin {name}: {method} returned {problem}", hint="docs/plugins.md has the rules")
        return result

    return staticmethod(call) if isinstance(inspect.getattr_static(plugin, method), staticmethod) else call


def _problem(method: str, result: Any, args: tuple[Any, ...]) -> str:
    """Return what is wrong with what a method returned; empty if it is of the right kind."""
    if method == "filter" and not isinstance(result, Verdicts):
        return f"{type(result).__name__}, expected Verdicts"
    if method == "filter" and not result.reasons and result.bits.any():
        return "rejections without a reason"
    if method not in ("score", "normalize_score", "final_score"):
        return ""
    n_wanted = len(args[-1])  # the view, or the raw scores
    if not isinstance(result, np.ndarray) or result.dtype.kind not in "iu":
        kind = f"an array of {result.dtype}" if isinstance(result, np.ndarray) else type(result).__name__
        return f"{kind}, expected an array of integers"
    return "" if result.shape == (n_wanted,) else f"{result.shape} scores, expected {n_wanted}: one for each node"


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
    plugin_classes = {**PLUGINS, **{plugin.name: guarded(plugin) for plugin in others}}
    return partial(_make_plugins, plugin_classes)


def _make_plugins(plugin_classes: Mapping[str, PluginClass], profile: Profile, handle: Handle) -> dict[str, Plugin]:
    wanted = set(profile.plugin_names())
    return {
        name: plugin_class(profile.args.get(name), handle)
        for name, plugin_class in plugin_classes.items()
        if name in wanted
    }
