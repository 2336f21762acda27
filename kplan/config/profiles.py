"""The profiles of a file: default plugins and arguments filled in, plugin sets and `multiPoint` expanded."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import msgspec

from kplan.api.field_errors import GoStruct, shown
from kplan.config import model
from kplan.config.args import ARGS_TYPES, DynamicResourcesArgs, PluginArgs, args_type, default_args
from kplan.config.problems import API_GROUP, API_VERSION, FieldPath, Problems
from kplan.config.releases import Release, releases
from kplan.snapshot.defaults import DEFAULT_SCHEDULER_NAME

MULTI_POINT: Final = "multi_point"
_POINTS: Final = (*model.EXTENSION_POINTS, *model.PLACEMENT_POINTS)
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


Sets = Mapping[str, PointSet]  #: extension point, or `multi_point` -> its plugins


def default_sets(release: Release) -> Sets:
    """Return the sets of the default profile: everything through `multiPoint`."""
    return {MULTI_POINT: PointSet(tuple(Entry(name, weight) for name, weight in release.default_plugins))}


def merge(default: Sets, custom: Sets) -> Sets:
    """Merge sets: a default that is enabled again stays in its place, others follow; `*` drops all defaults."""
    empty = PointSet()
    return {point: _merged(default.get(point, empty), custom.get(point, empty)) for point in (MULTI_POINT, *_POINTS)}


def _merged(default: PointSet, custom: PointSet) -> PointSet:
    disabled = (*custom.disabled, *default.disabled)
    defaults = [entry for entry in default.enabled if not {_EVERYTHING, entry.name} & {*disabled}]
    # Of several with a name the last one takes the place of the default.
    last = {entry.name: position for position, entry in enumerate(custom.enabled)}
    replacing = {last[entry.name] for entry in defaults if entry.name in last}
    replaced = [custom.enabled[last[entry.name]] if entry.name in last else entry for entry in defaults]
    others = (entry for position, entry in enumerate(custom.enabled) if position not in replacing)
    return PointSet((*replaced, *others), disabled)


def enabled_names(sets: Sets) -> tuple[str, ...]:
    """Return the names of all plugins that any set enables, each once."""
    return tuple(dict.fromkeys(entry.name for point_set in sets.values() for entry in point_set.enabled))


def expand(
    sets: Sets, field: FieldPath, implements: Mapping[str, frozenset[str]]
) -> dict[str, tuple[model.PluginRef, ...]]:
    """Spread `multi_point` over the extension points, and return the plugins of each.

    At a point come first the plugins of its own list that `multiPoint` enables too, in the order of that list; then
    those that only `multiPoint` enables; then the rest of the own list. Weights stand at `score` and `placement_score`,
    where a weight of 0 or none counts 1. Every plugin of the merged sets, which stand at `field`, is in `implements`.
    """
    multi_point = sets.get(MULTI_POINT, PointSet()).enabled
    expanded = {}
    repeated: set[str] = set()  # the paths of plugins that are named twice, which is told at the first point only
    for point in _POINTS:
        own = sets.get(point, PointSet())
        kind = model.UPSTREAM_POINT_NAMES[point]
        listed: list[str] = []
        for entry in own.enabled:
            if point not in implements[entry.name]:
                has = ", ".join(name for other, name in model.POINT_NAMES.items() if other in implements[entry.name])
                hint = f"remove it here; {entry.name} implements {has}"
                message = f'plugin "{entry.name}" does not extend {kind} plugin'
                field.at(entry.path or field.path).add(message, hint)
            else:
                _register(entry, listed, kind, repeated, field)
        spread: list[str] = []
        own_names = {entry.name for entry in own.enabled}
        overridden: set[str] = set()
        for entry in multi_point if _EVERYTHING not in own.disabled else ():
            if point not in implements[entry.name] or entry.name in own.disabled:
                continue
            if entry.name in own_names:
                overridden.add(entry.name)
            else:
                _register(entry, spread, kind, repeated, field)
        first = [name for name in listed if name in overridden]
        weights: dict[str, int] = {}
        for entry in (*own.enabled, *multi_point) if point in {"score", "placement_score"} else ():
            weights.setdefault(entry.name, entry.weight or 1)
        names = [*first, *spread, *(name for name in listed if name not in overridden)]
        expanded[point] = tuple(model.PluginRef(name, weights.get(name, 0)) for name in names)
    return expanded


def _register(entry: Entry, names: list[str], kind: str, repeated: set[str], field: FieldPath) -> None:
    if entry.name not in names:
        names.append(entry.name)
    elif entry.path not in repeated:
        repeated.add(entry.path)
        message = f'plugin "{entry.name}" already registered as "{kind}"'
        field.at(entry.path).add(message, f"name {entry.name} once, with its weight next to its name")


class _Draft(msgspec.Struct, frozen=True):
    """A profile of a file before expansion, with its merged plugin sets."""

    wire: model.KubeSchedulerProfile
    name: str
    field: FieldPath
    sets: Sets

    @property
    def release(self) -> Release:
        return self.field.release

    @property
    def has_strangers(self) -> bool:
        """Whether `multiPoint` enables a plugin that is not in-tree, which may implement any extension point."""
        return any(entry.name not in self.release.implements for entry in self.sets[MULTI_POINT].enabled)

    def has(self, name: str) -> bool:
        """Tell whether the release has a plugin, with its feature gate on."""
        return name in self.release.implements and name not in self.release.gated_plugins

    def warn(self, code: str, text: str) -> None:
        self.field.problems.warn(code, f"profile {self.name}", text)


def build_profiles(wires: tuple[model.KubeSchedulerProfile, ...], problems: Problems) -> tuple[model.Profile, ...]:
    """Default, expand and check the profiles of a file; a file without any has one default profile."""
    wires = wires or (model.KubeSchedulerProfile(),)
    fields = FieldPath(problems)["profiles"].walk(wires)
    drafts = [_draft(wire, field, is_only=len(wires) == 1) for field, wire in fields]
    first: dict[str, str] = {}
    for draft in drafts:
        at = draft.field["schedulerName"]
        if draft.name and draft.name in first:
            at.duplicate(draft.name, f"give each profile a name of its own; {first[draft.name]} has it too")
        first[draft.name] = at.path
    own = [draft.sets["queue_sort"] for draft in drafts]
    if len(own[0].enabled) > 1:
        names = " or ".join(entry.name for entry in own[0].enabled)
        at = drafts[0].field["plugins"]["queueSort"]["enabled"]
        at.invalid(len(own[0].enabled), "only one queue sort plugin can be enabled", f"keep one of {names}")
    for draft, point_set in zip(drafts[1:], own[1:], strict=True):
        if _plain(point_set) != _plain(own[0]):
            hint = f"write the same queueSort as in {drafts[0].field.path}; all pods wait in one queue"
            at = draft.field["plugins"]["queueSort"]
            at.invalid(_plain(point_set), draft.release.texts.queue_sort_differs, hint)
    return tuple(map(_finish, drafts))


def _draft(wire: model.KubeSchedulerProfile, field: FieldPath, *, is_only: bool) -> _Draft:
    name = DEFAULT_SCHEDULER_NAME if wire.scheduler_name is None and is_only else wire.scheduler_name or ""
    if not name:
        hint = "write the name that pods carry in spec.schedulerName, such as default-scheduler"
        field["schedulerName"].required("", hint)
    field["percentageOfNodesToScore"].check_percentage(wire.percentage_of_nodes_to_score)
    custom: dict[str, PointSet] = {}
    for point, written in model.POINT_NAMES.items():
        point_set = getattr(wire.plugins or model.Plugins(), point)
        enabled = []
        for at, plugin in field["plugins"][written]["enabled"].walk(point_set.enabled):
            enabled.append(Entry(plugin.name, plugin.weight or 0, at.path))
            _refuse_removed(plugin.name, at)
            # Configuration must not import plugins: the releases list them, and a test of the plugins compares the two.
            since = next((release.minor for release in releases() if plugin.name in release.implements), "")
            if since and plugin.name not in field.release.implements:
                kind = model.UPSTREAM_POINT_NAMES.get(point, "Plugin")
                what = f"Kubernetes {field.release.minor} does not have {plugin.name}, which came with {since}"
                at.add(f'{kind} "{plugin.name}" does not exist', f"remove it: {what}")
        custom[point] = PointSet(tuple(enabled), tuple(plugin.name for plugin in point_set.disabled))
    return _Draft(wire, name, field, merge(default_sets(field.release), custom))


def _refuse_removed(name: str, field: FieldPath) -> None:
    removed = field.release.removed_plugins
    if name in removed:
        version = '"kubescheduler.config.k8s.io/v1"'
        detail = f"was invalid in version {version} (KubeSchedulerConfiguration is version {version})"
        field.invalid(name, detail, f"remove it: {removed[name]} counts these volumes now")


def _plain(point_set: PointSet) -> dict[str, object]:
    enabled = [{"name": entry.name, "weight": entry.weight} for entry in point_set.enabled]
    return GoStruct(enabled=enabled, disabled=[{"name": name} for name in point_set.disabled])


def _finish(draft: _Draft) -> model.Profile:
    args = _args(draft)
    implements, gated = draft.release.implements, draft.release.gated_plugins
    known = {
        point: PointSet(tuple(entry for entry in own.enabled if entry.name in implements), own.disabled)
        for point, own in draft.sets.items()
    }
    expanded = {
        point: tuple(ref for ref in refs if ref.name not in gated)
        for point, refs in expand(known, draft.field["plugins"], implements).items()
    }
    _check_single_points(draft, expanded)
    _warn_about_plugins(draft, expanded["score"])
    plugins = {point: expanded[point] for point in model.EXTENSION_POINTS}
    # The queue needs an order, even where the plugin that sorts it is unknown.
    plugins["queue_sort"] = plugins["queue_sort"] or (model.PluginRef("PrioritySort"),)
    percentage = draft.wire.percentage_of_nodes_to_score
    return model.Profile(draft.name, MappingProxyType(plugins), MappingProxyType(args), percentage)


def _args(draft: _Draft) -> dict[str, object]:
    """Decode the arguments in the file, and add the defaults of every other enabled plugin with arguments."""
    release = draft.release
    enabled = enabled_names(draft.sets)
    args: dict[str, object] = {}
    names: set[str] = set()
    for field, config in draft.field["pluginConfig"].walk(draft.wire.plugin_config):
        if config.name in names:
            field.duplicate(config.name, f"merge the entries of {config.name} into one")
        names.add(config.name)
        _refuse_removed(config.name, field)
        if args_type(config.name, release):
            decoded = decode_args(config.name, config.args, field["args"])
            args.setdefault(config.name, decoded)
            # NodeResourcesFit's arguments are checked by the plugin itself, only where it is enabled.
            if config.name != "NodeResourcesFit" or config.name in enabled:
                decoded.check(field["args"])
        elif config.name in release.out_of_tree:
            args.setdefault(config.name, config.args)
        elif config.name in release.implements and config.args is not None:
            draft.warn("IgnoredConfiguration", f"{field.path}: {config.name} takes no arguments; these are unused")
        elif config.name not in {*enabled, *release.implements, *release.removed_plugins}:
            what = f"no plugin {shown(config.name)} is enabled; its arguments are unused"
            draft.warn("IgnoredConfiguration", f"{field.path}: {what}{_suggestion(config.name, release)}")
    for name in enabled:
        if name not in args and args_type(name, release):
            args[name] = default_args(name, release)
    return args


def _suggestion(name: str, release: Release) -> str:
    guess = model.closest(name, tuple(release.implements))
    return f" (did you mean {guess}?)" if guess else ""


def _check_single_points(draft: _Draft, expanded: Mapping[str, tuple[model.PluginRef, ...]]) -> None:
    """Record a profile without a plugin that sorts the queue, or with several, and one without a plugin that binds."""
    profile = f"profile with scheduler name {shown(draft.name)}"
    own = draft.sets["queue_sort"].enabled
    count = len(expanded["queue_sort"]) + sum(not draft.has(entry.name) for entry in own)
    # Several in one list have a problem of their own already.
    if count != 1 and len(own) <= 1 and (count or not draft.has_strangers):
        hint = "enable one: queueSort: {enabled: [{name: PrioritySort}]}"
        if count:
            hint = "disable the other: queueSort: {disabled: [{name: PrioritySort}]}"
        message = f"only one queue sort plugin required for {profile}, but got {count}"
        draft.field["plugins"]["queueSort"].add(message, hint)
    binds = expanded["bind"] or any(not draft.has(entry.name) for entry in draft.sets["bind"].enabled)
    if not binds and not draft.has_strangers:
        hint = "enable one: bind: {enabled: [{name: DefaultBinder}]}"
        draft.field["plugins"]["bind"].add(f"at least one bind plugin is needed for {profile}", hint)


def _warn_about_plugins(draft: _Draft, score: tuple[model.PluginRef, ...]) -> None:
    release = draft.release
    for name in enabled_names(draft.sets):
        if not draft.has(name) and name not in release.removed_plugins:
            draft.warn("FeatureGateOff" if name in release.gated_plugins else "UnknownPlugin", _missing(name, draft))
    for point in model.PLACEMENT_POINTS:
        if any(draft.has(entry.name) for entry in draft.sets[point].enabled):
            gate = "TopologyAwareWorkloadScheduling"
            what = f"it runs with the feature gate {gate}, which is off by default"
            draft.warn("FeatureGateOff", f"plugins.{model.POINT_NAMES[point]} is unused: {what}")
    for ref in score:
        if ref.weight < 0:
            what = f"the negative weight {ref.weight}: the nodes that it likes least win"
            draft.warn("NegativeWeight", f"{ref.name} scores with {what}")
    for point, name in model.POINT_NAMES.items():
        for plugin in getattr(draft.wire.plugins or model.Plugins(), point).disabled:
            if plugin.name != _EVERYTHING and plugin.name not in release.implements:
                what = f"which is no in-tree plugin{_suggestion(plugin.name, release)}"
                draft.warn("IgnoredConfiguration", f"plugins.{name} disables {shown(plugin.name)}, {what}")


def _missing(name: str, draft: _Draft) -> str:
    """Return where an enabled plugin is missing, and why."""
    release = draft.release
    if name in release.gated_plugins:
        points = [model.POINT_NAMES[point] for point in _POINTS if point in release.implements[name]]
        gate = release.gated_plugins[name]
        default = "" if gate in release.switched else " by default"
        return f"{name} is missing from {', '.join(points)}: its feature gate {gate} is off{default}"
    named_at = [point for point, own in draft.sets.items() if any(entry.name == name for entry in own.enabled)]
    points = [model.POINT_NAMES[point] for point in named_at if point != MULTI_POINT]
    if MULTI_POINT in named_at:
        points.insert(0, "every extension point that it implements (multiPoint)")
    order = "; pods queue as PrioritySort orders them" if "queue_sort" in named_at else ""
    return (
        f"{name} is not one of kube-scheduler's own plugins{_suggestion(name, release)}; it is missing from"
        f" {', '.join(points)}{order}; a kube-scheduler without it compiled in does not start"
    )


def decode_args(name: str, value: object, field: FieldPath) -> PluginArgs:
    """Decode the arguments of the in-tree plugin `name`; absent ones get their defaults.

    `apiVersion` and `kind` may be absent, and must be right where they are present. Upstream: staging
    kube-scheduler/config/v1/types.go decodeNestedObjects, ValidateDynamicResourcesArgs.
    """
    kind = f"{name}Args"
    if isinstance(value, dict):
        stated_kind, stated_version = value.get("kind") or kind, value.get("apiVersion") or API_VERSION
        if stated_version != API_VERSION:
            message = f"no kind {shown(stated_kind)} is registered for version {shown(stated_version)}"
            field["apiVersion"].add(message, f"write: apiVersion: {API_VERSION}, or leave it out")
        elif stated_kind != kind:
            got = f"{stated_kind}.{API_GROUP}" if isinstance(stated_kind, str) else shown(stated_kind)
            message = f"args for plugin {name} were not of type {kind}.{API_GROUP}, got {got}"
            field["kind"].add(message, f"write: kind: {kind}, or leave it out")
    args = model.decode({} if value is None else value, ARGS_TYPES[name], field).defaulted(field.release)
    if isinstance(value, dict) and isinstance(args, DynamicResourcesArgs):
        for parameter, timeout, gates in (
            ("filterTimeout", args.filter_timeout, "DRASchedulingFilterTimeout"),  # upstream's spelling of the gate
            ("bindingTimeout", args.binding_timeout, "DRADeviceBindingConditions or DRAResourceClaimDeviceStatus"),
        ):
            if timeout is None and value.get(parameter) is not None:
                field[parameter].forbidden(f"{gates} feature gate is disabled", "remove it, or turn the gate on")
    return args
