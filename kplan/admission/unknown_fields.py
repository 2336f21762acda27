"""Fields of a manifest that Kubernetes does not know; misspelt ones above all, which it would drop or refuse.

kplan's structs hold only what scheduling reads, so the names of the other fields are listed here for the structs in
which misspellings would change where a pod lands. Where a struct is not listed, every unmodelled field passes.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any

import msgspec
from msgspec import inspect

from kplan.api import affinity, apps, batch, core, meta, pod, tolerations
from kplan.errors import Problem

__all__ = ["unknown_fields"]


def unknown_fields(
    value: Any,
    struct: type[msgspec.Struct],
    path: str = "$",
) -> Iterator[Problem]:
    """Yield the fields that neither `struct` nor Kubernetes knows, with the name that was probably meant."""
    if not isinstance(value, Mapping):
        return
    known, others = _fields(struct), _OTHER_FIELDS.get(struct)
    for name, item in value.items():
        field = known.get(name)
        if field is not None:
            yield from _below(item, field, f"{path}.{name}")
        elif others is not None and name not in others:
            near = difflib.get_close_matches(str(name), [*known, *others], n=1)
            hint = f"did you mean {near[0]}?" if near else ""
            yield Problem(f'unknown field "{name}"', json_path=f"{path}.{name}", hint=hint)


def _below(value: Any, type_info: inspect.Type, path: str) -> Iterator[Problem]:
    for kind in type_info.types if isinstance(type_info, inspect.UnionType) else (type_info,):
        if isinstance(kind, inspect.StructType):
            yield from unknown_fields(value, kind.cls, path)
        elif isinstance(kind, inspect.VarTupleType) and isinstance(value, list | tuple):
            for index, item in enumerate(value):
                yield from _below(item, kind.item_type, f"{path}[{index}]")


@lru_cache(maxsize=256)
def _fields(struct: type[msgspec.Struct]) -> Mapping[str, inspect.Type]:
    info = inspect.type_info(struct)
    assert isinstance(info, inspect.StructType)  # noqa: S101 - by the argument's type
    return {field.encode_name: field.type for field in info.fields}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TYPE = _names("apiVersion kind")
_META = _names("annotations finalizers generation managedFields selfLink")
_NONE = _names("")

#: What Kubernetes has beside the modelled fields (v1.36).
_OTHER_FIELDS: dict[type[msgspec.Struct], frozenset[str]] = {
    **dict.fromkeys((core.Pod, core.PodTemplate, core.ReplicationController), _TYPE),
    **dict.fromkeys((apps.Deployment, apps.ReplicaSet, apps.StatefulSet, apps.DaemonSet), _TYPE),
    **dict.fromkeys((batch.Job, batch.CronJob), _TYPE),
    **dict.fromkeys((meta.PlainMeta, meta.ObjectMeta, pod.PodMeta, apps.ReplicaSetMeta), _META),
    **dict.fromkeys(
        (core.ContainerPort, core.ResourceRequirements, core.PodSchedulingGate, core.PodResourceClaim), _NONE
    ),
    **dict.fromkeys((core.PodTemplateSpec, batch.JobTemplateSpec, tolerations.Toleration), _NONE),
    **dict.fromkeys(
        (affinity.Affinity, affinity.NodeAffinity, affinity.NodeSelector, affinity.NodeSelectorTerm), _NONE
    ),
    **dict.fromkeys((affinity.NodeSelectorRequirement, affinity.PreferredSchedulingTerm), _NONE),
    **dict.fromkeys((affinity.PodAffinity, affinity.PodAntiAffinity, affinity.PodAffinityTerm), _NONE),
    **dict.fromkeys((affinity.WeightedPodAffinityTerm, affinity.TopologySpreadConstraint), _NONE),
    **dict.fromkeys((meta.LabelSelector, meta.LabelSelectorRequirement), _NONE),
    apps.StatefulSetUpdateStrategy: _NONE,
    apps.DaemonSetUpdateStrategy: _NONE,
    core.PodSpec: _names(
        """automountServiceAccountToken dnsConfig dnsPolicy enableServiceLinks ephemeralContainers hostAliases hostIPC
        hostPID hostname hostnameOverride imagePullSecrets readinessGates securityContext serviceAccount
        serviceAccountName setHostnameAsFQDN shareProcessNamespace subdomain workloadRef"""
    ),
    core.Container: _names(
        """args command env envFrom imagePullPolicy lifecycle livenessProbe readinessProbe securityContext startupProbe
        stdin stdinOnce terminationMessagePath terminationMessagePolicy tty volumeDevices volumeMounts workingDir"""
    ),
    core.ReplicationControllerSpec: _names("minReadySeconds"),
    apps.DeploymentSpec: _names("minReadySeconds progressDeadlineSeconds revisionHistoryLimit"),
    apps.ReplicaSetSpec: _names("minReadySeconds"),
    apps.StatefulSetSpec: _names("minReadySeconds persistentVolumeClaimRetentionPolicy revisionHistoryLimit"),
    apps.DaemonSetSpec: _names("minReadySeconds revisionHistoryLimit"),
    batch.JobSpec: _names(
        """activeDeadlineSeconds backoffLimitPerIndex managedBy maxFailedIndexes podFailurePolicy
        scheduling successPolicy ttlSecondsAfterFinished"""
    ),
    batch.CronJobSpec: _names("failedJobsHistoryLimit startingDeadlineSeconds successfulJobsHistoryLimit"),
}
