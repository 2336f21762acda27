"""The effective configuration as a KubeSchedulerConfiguration document, and its differences from the default.

The document says everything and leaves nothing to defaults, so that loading it gives the same configuration. Private
keys of extenders are left out, as the output may end up in logs.
"""

from __future__ import annotations

import typing
from typing import Any

from kplan.config.args import PluginArgs
from kplan.config.loading import default_configuration
from kplan.config.model import PluginRef, Profile, SchedulerConfiguration, plain
from kplan.config.problems import API_VERSION, KIND, child, index
from kplan.config.releases import Release
from kplan.config.wire import POINT_NAMES
from kplan.facts import Document


class Difference(Document, frozen=True):
    """A field of the configuration whose value is not the default.

    Attributes
    ----------
    default : null for a value that is absent
    effective : null for a value that is absent
    """

    path: str
    default: Any
    effective: Any


def to_document(config: SchedulerConfiguration) -> dict[str, object]:
    """Return the configuration as a document that kube-scheduler accepts, in plain JSON values."""
    document: dict[str, object] = {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "parallelism": config.parallelism,
        "percentageOfNodesToScore": config.percentage_of_nodes_to_score,
        "podInitialBackoffSeconds": config.pod_initial_backoff_seconds,
        "podMaxBackoffSeconds": config.pod_max_backoff_seconds,
        **config.settings,
        "profiles": [_profile(profile) for profile in config.profiles],
    }
    if config.extenders:
        document["extenders"] = [plain(extender) for extender in config.extenders]
    return document


def args_document(profile: Profile) -> dict[str, typing.Any]:
    """Return the arguments of a profile's plugins by plugin name, as in a file."""
    return {name: plain(args) for name, args in sorted(profile.args.items())}


def differences(config: SchedulerConfiguration) -> tuple[Difference, ...]:
    """Return the differences from the default configuration, in the order of the document.

    A list counts as one value. Every profile is compared with the default one, except for its name.
    """
    effective, default = to_document(config), to_document(default_configuration(config.release))
    differing: list[Difference] = []
    for name in dict.fromkeys((*default, *effective)):
        if name != "profiles":
            differing.extend(_compare(name, default.get(name), effective.get(name)))
    for i, profile in enumerate(config.profiles):
        differing.extend(_compare_profile(index("profiles", i), profile, config.release))
    return tuple(differing)


def _compare_profile(path: str, profile: Profile, release: Release) -> list[Difference]:
    default = default_configuration(release).profiles[0]
    differing = []
    for field, default_value, value in (
        ("schedulerName", default.scheduler_name, profile.scheduler_name),
        ("percentageOfNodesToScore", default.percentage_of_nodes_to_score, profile.percentage_of_nodes_to_score),
    ):
        differing.extend(_compare(child(path, field), default_value, value))
    for point, refs in profile.plugins.items():
        place = child(path, "plugins", POINT_NAMES[point], "enabled")
        differing.extend(_compare(place, _refs(default.plugins[point]), _refs(refs)))
    default_args = args_document(default)
    for position, (name, args) in enumerate(args_document(profile).items()):
        place = child(index(child(path, "pluginConfig"), position), "args")
        differing.extend(_compare(place, default_args.get(name), args))
    return differing


def _compare(path: str, default: object, effective: object) -> list[Difference]:
    if isinstance(default, dict) and isinstance(effective, dict):
        fields = dict.fromkeys((*default, *effective))
        return [
            difference
            for field in fields
            for difference in _compare(child(path, field), default.get(field), effective.get(field))
        ]
    return [] if default == effective else [Difference(path, default, effective)]


def _profile(profile: Profile) -> dict[str, object]:
    plugins: dict[str, object] = {"multiPoint": {"disabled": [{"name": "*"}]}}
    for point, refs in profile.plugins.items():
        if refs:
            plugins[POINT_NAMES[point]] = {"enabled": _refs(refs)}
    document: dict[str, object] = {"schedulerName": profile.scheduler_name}
    if profile.percentage_of_nodes_to_score is not None:
        document["percentageOfNodesToScore"] = profile.percentage_of_nodes_to_score
    document["plugins"] = plugins
    document["pluginConfig"] = [
        # Arguments of an in-tree plugin have their apiVersion and kind, which a file may leave out.
        {"name": name, "args": {"apiVersion": API_VERSION, "kind": f"{name}Args", **args}}
        if isinstance(profile.args[name], PluginArgs)
        else {"name": name, "args": args}
        for name, args in args_document(profile).items()
    ]
    return document


def _refs(refs: tuple[PluginRef, ...]) -> list[dict[str, object]]:
    return [{"name": ref.name, "weight": ref.weight} if ref.weight else {"name": ref.name} for ref in refs]
