"""The groups of Cluster API: deployments, sets and pools of machines with annotations for their sizes.

Upstream: cluster-autoscaler cloudprovider/clusterapi.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from kplan.api.affinity import Taint
from kplan.api.core import Node, NodeMeta, NodeSpec, NodeStatus
from kplan.api.labels import ARCH, OS
from kplan.api.meta import controller_of
from kplan.api.provisioning import Machine, MachineSet, Scalable
from kplan.api.quantity import InvalidQuantity, grouped, parse
from kplan.autoscaling.cluster_autoscaler.groups import NodeGroup
from kplan.autoscaling.cluster_autoscaler.options import Options
from kplan.facts import InputWarning
from kplan.snapshot.model import Snapshot

_MOST_DIGITS = 6


def machine_groups(snapshot: Snapshot, options: Options, warnings: list[InputWarning]) -> Iterator[NodeGroup]:
    """Yield the groups of machines that have sizes; what is wrong with them is added to `warnings`."""
    sets = {(one.metadata.namespace, one.metadata.name): one for one in snapshot.machine_sets}
    by_name = {machine.metadata.name: machine for machine in snapshot.machines}
    by_node = {
        machine.status.node_ref.name: machine for machine in snapshot.machines if machine.status.node_ref is not None
    }
    named = ((node.metadata.name, node.metadata.annotations.machine) for node in snapshot.nodes)
    machines = ((name, by_name.get(annotated) or by_node.get(name)) for name, annotated in named)
    nodes_of = grouped((owner, name) for name, one in machines if one is not None for owner in _owners(one, sets))
    for scalable in (*snapshot.machine_deployments, *snapshot.machine_sets, *snapshot.machine_pools):
        annotations = scalable.metadata.annotations
        if not (annotations.min_size and annotations.max_size):
            continue
        name = f"{scalable.kind}/{scalable.metadata.namespace}/{scalable.metadata.name}"
        least, most = _size(annotations.min_size), _size(annotations.max_size)
        if least is None or most is None:
            message = f"sizes {annotations.min_size!r} and {annotations.max_size!r} are no numbers"
            warnings.append(InputWarning("NodeGroup", name, message[:300]))
            continue
        nodes = tuple(nodes_of.get((scalable.kind, scalable.metadata.namespace, scalable.metadata.name), ()))
        target = len(nodes) if scalable.spec.replicas is None else max(scalable.spec.replicas, 0)
        template = _template(scalable, name, warnings)
        yield NodeGroup(
            name=name, least=least, most=most, target=target, nodes=nodes, template=template, options=options
        )


def _size(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def _owners(machine: Machine, sets: Mapping[tuple[str, str], MachineSet]) -> Iterator[tuple[str, str, str]]:
    """Yield the set or pool that a machine belongs to, and the deployment that the set belongs to."""
    namespace = machine.metadata.namespace
    owner = controller_of(machine.metadata) or next(iter(machine.metadata.owner_references), None)
    if owner is None:
        return
    yield owner.kind, namespace, owner.name
    machine_set = sets.get((namespace, owner.name)) if owner.kind == "MachineSet" else None
    above = None if machine_set is None else controller_of(machine_set.metadata)
    if above is not None:
        yield above.kind, namespace, above.name


def _template(scalable: Scalable, name: str, warnings: list[InputWarning]) -> Node | None:
    """Return a node as the annotations about capacity describe it; None without them."""
    held = scalable.metadata.annotations
    if not (held.cpu and held.memory):
        return None
    amounts: dict[str, str | int | float] = {"cpu": held.cpu, "memory": held.memory, "pods": held.max_pods or "110"}
    if held.ephemeral_disk:
        amounts["ephemeral-storage"] = held.ephemeral_disk
    if held.gpu_count:
        amounts[held.gpu_type or "nvidia.com/gpu"] = held.gpu_count
    try:
        for amount in amounts.values():
            parse(amount)
    except InvalidQuantity as error:
        message = f"the annotations about its capacity cannot be read: {error}"[:300]
        warnings.append(InputWarning("NodeGroup", name, message))
        return None
    labels = {
        ARCH: "amd64",
        OS: "linux",
        **scalable.spec.template.metadata.labels,
        **dict(text.strip().split("=", 1) for text in held.labels.split(",") if "=" in text),
    }
    return Node(
        metadata=NodeMeta(name=scalable.metadata.name, labels=labels),
        spec=NodeSpec(taints=tuple(_taints(held.taints))),
        status=NodeStatus(capacity=amounts, allocatable=amounts),
    )


def _taints(text: str) -> Iterator[Taint]:
    for entry in filter(None, map(str.strip, text.split(","))):
        pair, _, effect = entry.rpartition(":")
        key, _, value = pair.partition("=")
        if key and effect:
            yield Taint(key=key, value=value, effect=effect)
