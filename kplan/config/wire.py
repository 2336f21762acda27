"""KubeSchedulerConfiguration v1 as in a file, with the defaults of what is not set.

A field whose default depends on other fields is None where it is not set.

Upstream: staging kube-scheduler/config/v1/types.go, component-base/config/v1alpha1/types.go.

Strict decoding into structs, with all unknown fields, wrong types and numbers out of range of a document at once.

msgspec itself stops at the first problem; a person who edits a file wants to see all of them. The rules are those of
Kubernetes' strict JSON decoding: field names are case-sensitive, nothing is converted, `null` means absent.
"""

from __future__ import annotations

import base64
import difflib
import types
import typing
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NewType, TypeVar

import msgspec

from kplan.api.time import SECOND, Nanoseconds, parse_duration
from kplan.config.args import ConfigStruct
from kplan.config.model import Extender
from kplan.config.problems import Problems, child, go_value, index
from kplan.config.releases import releases

if TYPE_CHECKING:
    from kplan.config.releases import Release
#: The extension points of a pod's scheduling cycle, in the order in which they run.
EXTENSION_POINTS: Final = (
    "pre_enqueue",
    "queue_sort",
    "pre_filter",
    "filter",
    "post_filter",
    "pre_score",
    "score",
    "reserve",
    "permit",
    "pre_bind",
    "bind",
    "post_bind",
)

#: Extension points of whole pod groups. They run only with the gate TopologyAwareWorkloadScheduling, off by default.
PLACEMENT_POINTS: Final = ("placement_generate", "placement_score")

#: Extension point -> the Go type of its plugins, as in kube-scheduler's start-up errors.
UPSTREAM_POINT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {point: f"{point.title().replace('_', '')}Plugin" for point in (*EXTENSION_POINTS, *PLACEMENT_POINTS)}
)


def in_tree_since(plugin: str) -> str:
    """Return the oldest known minor that has the plugin in-tree; empty where none has.

    Configuration must not import plugins: the releases list them, and a test of the plugins compares the two.
    """
    return next((release.minor for release in releases() if plugin in release.implements), "")


#: A Go int32.
Int32 = NewType("Int32", int)


class Plugin(ConfigStruct, frozen=True, kw_only=True):
    """A plugin by name; a weight of 0 means no weight."""

    name: str
    weight: Int32 | None = None


class PluginSet(ConfigStruct, frozen=True, kw_only=True):
    """The plugins to add to and remove from the defaults of one extension point."""

    enabled: tuple[Plugin, ...] = ()
    disabled: tuple[Plugin, ...] = ()


