"""A KubeSchedulerConfiguration v1 as in a file, and as kube-scheduler runs it.

In a file: with the defaults of what is not set. A field whose default depends on other fields is None where it is not
set. As it runs: defaults filled in, `multiPoint` expanded, arguments typed.

Upstream: staging kube-scheduler/config/v1/types.go, component-base/config/v1alpha1/types.go.
"""

from __future__ import annotations

import itertools
import typing
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, TypeVar

import msgspec

from kplan.api.decode import convert_what_is_right
from kplan.api.field_errors import shown
from kplan.api.meta import Int32, Int64, KubeStruct
from kplan.api.names import nearest_texts
from kplan.api.time import SECOND, Duration, Nanoseconds, format_duration
from kplan.config.args import ConfigStruct
from kplan.config.problems import FieldPath
from kplan.config.releases import Release, reference
from kplan.errors import Problem
from kplan.facts import InputWarning
from kplan.visible import without_account


class PluginRef(msgspec.Struct, frozen=True):
    """A plugin at an extension point; `weight` counts at `score` only and is 0 elsewhere."""

    name: str
    weight: int = 0


class Profile(msgspec.Struct, frozen=True):
    """A scheduling profile; pods choose it by `spec.schedulerName`."""

    scheduler_name: str
    #: every extension point of `in_tree.EXTENSION_POINTS` -> its plugins, in the order in which they run
    plugins: Mapping[str, tuple[PluginRef, ...]]
    #: plugin name -> its arguments, for every plugin that is enabled somewhere and takes arguments: a `PluginArgs` for
    #: in-tree plugins, the file's values for others
    args: Mapping[str, object]
    percentage_of_nodes_to_score: int | None = None  #: None: the configuration's percentage applies

    def plugin_names(self) -> tuple[str, ...]:
        """Return the plugins that are enabled at any extension point, each once, in order of first appearance."""
        return tuple(dict.fromkeys(ref.name for refs in self.plugins.values() for ref in refs))


class ManagedResource(ConfigStruct, frozen=True, kw_only=True):
    """An extended resource that an extender manages; NodeResourcesFit skips it if it is ignored by the scheduler."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTLSConfig(ConfigStruct, frozen=True, kw_only=True):
    """TLS settings of an extender; the data fields hold PEM bytes and win over the files."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: bytes = b""
    key_data: bytes = b""
    ca_data: bytes = b""

    def __repr__(self) -> str:
        """Show the settings without key material."""
        return f"ExtenderTLSConfig(insecure={self.insecure}, server_name={self.server_name!r})"


class Extender(ConfigStruct, frozen=True, kw_only=True):
    """A scheduler extender; it does not serve a call whose verb is empty."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: Int64 = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Nanoseconds(5 * SECOND)
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


class SchedulerConfiguration(msgspec.Struct, frozen=True):
    """A KubeSchedulerConfiguration as kube-scheduler runs it."""

    profiles: tuple[Profile, ...]
    percentage_of_nodes_to_score: int = 0  #: 0: the adaptive percentage
    parallelism: int = 16
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    extenders: tuple[Extender, ...] = ()
    source: str = "default"  #: "default", or the file that was read
    warnings: tuple[InputWarning, ...] = ()  #: about the release, and settings of the file that kplan does not model
    #: fields that no decision depends on (`leaderElection`, `clientConnection`, …), defaulted, as JSON values
    settings: Mapping[str, object] = msgspec.field(default_factory=lambda: MappingProxyType({}))
    #: the release that reads it; another may read the same file differently
    release: Release = msgspec.field(default_factory=reference)
    #: the document as plain values, for another release to read; None for the default configuration
    document: object = None
    #: how many further documents the file has, which are ignored
    other_documents: int = 0
    is_release_explicit: bool = False  #: the caller chose the release

    def __repr__(self) -> str:  # its document may hold keys of extenders
        names = ", ".join(profile.scheduler_name for profile in self.profiles)
        return f"SchedulerConfiguration({names}; {self.source})"

    def profile(self, scheduler_name: str) -> Profile | None:
        """Return the profile of a scheduler name; None where this scheduler has none of that name."""
        return next((profile for profile in self.profiles if profile.scheduler_name == scheduler_name), None)

    def extenders_in_call_order(self) -> tuple[Extender, ...]:
        """Return the extenders as kube-scheduler calls them, ignorable ones last (scheduler.go buildExtenders)."""
        return tuple(sorted(self.extenders, key=lambda extender: extender.ignorable))


def plain(value: object) -> object:
    """Return a struct as plain values with the field names of a file, without absent optional fields."""
    if isinstance(value, KubeStruct):
        return msgspec.to_builtins(value)
    if isinstance(value, msgspec.Struct):
        document: dict[str, object] = {}
        for field in msgspec.structs.fields(value):
            held = getattr(value, field.name)
            if held is None or (isinstance(value, ExtenderTLSConfig) and (field.name == "key_data" or not held)):
                continue
            if field.name == "url_prefix":
                held = without_account(held)
            is_duration = Duration in (field.type, *typing.get_args(field.type))
            document[field.encode_name] = format_duration(held) if is_duration else plain(held)
        return document
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode()
    return value


class Plugin(ConfigStruct, frozen=True, kw_only=True):
    """A plugin by name; a weight of 0 means no weight."""

    name: str = ""
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
POINT_NAMES: Final = dict(zip(Plugins.__struct_fields__, Plugins.__struct_encode_fields__, strict=True))
_MULTI_POINT = Plugins.__struct_fields__.index("multi_point")

#: The extension points of a pod's scheduling cycle, in the order in which they run.
EXTENSION_POINTS: Final = Plugins.__struct_fields__[:_MULTI_POINT]

#: Extension points of whole pod groups. They run only with the gate TopologyAwareWorkloadScheduling, off by default.
PLACEMENT_POINTS: Final = Plugins.__struct_fields__[_MULTI_POINT + 1 :]

#: Extension point -> the Go type of its plugins, as in kube-scheduler's start-up errors.
UPSTREAM_POINT_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {point: f"{point.title().replace('_', '')}Plugin" for point in (*EXTENSION_POINTS, *PLACEMENT_POINTS)}
)


class PluginConfig(ConfigStruct, frozen=True, kw_only=True):
    """Arguments of one plugin, as plain values."""

    name: str = ""
    args: Any = None


class KubeSchedulerProfile(ConfigStruct, frozen=True, kw_only=True):
    """One profile."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: Int32 | None = None
    plugins: Plugins | None = None
    plugin_config: tuple[PluginConfig, ...] = ()


