"""What a change of a pod is as a strategic merge patch of the template that it comes from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import to_builtins

from kplan.api.core import Container, Pod, PodSpec, PodTemplateSpec
from kplan.api.pod import ContainerPort, ResourceRequirements
from kplan.workloads.merging import DELETES, REPLACES


def patch_of(  # noqa: C901 - one case a field, in one place
    old: Pod, new: Pod, template: Pod | PodTemplateSpec
) -> dict[str, Any]:
    """Return the patch of a template's ``spec`` that changes its pods as one pod was changed.

    `template` is of the pod's workload, or the pod itself; it may lack what admission adds to pods.
    """
    patch: dict[str, Any] = {}
    before, after = old.spec, new.spec
    if containers := _containers(before.containers, after.containers):
        patch["containers"] = containers
    if containers := _containers(before.init_containers, after.init_containers):
        patch["initContainers"] = containers
    if after.resources != before.resources:
        patch["resources"] = _resources(before.resources, after.resources)
    if after.node_selector != before.node_selector:
        patch["nodeSelector"] = _difference(before.node_selector, after.node_selector)
    if after.tolerations != before.tolerations:
        patch["tolerations"] = _tolerations(before, after, template.spec)
    if after.affinity != before.affinity:
        patch["affinity"] = _with_nulls(to_builtins(template.spec.affinity), to_builtins(after.affinity))
    if after.topology_spread_constraints != before.topology_spread_constraints:
        patch["topologySpreadConstraints"] = [
            *_removed(before, after),
            *(to_builtins(constraint) for constraint in after.topology_spread_constraints),
        ]
    if after.scheduler_name != before.scheduler_name:
        patch["schedulerName"] = after.scheduler_name
    if after.priority_class_name != before.priority_class_name:  # the API server sets the number anew
        patch |= {"priorityClassName": after.priority_class_name, "priority": None}
    claims = [
        {"name": new.name, "persistentVolumeClaim": {"claimName": new.persistent_volume_claim.claim_name}}
        for former, new in zip(before.volumes, after.volumes, strict=True)
        if new != former and new.persistent_volume_claim is not None
    ]
    if claims:
        patch["volumes"] = claims
    return patch


def _containers(before: tuple[Container, ...], after: tuple[Container, ...]) -> list[dict[str, Any]]:
    changes = []
    for old, new in zip(before, after, strict=True):
        change: dict[str, Any] = {}
        if old.resources != new.resources:
            change["resources"] = _resources(old.resources, new.resources)
        if ports := _ports(old.ports, new.ports):
            change["ports"] = ports
        changes += [{"name": new.name, **change}] if change else []
    return changes


def _ports(before: Sequence[ContainerPort], after: Sequence[ContainerPort]) -> list[dict[str, Any]]:
    """Return what takes ports of the node away; all ports where two have one number, which alone tells them apart.

    Upstream: patchMergeKey of Container.Ports in k8s.io/api/core/v1/types.go.
    """
    freed = [port for port, new in zip(before, after, strict=True) if port != new]
    numbers = [port.container_port for port in before]
    if any(numbers.count(port.container_port) > 1 for port in freed):
        return [REPLACES, *map(to_builtins, after)]
    return [
        {"containerPort": port.container_port, "protocol": port.protocol or "TCP", "hostPort": None}
        | ({"hostIP": None} if port.host_ip else {})
        for port in freed
    ]


def _resources(before: ResourceRequirements | None, after: ResourceRequirements | None) -> dict[str, Any]:
    sides = {name: (getattr(before, name, {}), getattr(after, name, {})) for name in ("requests", "limits")}
    return {name: _difference(old, new) for name, (old, new) in sides.items() if old != new}


def _difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a merge patch says to turn one map into another: null for what is removed."""
    changed: dict[str, Any] = {key: None for key in before if key not in after}
    return changed | {key: to_builtins(value) for key, value in after.items() if before.get(key) != value}


def _tolerations(before: PodSpec, after: PodSpec, template: PodSpec) -> list[Any]:
    gone = [toleration for toleration in before.tolerations if toleration not in after.tolerations]
    added = [toleration for toleration in after.tolerations if toleration not in before.tolerations]
    remaining = [toleration for toleration in template.tolerations if toleration not in gone]
    return [to_builtins(toleration) for toleration in (*remaining, *added)]


def _removed(before: PodSpec, after: PodSpec) -> list[dict[str, Any]]:
    """Return what deletes the spread constraints that are no more; their key is topologyKey and whenUnsatisfiable."""
    remaining = {(one.topology_key, one.when_unsatisfiable) for one in after.topology_spread_constraints}
    return [
        DELETES | {"topologyKey": one.topology_key, "whenUnsatisfiable": one.when_unsatisfiable}
        for one in before.topology_spread_constraints
        if (one.topology_key, one.when_unsatisfiable) not in remaining
    ]


def _with_nulls(before: Any, after: Any) -> Any:
    if not isinstance(before, Mapping) or not isinstance(after, Mapping):
        return after
    gone: dict[str, Any] = {key: None for key in before if key not in after}
    return gone | {key: _with_nulls(before.get(key), value) for key, value in after.items()}
