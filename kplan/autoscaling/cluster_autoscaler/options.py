"""The flags of the cluster-autoscaler that its decisions depend on, and what tells of its groups.

These are its command line, the clouds' labels of nodes, and its status.

Upstream: cluster-autoscaler config/flags/flags.go, clusterstate/api/types.go, clusterstate/utils/status.go.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kplan.api.core import Node
from kplan.api.labels import BETA_ZONE, ZONE
from kplan.api.time import parse_duration, to_micros
from kplan.errors import UsageError
from kplan.facts import InputWarning
from kplan.reading.yaml import YamlProblem, read_yaml
from kplan.snapshot.model import Snapshot

_MICROS = 1_000_000
_MINUTE = 60 * _MICROS
_GIB = 1024**3
_MOST = 2**53
_MOST_ITEMS = 10_000


EXPANDERS = ("random", "most-pods", "least-waste", "price", "priority", "least-nodes")


class Limit(msgspec.Struct, frozen=True):
    """How much of a resource all nodes together may have."""

    resource: str
    least: int
    most: int


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The flags by their names, with their defaults; durations in microseconds."""

    cloud_provider: str = ""
    scan_interval: int = 10 * _MICROS
    expander: tuple[str, ...] = ("least-waste",)
    max_nodes_total: int = 0
    max_nodes_per_scaleup: int = 1000
    #: a CapacityQuota counts once it is valid, which only an autoscaler with this flag finds out
    capacity_quotas_enabled: bool = True
    cores_total: Limit = Limit("cpu", 0, 320_000)
    memory_total: Limit = Limit("memory", 0, 6_400_000 * _GIB)
    gpu_total: tuple[Limit, ...] = ()
    scale_up_from_zero: bool = True
    scale_down_enabled: bool = True
    enforce_node_group_min_size: bool = False
    salvo_scale_up: bool = False
    fastpath_binpacking_enabled: bool = False
    scaleup_simulation_for_skipped_node_groups_enabled: bool = False
    force_ds: bool = False
    scale_from_unschedulable: bool = False
    ignore_taint: tuple[str, ...] = ()
    startup_taint: tuple[str, ...] = ()
    startup_taint_prefix: tuple[str, ...] = ()
    status_taint: tuple[str, ...] = ()
    new_pod_scale_up_delay: int = 0
    expendable_pods_priority_cutoff: int = -10
    bypassed_scheduler_names: tuple[str, ...] = ()
    allowed_scheduler_names: tuple[str, ...] = ()
    balance_similar_node_groups: bool = False
    balancing_ignore_label: tuple[str, ...] = ()
    balancing_label: tuple[str, ...] = ()
    memory_difference_ratio: float = 0.015
    max_free_difference_ratio: float = 0.05
    max_allocatable_difference_ratio: float = 0.05
    ok_total_unready_count: int = 3
    max_total_unready_percentage: float = 45
    max_node_provision_time: int = 15 * _MINUTE
    max_node_startup_time: int = 15 * _MINUTE
    initial_node_group_backoff_duration: int = 5 * _MINUTE
    max_node_group_backoff_duration: int = 30 * _MINUTE
    node_group_backoff_reset_timeout: int = 180 * _MINUTE
    node_info_cache_expire_time: int = 87600 * 60 * _MINUTE
    scale_down_unready_enabled: bool = True
    scale_down_delay_after_add: int = 10 * _MINUTE
    scale_down_delay_after_delete: int = 0
    scale_down_delay_after_failure: int = 3 * _MINUTE
    scale_down_delay_type_local: bool = False
    scale_down_unneeded_time: int = 10 * _MINUTE
    scale_down_unready_time: int = 20 * _MINUTE
    scale_down_utilization_threshold: float = 0.5
    scale_down_gpu_utilization_threshold: float = 0.5
    ignore_daemonsets_utilization: bool = False
    ignore_mirror_pods_utilization: bool = False
    unremovable_node_recheck_timeout: int = 5 * _MINUTE
    max_pod_eviction_time: int = 2 * _MINUTE
    max_graceful_termination_sec: int = 600
    node_delete_delay_after_taint: int = 5 * _MICROS
    max_scale_down_parallelism: int = 10
    max_drain_parallelism: int = 1
    max_bulk_soft_taint_count: int = 10
    skip_nodes_with_system_pods: bool = True
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_custom_controller_pods: bool = True
    min_replica_count: int = 0
    blocking_system_pod_distruption_timeout: int = 60 * _MINUTE
    zero_or_max_node_scaling: bool = False  #: only of a group