class LeaderElection(ConfigStruct, frozen=True, kw_only=True):
    """Settings of leader election; an empty or zero value gets its default."""

    leader_elect: bool = True
    lease_duration: Duration = Nanoseconds(15 * SECOND)
    renew_deadline: Duration = Nanoseconds(10 * SECOND)
    retry_period: Duration = Nanoseconds(2 * SECOND)
    resource_lock: str = "leases"
    resource_name: str = "kube-scheduler"
    resource_namespace: str = "kube-system"


class ClientConnection(ConfigStruct, frozen=True, kw_only=True):
    """How the scheduler reaches the API server; an empty or zero value gets its default."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/vnd.kubernetes.protobuf"
    qps: float = 50.0
    burst: Int32 = 100


class KubeSchedulerConfiguration(ConfigStruct, frozen=True, kw_only=True):
    """The whole document, without `apiVersion` and `kind`."""

    parallelism: Int32 = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = True
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: Int32 = 0
    pod_initial_backoff_seconds: Int64 = 1
    pod_max_backoff_seconds: Int64 = 10
    profiles: tuple[KubeSchedulerProfile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False


S = TypeVar("S", bound=msgspec.Struct)

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


def closest(name: str, known: Sequence[str]) -> str:
    same = (candidate for candidate in known if candidate.lower() == name.lower())
    return next(itertools.chain(same, nearest_texts(name, known, 1, 0.7)), "")


def decode(value: object, cls: type[S], field: FieldPath) -> S:
    """Decode an object of the document into a struct, beside whose fields `apiVersion` and `kind` may stand.

    The rules are those of Kubernetes' strict JSON decoding: field names are case-sensitive, nothing is converted,
    `null` means absent. Fields that do not decode get their default, and a problem each.
    """
    release = field.release

    def where(at: str) -> str:
        return (field.path + at.removeprefix("$")).removeprefix(".")

    def refuse(struct: type[msgspec.Struct], name: str, at: str) -> Problem | None:
        fields = struct.__struct_encode_fields__
        known = [one for one in fields if (struct.__name__, one) not in release.absent_fields]
        if name in known or at in ("$.apiVersion", "$.kind"):
            return None
        if (struct.__name__, name) in release.absent_fields:
            hint = f"remove it: Kubernetes {release.minor} does not have this field yet"
        elif suggestion := closest(name, known):
            hint = f"did you mean {suggestion}?"
        else:
            hint = f"remove it; fields here are {', '.join(known)}"
        hint = _ELSEWHERE.get((struct.__name__, name), hint)
        return Problem(f"unknown field {shown(where(at))}", json_path=at, hint=hint)

    decoded, wrong = convert_what_is_right(value, cls, refuse)
    for problem in wrong:
        at = field.at(where(problem.json_path))
        at.add(problem.message, problem.hint)
        field.problems.unreadable.append(at.path)
    return decoded