class Plugins(ConfigStruct, frozen=True, kw_only=True):
    """The plugin sets of a profile, one per extension point and `multiPoint` for all at once."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()


#: Extension point -> its name in a file.
POINT_NAMES: Final = {field.name: field.encode_name for field in msgspec.structs.fields(Plugins)}


class PluginConfig(ConfigStruct, frozen=True, kw_only=True):
    """Arguments of one plugin, as plain values."""

    name: str
    args: object = None


class KubeSchedulerProfile(ConfigStruct, frozen=True, kw_only=True):
    """One profile."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins | None = None
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(ConfigStruct, frozen=True, kw_only=True):
    """Settings of leader election; an empty or zero value gets its default."""

    leader_elect: bool = True
    lease_duration: Nanoseconds = Nanoseconds(15 * SECOND)
    renew_deadline: Nanoseconds = Nanoseconds(10 * SECOND)
    retry_period: Nanoseconds = Nanoseconds(2 * SECOND)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(ConfigStruct, frozen=True, kw_only=True):
    """How the scheduler reaches the API server; an empty or zero value gets its default."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = Int32(100)


class KubeSchedulerConfiguration(ConfigStruct, frozen=True, kw_only=True):
    """The whole document, without `apiVersion` and `kind`."""

    parallelism: Int32 = Int32(16)
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 = Int32(0)
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False


S = TypeVar("S", bound=msgspec.Struct)

_INT_BITS: Final = {Int32: 32, int: 64}

#: Fields that people often write in the wrong place, and where they belong.
_ELSEWHERE: Final[Mapping[tuple[str, str], str]] = {
    ("KubeSchedulerConfiguration", "plugins"): "plugins belong to a profile: write them as profiles[0].plugins",
    ("KubeSchedulerConfiguration", "pluginConfig"): "arguments belong to a profile: write profiles[0].pluginConfig",
    ("KubeSchedulerConfiguration", "schedulerName"): "the name belongs to a profile: write profiles[0].schedulerName",
    ("KubeSchedulerConfiguration", "healthzBindAddress"): "gone since v1beta3: remove it and use --secure-port",
    ("KubeSchedulerConfiguration", "metricsBindAddress"): "gone since v1beta3: remove it and use --secure-port",
    ("KubeSchedulerConfiguration", "algorithmSource"): "gone since v1: describe the plugins under profiles",
    ("KubeSchedulerConfiguration", "featureGates"): "feature gates are a flag of kube-scheduler: --feature-gates",
    ("KubeSchedulerProfile", "enabled"): "write it below an extension point: plugins.score.enabled",
    ("KubeSchedulerProfile", "disabled"): "write it below an extension point: plugins.score.disabled",
    ("Plugins", "enabled"): "write it below an extension point: score.enabled, or multiPoint.enabled for all of them",
    ("Plugins", "disabled"): "write it below an extension point: score.disabled, or multiPoint.disabled for all",
    ("Plugin", "args"): "arguments go under the profile's pluginConfig",
}


def closest(name: str, known: list[str] | tuple[str, ...]) -> str:
    for candidate in known:
        if candidate.lower() == name.lower():
            return candidate
    return next(iter(difflib.get_close_matches(name, known, n=1, cutoff=0.7)), "")


def decode(value: object, cls: type[S], path: str, problems: Problems, *, type_meta: bool = False) -> S:
    """Decode an object of the document into a struct.

    Fields that do not decode get their default, or the empty value of their type, and a problem each.

    Parameters
    ----------
    value : the object, as plain values
    path : where it stands
    type_meta : whether `apiVersion` and `kind` may stand in it
    """
    if not isinstance(value, dict):
        problems.unreadable(path, f"expected {_describe_type(cls)}, got {_describe(value)}", _type_hint(cls, value))
        value = {}
    absent = problems.release.absent_fields
    fields = [field for field in msgspec.structs.fields(cls) if (cls.__name__, field.encode_name) not in absent]
    by_name = {field.encode_name: field for field in fields}
    for name in value:
        if name not in by_name and not (type_meta and name in {"apiVersion", "kind"}):
            place = child(path, name)
            hint = _unknown_field_hint(cls, name, tuple(by_name), problems.release)
            problems.add(place, f"unknown field {go_value(place)}", hint)
    decoded: dict[str, object] = {}
    for field in fields:
        item = value.get(field.encode_name)
        if item is not None:
            decoded[field.name] = _decode_value(item, field.type, child(path, field.encode_name), problems)
        elif field.required:
            decoded[field.name] = _zero(field.type)
    return cls(**decoded)


class _Unreadable(ValueError):  # noqa: N818 - becomes a problem
    """A value that does not decode, and a hint."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message)
        self.hint = hint


def _decode_value(value: object, kind: typing.Any, path: str, problems: Problems) -> object:
    if typing.get_origin(kind) in {types.UnionType, typing.Union}:
        kind = next(option for option in typing.get_args(kind) if option is not type(None))
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]  # an integer of the API with its range
    origin = typing.get_origin(kind)
    if kind is object:
        return value
    if origin is tuple and isinstance(value, list):
        entry = typing.get_args(kind)[0]
        return tuple(_decode_entry(item, entry, index(path, i), problems) for i, item in enumerate(value))
    if origin is dict and isinstance(value, dict):
        entry = typing.get_args(kind)[1]
        return {key: _decode_entry(item, entry, child(path, key), problems) for key, item in value.items()}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return decode(value, kind, path, problems)
    try:
        return _decode_scalar(value, kind)
    except _Unreadable as error:
        problems.unreadable(path, str(error), error.hint)
        return _zero(kind)