_ONLY_OF_GROUPS = "zero-or-max-node-scaling"
#: Flags that a node group may have of its own.
OF_GROUPS = frozenset(
    {
        _ONLY_OF_GROUPS,
        "scale-down-utilization-threshold",
        "scale-down-gpu-utilization-threshold",
        "scale-down-unneeded-time",
        "scale-down-unready-time",
        "max-node-provision-time",
        "max-node-startup-time",
        "ignore-daemonsets-utilization",
    }
)

#: Flags that do not change what is decided: how the program runs, and how it speaks to others.
_OF_THE_PROGRAM = frozenset(
    """
    add-dir-header address allow-non-atomic-scale-up-to-max alsologtostderr aws-use-static-instance-list cloud-config
    cluster-name cluster-snapshot-parallelism clusterapi-cloud-config-authoritative cordon-node-before-terminating
    daemonset-eviction-for-empty-nodes daemonset-eviction-for-occupied-nodes debugging-snapshot-enabled
    dynamic-node-delete-delay-after-taint-enabled emit-per-nodegroup-metrics estimator feature-gates
    frequent-loops-enabled gce-concurrent-refreshes gce-expander-ephemeral-storage-support kube-api-content-type
    kube-client-burst kube-client-qps kubeconfig kubernetes leader-elect leader-elect-lease-duration
    leader-elect-renew-deadline leader-elect-resource-lock leader-elect-resource-name
    leader-elect-resource-namespace leader-elect-retry-period log-backtrace-at log-dir log-file log-file-max-size
    logging-format logtostderr max-bulk-soft-taint-time max-failing-time max-inactivity
    max-startup-time namespace node-deletion-batcher-interval
    node-deletion-delay-timeout node-group-auto-discovery nodes one-output predicate-parallelism profiling
    record-duplicated-events regional scale-down-candidates-pool-min-count scale-down-candidates-pool-ratio
    scale-down-non-empty-candidates-count skip-headers skip-log-headers
    status-config-map-name stderrthreshold user-agent v vmodule write-status-configmap
""".split()  # noqa: SIM905 - a list would take a line for each
)


def parse_options(given_options: Mapping[str, Any], *, of_group: bool = False) -> tuple[dict[str, Any], list[str]]:
    """Read flags; raises UsageError for a value that the flag cannot have.

    Parameters
    ----------
    given_options : flag, without dashes -> its value, as text, number, truth value or list
    of_group : read those of a node group

    Returns
    -------
    values : fields of `Options`
    passed_over : flags that kplan does not follow
    """
    values: dict[str, Any] = {}
    passed_over: list[str] = []
    for flag, value in given_options.items():
        field = flag.replace("-", "_")
        if flag == "scale-down-delay-after-delete" and value in ("", None):
            continue
        if field not in _READERS or (of_group and flag not in OF_GROUPS) or (flag == _ONLY_OF_GROUPS and not of_group):
            if flag not in _OF_THE_PROGRAM:
                passed_over.append(flag)
            continue
        try:
            values[field] = _READERS[field](value)
        except (ValueError, TypeError, OverflowError) as error:
            hint = _HINTS.get(_READERS[field], "give it as the cluster-autoscaler's flag has it")
            raise UsageError(f"--{flag}: {str(value)[:80]!r} cannot be read: {error}", hint=hint) from None
    return values, passed_over


def options_of(given_options: Mapping[str, Any]) -> tuple[Options, list[InputWarning]]:
    """Return the flags with their defaults, and warnings about those that are not followed."""
    values, passed_over = parse_options(given_options)
    return Options(**values), [_not_followed(flag) for flag in passed_over]


def _not_followed(flag: str) -> InputWarning:
    known = [field.replace("_", "-") for field in _READERS]
    near = difflib.get_close_matches(flag, known, n=1, cutoff=0.85)
    hint = f"; did you mean --{near[0]}?" if near else ""
    return InputWarning("AutoscalerOption", f"--{flag}"[:200], f"kplan does not follow this flag{hint}")


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if str(value).lower() in ("true", "t", "1"):
        return True
    if str(value).lower() in ("false", "f", "0"):
        return False
    raise ValueError("not true or false")


