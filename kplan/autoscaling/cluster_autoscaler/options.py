"""The flags of the cluster-autoscaler that its decisions depend on. Upstream: config/flags/flags.go."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from kplan.api.time import parse_duration
from kplan.errors import UsageError
from kplan.facts import InputWarning
from kplan.reading.yaml import YamlProblem, read_yaml

_MICROS = 1_000_000
_MINUTE = 60 * _MICROS
GIB = 1024**3
_MOST = 2**53
_MOST_ITEMS = 10_000

Micros = int  #: a duration in microseconds

EXPANDERS = ("random", "most-pods", "least-waste", "price", "priority", "least-nodes")


class Limit(msgspec.Struct, frozen=True):
    """How much of a resource all nodes together may have."""

    resource: str
    least: int
    most: int


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The flags by their names, with their defaults."""

    cloud_provider: str = ""
    scan_interval: Micros = 10 * _MICROS
    expander: tuple[str, ...] = ("least-waste",)
    max_nodes_total: int = 0
    max_nodes_per_scaleup: int = 1000
    #: a CapacityQuota counts once it is valid, which only an autoscaler with this flag finds out
    capacity_quotas_enabled: bool = True
    cores_total: Limit = Limit("cpu", 0, 320_000)
    memory_total: Limit = Limit("memory", 0, 6_400_000 * GIB)
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
    new_pod_scale_up_delay: Micros = 0
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
    max_node_provision_time: Micros = 15 * _MINUTE
    max_node_startup_time: Micros = 15 * _MINUTE
    initial_node_group_backoff_duration: Micros = 5 * _MINUTE
    max_node_group_backoff_duration: Micros = 30 * _MINUTE
    node_group_backoff_reset_timeout: Micros = 180 * _MINUTE
    node_info_cache_expire_time: Micros = 87600 * 60 * _MINUTE
    scale_down_unready_enabled: bool = True
    scale_down_delay_after_add: Micros = 10 * _MINUTE
    scale_down_delay_after_delete: Micros = 0
    scale_down_delay_after_failure: Micros = 3 * _MINUTE
    scale_down_delay_type_local: bool = False
    scale_down_unneeded_time: Micros = 10 * _MINUTE
    scale_down_unready_time: Micros = 20 * _MINUTE
    scale_down_utilization_threshold: float = 0.5
    scale_down_gpu_utilization_threshold: float = 0.5
    ignore_daemonsets_utilization: bool = False
    ignore_mirror_pods_utilization: bool = False
    unremovable_node_recheck_timeout: Micros = 5 * _MINUTE
    max_pod_eviction_time: Micros = 2 * _MINUTE
    max_graceful_termination_sec: int = 600
    node_delete_delay_after_taint: Micros = 5 * _MICROS
    max_scale_down_parallelism: int = 10
    max_drain_parallelism: int = 1
    max_bulk_soft_taint_count: int = 10
    skip_nodes_with_system_pods: bool = True
    skip_nodes_with_local_storage: bool = True
    skip_nodes_with_custom_controller_pods: bool = True
    min_replica_count: int = 0
    blocking_system_pod_distruption_timeout: Micros = 60 * _MINUTE
    zero_or_max_node_scaling: bool = False  #: only of a group
    #: only of a group: machines of it that fail do not take the others with them
    allow_non_atomic_scale_up_to_max: bool = False


_ONLY_OF_GROUPS = ("zero-or-max-node-scaling", "allow-non-atomic-scale-up-to-max")
#: Flags that a node group may have of its own.
OF_GROUPS = frozenset(
    {
        *_ONLY_OF_GROUPS,
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
    add-dir-header address alsologtostderr aws-use-static-instance-list cloud-config
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
    """Read flags, without dashes, `of_group` those that a group may have of its own.

    Returns values of fields of `Options`, and the flags that kplan does not follow. Raises UsageError for a value that
    a flag cannot have.
    """
    values: dict[str, Any] = {}
    passed_over: list[str] = []
    for flag, value in given_options.items():
        field = flag.replace("-", "_")
        if flag == "scale-down-delay-after-delete" and value in ("", None):
            continue
        if field not in _READERS or (of_group and flag not in OF_GROUPS) or (flag in _ONLY_OF_GROUPS and not of_group):
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
    known = [field.replace("_", "-") for field in _READERS]
    warnings = []
    for flag in passed_over:
        near = difflib.get_close_matches(flag, known, n=1, cutoff=0.85)
        hint = f"; did you mean --{near[0]}?" if near else ""
        warnings.append(InputWarning("AutoscalerOption", f"--{flag}"[:200], f"kplan does not follow this flag{hint}"))
    return Options(**values), warnings


def _bool(value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "t", "1", "false", "f", "0"):
        raise ValueError("not true or false")
    return text in ("true", "t", "1")


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


def _limit(resource: str, value: Any, *, scale: int = 1, form: str = "MIN:MAX") -> Limit:
    least, colon, most = str(value).partition(":")
    if not colon:
        raise ValueError(f"not {form}")
    return Limit(resource, _int(least) * scale, _int(most) * scale)


def _gpus(value: Any) -> tuple[Limit, ...]:
    kinds = (text.partition(":") for text in _texts(value))
    return tuple(_limit(kind, span, form="TYPE:MIN:MAX") for kind, _, span in kinds)


_BY_TYPE: Mapping[str, Callable[[Any], Any]] = {
    "str": str,
    "bool": _bool,
    "int": _int,
    "Micros": _duration,
    "float": _float,
    "tuple[str, ...]": _texts,
}

_OWN_READERS: Mapping[str, Callable[[Any], Any]] = {
    "expander": _expanders,
    "cores_total": partial(_limit, "cpu"),
    "memory_total": partial(_limit, "memory", scale=GIB),
    "gpu_total": _gpus,
}

_READERS: Mapping[str, Callable[[Any], Any]] = {
    name: _OWN_READERS.get(name) or _BY_TYPE[kind] for name, kind in Options.__annotations__.items()
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


def yaml_of(text: str, name: str) -> Any:
    """Return the YAML that a ConfigMap of a name holds; raises ValueError for anything else."""
    try:
        documents = list(read_yaml(text.encode(), name))
    except YamlProblem as error:
        raise ValueError(str(error)) from None
    return documents[0].value() if documents else None