def _decode_entry(value: object, kind: typing.Any, path: str, problems: Problems) -> object:
    """Decode an element of a list or map, where Go turns `null` into the empty value."""
    if value is None and isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        value = {}
    return _zero(kind) if value is None else _decode_value(value, kind, path, problems)


def _decode_scalar(value: object, kind: typing.Any) -> object:
    """Decode a string, number, boolean, duration or bytes."""
    if kind in {str, bool} and isinstance(value, kind):
        return value
    if kind is Nanoseconds and isinstance(value, str):
        if (parsed := parse_duration(value)) is not None:
            return parsed
        hint = "write a number with its unit: 500ms, 30s, 1m30s, 2h"
        raise _Unreadable(f"{go_value(value)} is not a duration", hint)
    if kind is bytes and isinstance(value, str):
        try:
            return base64.b64decode(value, validate=True)
        except ValueError:
            raise _Unreadable("expected base64 text", "encode the PEM file: base64 -w0 FILE") from None
    if isinstance(value, int | float) and not isinstance(value, bool):
        if kind is float:
            return float(value)
        if kind in _INT_BITS and value == value // 1:  # neither a fraction nor infinite
            bits, number = _INT_BITS[kind], int(value)
            limit = 1 << (bits - 1)
            if -limit <= number < limit:
                return number
            raise _Unreadable(f"{number} does not fit into {bits} bits", f"write a number of at most {limit - 1}")
    raise _Unreadable(f"expected {_describe_type(kind)}, got {_describe(value)}", _type_hint(kind, value))


def _zero(kind: typing.Any) -> object:
    if type(None) in typing.get_args(kind) or kind is object:
        return None
    if typing.get_origin(kind) is typing.Annotated:
        kind = typing.get_args(kind)[0]
    origin = typing.get_origin(kind) or kind
    if not isinstance(origin, type):
        return 0  # a NewType of int
    fields = msgspec.structs.fields(origin) if issubclass(origin, msgspec.Struct) else ()
    return origin(**{field.name: _zero(field.type) for field in fields if field.required})


def _unknown_field_hint(cls: type[msgspec.Struct], name: str, known: tuple[str, ...], release: Release) -> str:
    if (cls.__name__, name) in release.absent_fields:
        return f"remove it: Kubernetes {release.minor} does not have this field yet"
    elsewhere = _ELSEWHERE.get((cls.__name__, name))
    if elsewhere:
        return elsewhere
    suggestion = closest(name, known)
    return f"did you mean {suggestion}?" if suggestion else f"remove it; fields here are {', '.join(known)}"


def _describe(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case str():
            return f"the text {go_value(value if len(value) <= 60 else value[:57] + '...')}"
        case int() | float():
            return f"the number {value}"
        case list():
            return "a list"
    return "an object"


def _describe_type(kind: typing.Any) -> str:
    names = {str: "text", bool: "true or false", float: "a number", bytes: "base64 text", Nanoseconds: "a duration"}
    if kind in _INT_BITS:
        return "a whole number"
    if typing.get_origin(kind) is tuple:
        return "a list"
    return names.get(kind, "an object")


def _type_hint(kind: typing.Any, value: object) -> str:
    if typing.get_origin(kind) is tuple:
        return "write a list: each entry on a line of its own that begins with '- '"
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return f"write an object with the fields {', '.join(f.encode_name for f in msgspec.structs.fields(kind))}"
    if kind is str and isinstance(value, bool | int | float):
        return f'write it in quotes: "{str(value).lower()}"'
    if kind is Nanoseconds and isinstance(value, int | float):
        return f'write a number with its unit, as text: "{value}s"'
    if isinstance(value, str) and (kind in _INT_BITS or kind is float) and value.strip().lstrip("+-").isdigit():
        return f"write {value} without quotes"
    return f"write {_describe_type(kind)}"