def _int(value: Any) -> int:
    number = int(value)
    if isinstance(value, float) and value != number:
        raise ValueError("not a whole number")
    if abs(number) > _MOST:
        raise ValueError("too large")
    return number


def _float(value: Any) -> float:
    number = float(value)
    if not math.isfinite(number) or abs(number) > _MOST:
        raise ValueError("not a number")
    return number


def _duration(value: Any) -> int:
    nanoseconds = parse_duration(str(value))
    if nanoseconds is None:
        raise ValueError("not a duration")
    return nanoseconds // 1000


def _texts(value: Any) -> tuple[str, ...]:
    items = value if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    texts = tuple(text.strip() for item in items for text in str(item).split(",") if text.strip())
    if len(texts) > _MOST_ITEMS:
        raise ValueError(f"more than {_MOST_ITEMS} of them")
    return texts


def _expanders(value: Any) -> tuple[str, ...]:
    names = _texts(value)
    unknown = [name for name in names if name not in EXPANDERS]
    if unknown or not names:
        raise ValueError(f"no expander that kplan follows: {', '.join(unknown)}")
    return names


def _range(resource: str, scale: int) -> Callable[[Any], Limit]:
    def read(value: Any) -> Limit:
        least, colon, most = str(value).partition(":")
        if not colon:
            raise ValueError("not MIN:MAX")
        return Limit(resource, _int(least) * scale, _int(most) * scale)

    return read


def _gpus(value: Any) -> tuple[Limit, ...]:
    limits = []
    for text in _texts(value):
        kind, _, span = text.partition(":")
        least, colon, most = span.partition(":")
        if not colon:
            raise ValueError("not TYPE:MIN:MAX")
        limits.append(Limit(kind, _int(least), _int(most)))
    return tuple(limits)


_BY_TYPE: Mapping[Any, Callable[[Any], Any]] = {
    "bool": _bool,
    "int": _int,
    "float": _float,
    "str": str,
    "tuple[str, ...]": _texts,
}


def _reader(field: msgspec.structs.FieldInfo, annotation: str) -> Callable[[Any], Any]:
    is_duration = annotation == "int" and field.name.endswith(
        ("_time", "_delay", "_timeout", "_duration", "_add", "_delete", "_failure", "_interval", "_taint")
    )
    return _duration if is_duration else _BY_TYPE[annotation]


_OWN_READERS: Mapping[str, Callable[[Any], Any]] = {
    "expander": _expanders,
    "cores_total": _range("cpu", 1),
    "memory_total": _range("memory", _GIB),
    "gpu_total": _gpus,
}

_READERS: Mapping[str, Callable[[Any], Any]] = {
    field.name: _OWN_READERS.get(field.name) or _reader(field, Options.__annotations__[field.name])
    for field in msgspec.structs.fields(Options)
}

_HINTS: Mapping[Callable[[Any], Any], str] = {
    _bool: "give true or false",
    _int: "give a whole number",
    _float: "give a number such as 0.5",
    _duration: "give a duration such as 10m or 1h30m",
    _expanders: f"choose from {', '.join(EXPANDERS)}; several are separated by commas",
    _gpus: "give TYPE:MIN:MAX, such as nvidia-l4:0:8",
    _OWN_READERS["cores_total"]: "give MIN:MAX in cores, such as 0:1000",
    _OWN_READERS["memory_total"]: "give MIN:MAX in gibibytes, such as 0:4000",
}


CONFIG_MAP = "cluster-autoscaler-status"

_MOST_SIZE = 2**31


class GroupStatus(msgspec.Struct, frozen=True):
    """A group as the autoscaler's status has it."""

    name: str  #: the cloud's own
    least: int
    most: int
    target: int
    n_registered: int
    n_missing: int  #: nodes that will come, as far as the status tells
    is_backed_off: bool
    scales_up_since: int | None  #: microseconds since 1970, while a scale-up is in progress


def statuses_of(snapshot: Snapshot, warnings: list[InputWarning]) -> list[GroupStatus]:
    """Return the groups of the status; what is wrong with it is added to `warnings`."""
    for config_map in snapshot.config_maps:
        if config_map.metadata.name == CONFIG_MAP:
            try:
                return list(_parsed(config_map.data.status))
            except (ValueError, TypeError) as error:
                message = f"the status of the cluster-autoscaler cannot be read: {error}"[:500]
                warnings.append(InputWarning("AutoscalerStatus", f"ConfigMap/{config_map.metadata.key}", message))
    return []


