"""Expansion of a profile: from the default plugins and its own plugin sets to the plugins of every extension point.

Two steps, as upstream: the profile's sets are merged into the default sets, then the plugins of `multiPoint` are
spread over the extension points that they implement.

Upstream: apis/config/v1/default_plugins.go mergePlugins, framework/runtime/framework.go NewFramework,
updatePluginList, expandMultiPointPlugins, getValidScoreWeights.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec

from kplan.config.model import PluginRef
from kplan.config.problems import Problems
from kplan.config.releases import Release
from kplan.config.wire import EXTENSION_POINTS, PLACEMENT_POINTS, POINT_NAMES, UPSTREAM_POINT_NAMES

MULTI_POINT: Final = "multi_point"
_POINTS: Final = (*EXTENSION_POINTS, *PLACEMENT_POINTS)
_EVERYTHING: Final = "*"


class Entry(msgspec.Struct, frozen=True):
    """A plugin in an `enabled` list; `path` is its path in the file, empty for a default."""

    name: str
    weight: int = 0
    path: str = ""


class PointSet(msgspec.Struct, frozen=True):
    """The plugins that are enabled and the names that are disabled at one extension point or `multi_point`."""

    enabled: tuple[Entry, ...] = ()
    disabled: tuple[str, ...] = ()


def default_sets(release: Release) -> dict[str, PointSet]:
    """Return the sets of the default profile: everything through `multiPoint`."""
    return {MULTI_POINT: PointSet(tuple(Entry(name, weight) for name, weight in release.default_plugins))}


def merge(default: Mapping[str, PointSet], custom: Mapping[str, PointSet]) -> dict[str, PointSet]:
    """Merge a profile's own sets into the default ones, extension point by extension point."""
    nothing = PointSet()
    return {
        point: _merge_set(default.get(point, nothing), custom.get(point, nothing)) for point in (MULTI_POINT, *_POINTS)
    }


def _merge_set(default: PointSet, custom: PointSet) -> PointSet:
    """Merge one set: a default that is enabled again stays in its place, others follow; `*` drops all defaults."""
    disabled = (*custom.disabled, *default.disabled)
    last = {entry.name: position for position, entry in enumerate(custom.enabled)}
    enabled: list[Entry] = []
    replacing: set[int] = set()
    if _EVERYTHING not in disabled:
        for entry in default.enabled:
            if entry.name in disabled:
                continue
            if entry.name in last:
                replacing.add(last[entry.name])
                enabled.append(custom.enabled[last[entry.name]])
            else:
                enabled.append(entry)
    enabled.extend(entry for position, entry in enumerate(custom.enabled) if position not in replacing)
    return PointSet(tuple(enabled), disabled)


def enabled_names(sets: Mapping[str, PointSet]) -> tuple[str, ...]:
    """Return the names of all plugins that any set enables, each once."""
    return tuple(dict.fromkeys(entry.name for point_set in sets.values() for entry in point_set.enabled))


def expand(
    sets: Mapping[str, PointSet], problems: Problems, implements: Mapping[str, frozenset[str]], path: str = ""
) -> dict[str, tuple[PluginRef, ...]]:
    """Spread `multi_point` over the extension points.

    At a point come first the plugins of its own list that `multiPoint` enables too, in the order of that list; then
    those that only `multiPoint` enables; then the rest of the own list.

    Parameters
    ----------
    sets : the merged sets. Every plugin in them is one of `implements`.
    implements : In-tree plugin -> the extension points that it implements
    path : path of the plugin sets, for problems of default entries

    Returns
    -------
    dict
        Every extension point of `in_tree.EXTENSION_POINTS` and `PLACEMENT_POINTS` -> its plugins. Weights stand at
        `score` and `placement_score`, where a weight of 0 or none counts 1.
    """
    multi_point = sets.get(MULTI_POINT, PointSet()).enabled
    expanded = {}
    for point in _POINTS:
        own = sets.get(point, PointSet())
        specific = _specific(point, own, problems, path, implements)
        names = specific
        if multi_point and _EVERYTHING not in own.disabled:
            spread, overridden = _spread(point, own, multi_point, problems, implements)
            reordered = [name for name in specific if name in overridden]
            names = [*reordered, *spread, *(name for name in specific if name not in overridden)]
        weights = _weights(own.enabled, multi_point) if point in {"score", "placement_score"} else {}
        expanded[point] = tuple(PluginRef(name, weights.get(name, 0)) for name in names)
    return expanded


def _specific(
    point: str, own: PointSet, problems: Problems, path: str, implements: Mapping[str, frozenset[str]]
) -> list[str]:
    """List the plugins of the point's own list; each must implement the point, and be in the list once."""
    kind = UPSTREAM_POINT_NAMES[point]
    names: list[str] = []
    for entry in own.enabled:
        if point not in implements[entry.name]:
            has = ", ".join(
                POINT_NAMES[implemented] for implemented in POINT_NAMES if implemented in implements[entry.name]
            )
            problems.add(
                entry.path or path,
                f'plugin "{entry.name}" does not extend {kind} plugin',
                f"remove it here; {entry.name} implements {has}",
            )
        elif entry.name in names:
            _already_registered(entry, kind, problems)
        else:
            names.append(entry.name)
    return names


def _spread(
    point: str,
    own: PointSet,
    multi_point: tuple[Entry, ...],
    problems: Problems,
    implements: Mapping[str, frozenset[str]],
) -> tuple[list[str], set[str]]:
    """List the plugins that only `multiPoint` enables at the point, and those that the point's own list overrides."""
    listed = {entry.name for entry in own.enabled}
    spread: list[str] = []
    overridden: set[str] = set()
    for entry in multi_point:
        if point not in implements[entry.name] or entry.name in own.disabled:
            continue
        if entry.name in listed:
            overridden.add(entry.name)
        elif entry.name in spread:
            _already_registered(entry, UPSTREAM_POINT_NAMES[point], problems)
        else:
            spread.append(entry.name)
    return spread, overridden


def _already_registered(entry: Entry, kind: str, problems: Problems) -> None:
    """Note a plugin that is named twice, at the first extension point only."""
    message = f'plugin "{entry.name}" already registered as "{kind}"'
    problems.add_once(entry.path, message, f"name {entry.name} once, with its weight next to its name")


def _weights(own: tuple[Entry, ...], multi_point: tuple[Entry, ...]) -> dict[str, int]:
    """Return the weight of each plugin at its first occurrence, in the point's own list before `multiPoint`."""
    weights: dict[str, int] = {}
    for entry in (*own, *multi_point):
        weights.setdefault(entry.name, entry.weight or 1)
    return weights
