"""KubeSchedulerConfiguration v1 as in a file, with the defaults of what is not set.

A field whose default depends on other fields is None where it is not set.

Upstream: staging kube-scheduler/config/v1/types.go, component-base/config/v1alpha1/types.go.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NewType

import msgspec

from kplan.api.durations import SECOND, Nanoseconds
from kplan.config.args import ConfigStruct
from kplan.config.model import Extender
from kplan.config.releases import releases

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