def yaml_of(text: str, name: str) -> Any:
    """Return the YAML that a ConfigMap of a name holds; raises ValueError for anything else."""
    try:
        documents = list(read_yaml(text.encode(), name))
    except YamlProblem as error:
        raise ValueError(str(error)) from None
    return documents[0].value() if documents else None


def _parsed(text: str) -> Iterator[GroupStatus]:
    content = yaml_of(text, CONFIG_MAP)
    groups = content.get("nodeGroups") if isinstance(content, Mapping) else None
    if not isinstance(groups, list):
        raise TypeError("it lists no nodeGroups")
    for group in groups:
        if isinstance(group, Mapping) and isinstance(group.get("name"), str):
            yield _group(group)


def _group(group: Mapping[str, Any]) -> GroupStatus:
    health, scale_up = _part(group, "health"), _part(group, "scaleUp")
    registered = _part(_part(health, "nodeCounts"), "registered")
    target, n_registered = _number(health, "cloudProviderTarget"), _number(registered, "total")
    since = scale_up.get("lastTransitionTime")
    is_growing = scale_up.get("status") == "InProgress"
    return GroupStatus(
        name=str(group["name"])[:500],
        least=_number(health, "minSize"),
        most=_number(health, "maxSize"),
        target=target,
        n_registered=n_registered,
        n_missing=max(target - _number(registered, "ready") - _number(_part(registered, "unready"), "total"), 0),
        is_backed_off=scale_up.get("status") == "Backoff",
        scales_up_since=_moment(since) if is_growing else None,
    )


