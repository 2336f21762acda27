"""How structs are redacted whose fields depend on each other: references by their kind, values by their key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kplan.api import core, karpenter, meta, resource, resource_slice
from kplan.api.affinity import NodeSelectorRequirement, NodeSelectorTerm, TopologySelectorLabelRequirement
from kplan.api.autoscaling import CrossVersionObjectReference
from kplan.api.tolerations import Taint, Toleration
from kplan.snapshot.redact_words import Words


def _owner(words: Words, owner: meta.OwnerReference) -> dict[str, Any]:
    return {"name": words.name(owner.kind, owner.name), "uid": words.uid(owner.uid)}


def _node_class(words: Words, reference: karpenter.NodeClassReference) -> dict[str, Any]:
    return {"name": words.name(reference.kind, reference.name)}


def _scaled(words: Words, target: CrossVersionObjectReference) -> dict[str, Any]:
    return {"name": words.name(target.kind, target.name)}


def _reference(words: Words, reference: meta.TypedObjectReference) -> dict[str, Any]:
    # A volume's claimRef may leave its kind out.
    kind = reference.kind or "PersistentVolumeClaim"
    return {
        "name": words.name(kind, reference.name),
        "namespace": words.name("Namespace", reference.namespace),
        "uid": words.uid(reference.uid),
    }


def _consumer(words: Words, consumer: resource.ResourceClaimConsumerReference) -> dict[str, Any]:
    kind = "Pod" if consumer.resource == "pods" else consumer.resource
    return {"name": words.name(kind, consumer.name), "uid": words.uid(consumer.uid)}


def _keyed_values(words: Words, requirement: Any) -> dict[str, Any]:
    if requirement.operator in {"Gt", "Lt", "Gte", "Lte"}:
        words.note_comparison(requirement.key)
    return {"values": tuple(words.value(requirement.key, value) for value in requirement.values)}


def _topology_values(words: Words, requirement: TopologySelectorLabelRequirement) -> dict[str, Any]:
    return {"values": tuple(words.value(requirement.key, value) for value in requirement.values)}


def _keyed_value(words: Words, holder: Any) -> dict[str, Any]:
    if getattr(holder, "operator", "") in {"Gt", "Lt"}:
        words.note_comparison(holder.key)
    return {"value": words.value(holder.key, holder.value)}


def _node_term(words: Words, term: NodeSelectorTerm) -> dict[str, Any]:
    """Redact matchFields, which are names of nodes; expressions over labels have their own rule."""
    return {
        "match_fields": tuple(
            NodeSelectorRequirement(
                key=field.key,
                operator=field.operator,
                values=tuple(words.name("Node", value) for value in field.values),
            )
            for field in term.match_fields
        )
    }


def _scoped_values(words: Words, requirement: core.ScopedResourceSelectorRequirement) -> dict[str, Any]:
    """Redact the values of a scope: classes by name; other scopes have none, so that theirs may be anything."""
    scope = requirement.scope_name
    if scope in {"PriorityClass", "VolumeAttributesClass"}:
        return {"values": tuple(words.name(scope, value) for value in requirement.values)}
    return {"values": tuple(words.value(scope, value) for value in requirement.values)}


class StructRule(NamedTuple):
    """The rule for fields that depend on each other: `change` returns the new contents of some of `fields`."""

    fields: frozenset[str]
    change: Callable[[Words, Any], dict[str, Any]]


_VALUE = frozenset({"value"})
_VALUES = frozenset({"values"})
_IDENTITY = frozenset({"name", "namespace", "uid"})

STRUCT_RULES: dict[type, StructRule] = {
    meta.OwnerReference: StructRule(_IDENTITY, _owner),
    CrossVersionObjectReference: StructRule(frozenset({"name"}), _scaled),
    meta.TypedObjectReference: StructRule(_IDENTITY, _reference),
    meta.LabelSelectorRequirement: StructRule(_VALUES, _keyed_values),
    resource.ResourceClaimConsumerReference: StructRule(_IDENTITY, _consumer),
    NodeSelectorRequirement: StructRule(_VALUES, _keyed_values),
    karpenter.NodeRequirement: StructRule(_VALUES, _keyed_values),
    karpenter.NodeClassReference: StructRule(frozenset({"name"}), _node_class),
    NodeSelectorTerm: StructRule(frozenset({"match_fields"}), _node_term),
    TopologySelectorLabelRequirement: StructRule(_VALUES, _topology_values),
    Taint: StructRule(_VALUE, _keyed_value),
    Toleration: StructRule(_VALUE, _keyed_value),
    resource_slice.DeviceTaint: StructRule(_VALUE, _keyed_value),
    resource.DeviceToleration: StructRule(_VALUE, _keyed_value),
    core.ScopedResourceSelectorRequirement: StructRule(_VALUES, _scoped_values),
}
