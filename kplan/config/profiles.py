"""The profiles of a file: default plugins and arguments filled in, plugin sets and `multiPoint` expanded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from kplan.config.args import (
    ARGS_TYPES,
    DynamicResourcesArgs,
    PluginArgs,
    args_type,
    default_args,
    defaulted,
    validate_args,
)
from kplan.config.model import (
    EXTENSION_POINTS,
    PLACEMENT_POINTS,
    POINT_NAMES,
    UPSTREAM_POINT_NAMES,
    KubeSchedulerProfile,
    PluginRef,
    Plugins,
    Profile,
    closest,
    decode,
    in_tree_since,
)
from kplan.config.problems import API_GROUP, API_VERSION, Problems, child, go_value, index
from kplan.config.releases import Release

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


#: Takes a warning's code, the object that it is about, and its text.
Warn = Callable[[str, str, str], None]


class _Draft(msgspec.Struct, frozen=True):
    """A profile before expansion: its merged plugin sets, and those of in-tree plugins only."""

    name: str
    path: str
    sets: Mapping[str, PointSet]
    known: Mapping[str, PointSet]


def build_profiles(wires: tuple[KubeSchedulerProfile, ...], problems: Problems, warn: Warn) -> tuple[Profile, ...]:
    """Default, expand and check the profiles of a file; a file without any has one default profile."""
    wires = wires or (KubeSchedulerProfile(),)
    drafts = [_draft(wire, index("profiles", i), len(wires), problems) for i, wire in enumerate(wires)]
    _distinct_names(drafts, problems)
    _common_queue_sort(drafts, problems)
    return tuple(_finish(wire, draft, problems, warn) for wire, draft in zip(wires, drafts, strict=True))


def _draft(wire: KubeSchedulerProfile, path: str, count: int, problems: Problems) -> _Draft:
    name = wire.scheduler_name
    if name is None and count == 1:
        name = "default-scheduler"
    if not name:
        hint = "write the name that pods carry in spec.schedulerName, such as default-scheduler"
        problems.required(child(path, "schedulerName"), "", hint)
    problems.check_percentage(child(path, "percentageOfNodesToScore"), wire.percentage_of_nodes_to_score)
    plugins_path = child(path, "plugins")
    custom = _custom_sets(wire.plugins or Plugins(), plugins_path)
    for point, point_set in custom.items():
        for entry in point_set.enabled:
            _refuse_removed(entry.name, entry.path, problems)
            _refuse_newer(point, entry, problems)
    release = problems.release
    sets = merge(default_sets(release), custom)
    known = {
        point: PointSet(tuple(e for e in point_set.enabled if e.name in release.implements), point_set.disabled)
        for point, point_set in sets.items()
    }
    return _Draft(name or "", path, sets, known)


def _custom_sets(plugins: Plugins, path: str) -> dict[str, PointSet]:
    sets = {}
    for point, name in POINT_NAMES.items():
        point_set = getattr(plugins, point)
        enabled_path = child(path, name, "enabled")
        enabled = tuple(
            Entry(plugin.name, plugin.weight or 0, index(enabled_path, i)) for i, plugin in enumerate(point_set.enabled)
        )
        sets[point] = PointSet(enabled, tuple(plugin.name for plugin in point_set.disabled))
    return sets


def _has(name: str, release: Release) -> bool:
    return name in release.implements and name not in release.gated_plugins


def _refuse_removed(name: str, path: str, problems: Problems) -> None:
    removed = problems.release.removed_plugins
    if name in removed:
        version = '"kubescheduler.config.k8s.io/v1"'
        detail = f"was invalid in version {version} (KubeSchedulerConfiguration is version {version})"
        problems.invalid(path, name, detail, f"remove it: {removed[name]} counts these volumes now")


def _refuse_newer(point: str, entry: Entry, problems: Problems) -> None:
    since = in_tree_since(entry.name)
    if since and entry.name not in problems.release.implements:
        kind = UPSTREAM_POINT_NAMES.get(point, "Plugin")
        hint = f"remove it: Kubernetes {problems.release.minor} does not have {entry.name}, which came with {since}"
        problems.add(entry.path, f'{kind} "{entry.name}" does not exist', hint)


def _distinct_names(drafts: list[_Draft], problems: Problems) -> None:
    first: dict[str, str] = {}
    for draft in drafts:
        place = child(draft.path, "schedulerName")
        if draft.name and draft.name in first:
            problems.duplicate(
                place, draft.name, f"give each profile a name of its own; {first[draft.name]} has it too"
            )
        first[draft.name] = place


def _common_queue_sort(drafts: list[_Draft], problems: Problems) -> None:
    own = [draft.sets["queue_sort"] for draft in drafts]
    if len(own[0].enabled) > 1:
        place = child(drafts[0].path, "plugins", "queueSort", "enabled")
        detail = "only one queue sort plugin can be enabled"
        names = " or ".join(entry.name for entry in own[0].enabled)
        problems.invalid(place, len(own[0].enabled), detail, f"keep one of {names}")
    for draft, point_set in zip(drafts[1:], own[1:], strict=True):
        if _plain(point_set) != _plain(own[0]):
            problems.invalid(
                child(draft.path, "plugins", "queueSort"),
                _plain(point_set),
                problems.release.texts.queue_sort_differs,
                f"write the same queueSort as in {drafts[0].path}; all pods wait in one queue",
            )


def _plain(point_set: PointSet) -> dict[str, object]:
    enabled = [{"name": entry.name, "weight": entry.weight} for entry in point_set.enabled]
    return {"enabled": enabled, "disabled": [{"name": name} for name in point_set.disabled]}


def _finish(wire: KubeSchedulerProfile, draft: _Draft, problems: Problems, warn: Warn) -> Profile:
    release = problems.release
    args = _args(wire, draft, problems, warn)
    expanded = {
        point: tuple(ref for ref in refs if ref.name not in release.gated_plugins)
        for point, refs in expand(draft.known, problems, release.implements, child(draft.path, "plugins")).items()
    }
    _check_queue_sort(draft, expanded, problems)
    _check_bind(draft, expanded, problems)
    _warn_about_plugins(wire, draft, expanded, release, warn)
    plugins = {point: expanded[point] for point in EXTENSION_POINTS}
    # The queue needs an order, even where the plugin that sorts it is unknown.
    plugins["queue_sort"] = plugins["queue_sort"] or (PluginRef("PrioritySort"),)
    return Profile(
        scheduler_name=draft.name,
        plugins=MappingProxyType(plugins),
        args=MappingProxyType(args),
        percentage_of_nodes_to_score=wire.percentage_of_nodes_to_score,
    )


def _args(wire: KubeSchedulerProfile, draft: _Draft, problems: Problems, warn: Warn) -> dict[str, object]:
    """Decode the arguments in the file, and add the defaults of every other enabled plugin with arguments."""
    release = problems.release
    enabled = enabled_names(draft.sets)
    subject = f"profile {draft.name}"
    args: dict[str, object] = {}
    names: set[str] = set()
    for i, config in enumerate(wire.plugin_config):
        path = index(child(draft.path, "pluginConfig"), i)
        if config.name in names:
            problems.duplicate(path, config.name, f"merge the entries of {config.name} into one")
        names.add(config.name)
        _refuse_removed(config.name, path, problems)
        if args_type(config.name, release):
            decoded = decode_args(config.name, config.args, child(path, "args"), problems)
            args.setdefault(config.name, decoded)
            # NodeResourcesFit's arguments are checked by the plugin itself, only where it is enabled.
            if config.name != "NodeResourcesFit" or config.name in enabled:
                validate_args(config.name, decoded, child(path, "args"), problems)
        elif config.name in release.out_of_tree:
            args.setdefault(config.name, config.args)
        elif config.name in release.implements and config.args is not None:
            warn("IgnoredConfiguration", subject, f"{path}: {config.name} takes no arguments; these are unused")
        elif config.name not in {*enabled, *release.implements, *release.removed_plugins}:
            suggestion = _suggestion(config.name, release)
            text = f"{path}: no plugin {go_value(config.name)} is enabled; its arguments are unused{suggestion}"
            warn("IgnoredConfiguration", subject, text)
    for name in enabled:
        if name not in args and args_type(name, release):
            args[name] = default_args(name, release)
    return args


def _suggestion(name: str, release: Release) -> str:
    guess = closest(name, tuple(release.implements))
    return f" (did you mean {guess}?)" if guess else ""


def _check_queue_sort(draft: _Draft, expanded: Mapping[str, tuple[PluginRef, ...]], problems: Problems) -> None:
    count = len(expanded["queue_sort"]) + sum(
        not _has(entry.name, problems.release) for entry in draft.sets["queue_sort"].enabled
    )
    several_named = len(draft.sets["queue_sort"].enabled) > 1  # has a problem of its own already
    if count == 1 or several_named or (count == 0 and _has_strangers(draft, problems.release)):
        return
    place = child(draft.path, "plugins", "queueSort")
    message = (
        f"only one queue sort plugin required for profile with scheduler name {go_value(draft.name)}, but got {count}"
    )
    if count:
        hint = "disable the other: queueSort: {disabled: [{name: PrioritySort}]}"
    else:
        hint = "enable one: queueSort: {enabled: [{name: PrioritySort}]}"
    problems.add(place, message, hint)


def _check_bind(draft: _Draft, expanded: Mapping[str, tuple[PluginRef, ...]], problems: Problems) -> None:
    own = draft.sets["bind"].enabled
    release = problems.release
    if expanded["bind"] or _has_strangers(draft, release) or any(not _has(entry.name, release) for entry in own):
        return
    message = f"at least one bind plugin is needed for profile with scheduler name {go_value(draft.name)}"
    hint = "enable one: bind: {enabled: [{name: DefaultBinder}]}"
    problems.add(child(draft.path, "plugins", "bind"), message, hint)


def _has_strangers(draft: _Draft, release: Release) -> bool:
    """Tell whether `multiPoint` enables a plugin that is not in-tree, which may implement any extension point."""
    return any(entry.name not in release.implements for entry in draft.sets[MULTI_POINT].enabled)


def _warn_about_plugins(
    wire: KubeSchedulerProfile,
    draft: _Draft,
    expanded: Mapping[str, tuple[PluginRef, ...]],
    release: Release,
    warn: Warn,
) -> None:
    subject = f"profile {draft.name}"
    for name in enabled_names(draft.sets):
        if not _has(name, release) and name not in release.removed_plugins:
            code = "FeatureGateOff" if name in release.gated_plugins else "UnknownPlugin"
            warn(code, subject, _missing_plugin(name, draft.sets, release))
    for point in PLACEMENT_POINTS:
        if any(_has(entry.name, release) for entry in draft.sets[point].enabled):
            gate = "TopologyAwareWorkloadScheduling"
            text = (
                f"plugins.{POINT_NAMES[point]} is unused: it runs with the feature gate {gate}, which is off by default"
            )
            warn("FeatureGateOff", subject, text)
    for ref in expanded["score"]:
        if ref.weight < 0:
            text = f"{ref.name} scores with the negative weight {ref.weight}: the nodes that it likes least win"
            warn("NegativeWeight", subject, text)
    _warn_about_disabled(wire.plugins or Plugins(), subject, release, warn)


def _missing_plugin(name: str, sets: Mapping[str, PointSet], release: Release) -> str:
    named_at = [point for point, point_set in sets.items() if any(entry.name == name for entry in point_set.enabled)]
    if name in release.gated_plugins:
        implemented = release.implements[name]
        points = [POINT_NAMES[point] for point in (*EXTENSION_POINTS, *PLACEMENT_POINTS) if point in implemented]
        gate = release.gated_plugins[name]
        default = "" if gate in release.switched else " by default"
        return f"{name} is missing from {', '.join(points)}: its feature gate {gate} is off{default}"
    points = [POINT_NAMES[point] for point in named_at if point != MULTI_POINT]
    if MULTI_POINT in named_at:
        points.insert(0, "every extension point that it implements (multiPoint)")
    order = "; pods queue as PrioritySort orders them" if "queue_sort" in named_at else ""
    suggestion = _suggestion(name, release)
    return (
        f"{name} is not one of kube-scheduler's own plugins{suggestion}; it is missing from {', '.join(points)}"
        f"{order}; a kube-scheduler without it compiled in does not start"
    )


def _warn_about_disabled(plugins: Plugins, subject: str, release: Release, warn: Warn) -> None:
    for point, name in POINT_NAMES.items():
        for plugin in getattr(plugins, point).disabled:
            if plugin.name != "*" and plugin.name not in release.implements:
                suggestion = _suggestion(plugin.name, release)
                text = f"plugins.{name} disables {go_value(plugin.name)}, which is no in-tree plugin{suggestion}"
                warn("IgnoredConfiguration", subject, text)


def decode_args(name: str, value: object, path: str, problems: Problems) -> PluginArgs:
    """Decode the arguments of the in-tree plugin `name`; absent ones get their defaults.

    `apiVersion` and `kind` may be absent, and must be right where they are present. Upstream: staging
    kube-scheduler/config/v1/types.go decodeNestedObjects.
    """
    kind = f"{name}Args"
    if isinstance(value, dict):
        stated_kind, stated_version = value.get("kind") or kind, value.get("apiVersion") or API_VERSION
        if stated_version != API_VERSION:
            message = f"no kind {go_value(stated_kind)} is registered for version {go_value(stated_version)}"
            problems.add(child(path, "apiVersion"), message, f"write: apiVersion: {API_VERSION}, or leave it out")
        elif stated_kind != kind:
            got = f"{stated_kind}.{API_GROUP}" if isinstance(stated_kind, str) else go_value(stated_kind)
            message = f"args for plugin {name} were not of type {kind}.{API_GROUP}, got {got}"
            problems.add(child(path, "kind"), message, f"write: kind: {kind}, or leave it out")
    decoded = decode({} if value is None else value, ARGS_TYPES[name], path, problems)
    args = defaulted(decoded, problems.release)
    if isinstance(value, dict) and isinstance(args, DynamicResourcesArgs):
        _refuse_disabled_timeouts(args, value, path, problems)
    return args


def _refuse_disabled_timeouts(
    args: DynamicResourcesArgs, value: dict[str, object], path: str, problems: Problems
) -> None:
    """Record the timeouts whose features are off, which a file must not set (ValidateDynamicResourcesArgs)."""
    for field, timeout, gates in (
        ("filterTimeout", args.filter_timeout, "DRASchedulingFilterTimeout"),
        ("bindingTimeout", args.binding_timeout, "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus"),
    ):
        if timeout is None and value.get(field) is not None:
            hint = "remove it, or turn the gate on"
            problems.forbidden(child(path, field), f"{gates} feature gate is disabled", hint)
