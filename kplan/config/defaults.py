"""The configuration of a kube-scheduler that is started without a file."""

from __future__ import annotations

from functools import lru_cache
from types import MappingProxyType
from typing import Final

from kplan.config.args import args_type, default_args
from kplan.config.model import PluginRef, Profile, SchedulerConfiguration
from kplan.config.releases import Release, reference
from kplan.config.releases.servers import release_notes
from kplan.config.validation import settings_of
from kplan.config.wire import EXTENSION_POINTS, KubeSchedulerConfiguration
from kplan.facts import InputWarning

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"


def default_profile(scheduler_name: str = DEFAULT_SCHEDULER_NAME, release: Release | None = None) -> Profile:
    """Return the default profile under a scheduler name; `release` defaults to the reference."""
    release = release or reference()
    plugins = {
        point: tuple(
            PluginRef(name, (weight or 1) if point == "score" else 0)
            for name, weight in release.default_plugins
            if point in release.implements[name]
        )
        for point in EXTENSION_POINTS
    }
    args = {name: default_args(name, release) for name, _ in release.default_plugins if args_type(name, release)}
    return Profile(scheduler_name=scheduler_name, plugins=MappingProxyType(plugins), args=MappingProxyType(args))


def default_configuration(release: Release | None = None) -> SchedulerConfiguration:
    """Return the default configuration: one profile, `default-scheduler`, every default plugin of the release."""
    return _default_configuration(release or reference())


@lru_cache(maxsize=16)
def _default_configuration(release: Release) -> SchedulerConfiguration:
    settings = MappingProxyType(settings_of(KubeSchedulerConfiguration()))
    return SchedulerConfiguration(
        profiles=(default_profile(release=release),),
        settings=settings,
        release=release,
        warnings=release_warnings(release),
    )


def release_warnings(release: Release) -> tuple[InputWarning, ...]:
    """Return the warnings about a release that kplan only partly knows."""
    return tuple(
        InputWarning("ReleaseNotCompared", f"Kubernetes {release.minor}", note) for note in release_notes(release)
    )
