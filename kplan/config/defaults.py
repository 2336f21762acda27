"""The configuration of a kube-scheduler v1.36 that is started without a file."""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import Final

from kplan.config.args import ARGS_TYPES
from kplan.config.in_tree import DEFAULT_PLUGINS, EXTENSION_POINTS, IMPLEMENTS
from kplan.config.model import PluginRef, Profile, SchedulerConfiguration
from kplan.config.validation import settings_of
from kplan.config.wire import KubeSchedulerConfiguration

__all__ = ["DEFAULT_SCHEDULER_NAME", "default_configuration", "default_profile"]

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"


@lru_cache
def default_profile(scheduler_name: str = DEFAULT_SCHEDULER_NAME) -> Profile:
    """Return the default profile under the given scheduler name."""
    plugins = {
        point: tuple(
            PluginRef(name, (weight or 1) if point == "score" else 0)
            for name, weight in DEFAULT_PLUGINS
            if point in IMPLEMENTS[name]
        )
        for point in EXTENSION_POINTS
    }
    args = {name: ARGS_TYPES[name]() for name, _ in DEFAULT_PLUGINS if name in ARGS_TYPES}
    return Profile(scheduler_name=scheduler_name, plugins=MappingProxyType(plugins), args=MappingProxyType(args))


@lru_cache
def default_configuration() -> SchedulerConfiguration:
    """Return the default configuration: one profile, `default-scheduler`, every default plugin."""
    settings = MappingProxyType(settings_of(KubeSchedulerConfiguration()))
    return SchedulerConfiguration(profiles=(default_profile(),), settings=settings)
