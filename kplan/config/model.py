"""The effective scheduler configuration: defaults filled in, `multiPoint` expanded, arguments typed."""

from __future__ import annotations

import typing
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from kplan.api.meta import KubeStruct
from kplan.api.time import SECOND, Nanoseconds, format_duration
from kplan.config.args import ConfigStruct
from kplan.config.releases import Release, reference
from kplan.visible import without_account

if TYPE_CHECKING:
    from kplan.facts import InputWarning


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

    name: str
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

    url_prefix: str
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Nanoseconds = Nanoseconds(5 * SECOND)
    node_cache_capable: bool = False
    managed_resources: tuple[ManagedResource, ...] = ()
    ignorable: bool = False


@dataclass(frozen=True, slots=True)
class SchedulerConfiguration:
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
    settings: Mapping[str, object] = field(default_factory=lambda: MappingProxyType({}))
    #: the release that reads it; another may read the same file differently
    release: Release = field(default_factory=reference)
    #: the document as plain values, for another release to read; None for the default configuration
    document: object = field(default=None, repr=False, compare=False)
    #: how many further documents the file has, which are ignored
    other_documents: int = field(default=0, repr=False, compare=False)
    is_release_explicit: bool = field(default=False, compare=False)  #: the caller chose the release

    def profile(self, scheduler_name: str) -> Profile | None:
        """Return the profile of a scheduler name; None where this scheduler has none of that name."""
        return next((profile for profile in self.profiles if profile.scheduler_name == scheduler_name), None)

    def extenders_in_call_order(self) -> tuple[Extender, ...]:
        """Return the extenders in the order of kube-scheduler's calls: as in the file, ignorable ones last.

        Upstream: scheduler.go buildExtenders.
        """
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
            document[field.encode_name] = (
                format_duration(held) if Nanoseconds in (field.type, *typing.get_args(field.type)) else plain(held)
            )
        return document
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        import base64

        return base64.b64encode(value).decode()
    return value