def _part(whole: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    part = whole.get(name)
    return part if isinstance(part, Mapping) else {}


def _number(part: Mapping[str, Any], name: str) -> int:
    number = part.get(name, 0)
    return number if isinstance(number, int) and not isinstance(number, bool) and 0 <= number < _MOST_SIZE else 0


def _moment(text: object) -> int | None:
    try:
        return to_micros(str(text))
    except ValueError:
        return None


_KARPENTER = "karpenter.sh/nodepool"
_POOL_LABELS = (
    ("cloud.google.com/gke-nodepool", "gce"),
    ("eks.amazonaws.com/nodegroup", "aws"),
    ("alpha.eksctl.io/nodegroup-name", "aws"),
    ("kubernetes.azure.com/agentpool", "azure"),
    ("agentpool", "azure"),
    ("kops.k8s.io/instancegroup", ""),
)
"""Label -> the cloud whose pools it names; the first that a node has counts."""

_BY_ZONE = "gce"
"""A pool of this cloud has a group a zone."""

_PROVIDERS = {"aws": "aws", "gce": "gce", "azure": "azure"}


class Pool(msgspec.Struct):
    """Nodes that are scaled together, as far as labels tell."""

    name: str
    zone: str  #: empty where the group spans zones
    cloud: str
    nodes: list[str] = []

    @property
    def label(self) -> str:
        return f"{self.name}-{self.zone}" if self.zone else self.name


def pools_of(nodes: Iterable[Node]) -> list[Pool]:
    """Return the pools that the labels of nodes name, in the order of their first nodes."""
    pools: dict[tuple[str, str], Pool] = {}
    for node in nodes:
        labels = node.metadata.labels
        if _KARPENTER in labels:
            continue
        for label, cloud in _POOL_LABELS:
            name = labels.get(label)
            if name:
                zone = labels.get(ZONE) or labels.get(BETA_ZONE, "") if cloud == _BY_ZONE else ""
                pool = pools.setdefault((name, zone), Pool(name, zone, cloud or cloud_of(node)))
                pool.nodes.append(node.metadata.name)
                break
    return list(pools.values())


def pool_names(node: Node) -> set[str]:
    return {node.metadata.labels[label] for label, _ in _POOL_LABELS if label in node.metadata.labels}


def cloud_of(node: Node) -> str:
    """Return the cloud-provider flag that goes with a node; empty if unknown."""
    scheme = node.spec.provider_id.partition("://")[0]
    return _PROVIDERS.get(scheme, "")


def matched(pools: Sequence[Pool], statuses: Sequence[GroupStatus]) -> dict[int, GroupStatus]:
    """Return which group of the status each pool is, by the pool's index.

    The status has the cloud's names, such as ``…/zones/europe-west1-b/instanceGroups/gke-prod-general-1a2b-grp`` or
    ``eks-general-0ac3…``, which hold that of the pool. Where several fit, the number of nodes decides.
    """
    result: dict[int, GroupStatus] = {}
    left = list(statuses)
    by_length = sorted(range(len(pools)), key=lambda index: -len(pools[index].name))
    for index in by_length:
        pool = pools[index]
        fitting = [status for status in left if status.name == pool.name]
        fitting = fitting or [status for status in left if _names(status.name, pool)]
        if len(fitting) > 1:
            fitting = [status for status in fitting if status.n_registered == len(pool.nodes)] or fitting
        if len(fitting) == 1:
            result[index] = fitting[0]
            left.remove(fitting[0])
    return result


def _names(name: str, pool: Pool) -> bool:
    """Return whether the cloud's name of a group holds that of a pool, and its zone, as whole words."""
    zone, _, group = name.rpartition("/instanceGroups/") if "/instanceGroups/" in name else ("", "", name)
    if pool.zone and zone and not zone.endswith(f"/{pool.zone}"):
        return False
    return re.search(rf"(?<![A-Za-z0-9]){re.escape(pool.name)}(?![A-Za-z0-9])", group.rpartition("/")[2]) is not None


def sizes_by_flag(values: Iterable[str]) -> Mapping[str, tuple[int, int]]:
    """Return the minimum and maximum size of each group of ``--nodes=MIN:MAX:NAME``."""
    sizes: dict[str, tuple[int, int]] = {}
    for value in values:
        least, _, rest = value.partition(":")
        most, _, name = rest.partition(":")
        if least.isdecimal() and most.isdecimal() and name and len(least) + len(most) <= 12:
            sizes[name] = int(least), int(most)
    return sizes


_IMAGE = "cluster-autoscaler"
_LISTS = frozenset(
    {
        "nodes",
        "gpu-total",
        "node-group-auto-discovery",
        "balancing-ignore-label",
        "balancing-label",
        "startup-taint",
        "status-taint",
        "ignore-taint",
        "startup-taint-prefix",
        "bypassed-scheduler-names",
        "allowed-scheduler-names",
    }
)
"""Flags that may be given several times."""

_MOST_FLAGS = 1_000


class CommandLine(msgspec.Struct, frozen=True):
    """The flags of the autoscaler's Deployment."""

    source: str  #: the Deployment
    flags: Mapping[str, Any]

    def listed(self, flag: str) -> list[str]:
        """Return the values of a flag that may be given several times."""
        values = self.flags.get(flag, [])
        return [str(value) for value in values] if isinstance(values, list) else [str(values)]


class _Container(msgspec.Struct):
    image: str = ""
    command: list[str] = []
    args: list[str] = []


def command_line_of(snapshot: Snapshot) -> CommandLine | None:
    """Return the flags of the cluster's autoscaler; None where no Deployment of it is known with its command line."""
    for deployment in snapshot.deployments:
        if not any(_IMAGE in container.image for container in deployment.spec.template.spec.containers):
            continue
        name = f"Deployment/{deployment.metadata.key}"
        content = snapshot.whole.get(name)
        if content is None:
            continue
        for container in _containers(content):
            if _IMAGE in container.image:
                return CommandLine(name, _flags([*container.command, *container.args]))
    return None


def _containers(content: msgspec.Raw | Mapping[str, Any]) -> list[_Container]:
    try:
        whole = msgspec.json.decode(content) if isinstance(content, msgspec.Raw) else content
        return msgspec.convert(whole["spec"]["template"]["spec"]["containers"], list[_Container])
    except (msgspec.MsgspecError, RecursionError, KeyError, TypeError):
        return []


def _flags(words: Iterable[str]) -> dict[str, Any]:
    """Return the flags of a command line; those without a value are true."""
    flags: dict[str, Any] = {}
    for name, value in _pairs(list(words)[:_MOST_FLAGS]):
        if name in _LISTS:
            flags.setdefault(name, []).append(value)
        else:
            flags[name] = value
    return flags


def _pairs(words: list[str]) -> Iterator[tuple[str, str]]:
    for position, word in enumerate(words):
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        following = words[position + 1] if position + 1 < len(words) else "-"
        if equals:
            yield name, value.strip("\"'")
        elif following.startswith("-"):
            yield name, "true"
        else:
            yield name, following
