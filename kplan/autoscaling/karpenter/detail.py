"""What Karpenter decides as JSON, in its own terms: NodeClaims, messages, and what each method of disruption does."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kplan.api.affinity import Taint
from kplan.api.core import Pod
from kplan.api.labels import HOSTNAME, INSTANCE_TYPE, ZONE
from kplan.api.provisioning import DRIFTED, NEVER
from kplan.api.quantity import grouped
from kplan.api.time import format_duration, parse_duration
from kplan.autoscaling.karpenter.amounts import texts_of
from kplan.autoscaling.karpenter.candidates import CONSOLIDATABLE, ClaimState
from kplan.autoscaling.karpenter.commands import Scaling, scale_static_pools
from kplan.autoscaling.karpenter.devices import Held, device_name
from kplan.autoscaling.karpenter.disruption import MethodResult
from kplan.autoscaling.karpenter.instance_types import EnlargedType
from kplan.autoscaling.karpenter.planned import Planned, labels_of
from kplan.autoscaling.karpenter.prepared import Prepared, exceeded_limit
from kplan.autoscaling.karpenter.requirements import (
    CAPACITY_TYPE,
    RESERVATION_IDS,
    Requirement,
    Requirements,
    Vocabulary,
)
from kplan.autoscaling.seam import rounded

FAILED = "Failed to schedule pod, "
_FILTERED = "NodePool requirements filtered out all compatible available instance types"
_LACKING = f"{_FILTERED} due to minValues incompatibility"


def detail_of(
    prepared: Prepared, conditions: Mapping[str, ClaimState], outcomes: Mapping[str, MethodResult]
) -> dict[str, Any]:
    return {
        "version": prepared.release.name,
        "provisioning": provisioning_answer(prepared),
        "disruption": _disruption(conditions, outcomes),
    }


def provisioning_answer(prepared: Prepared) -> dict[str, Any]:
    provisioned = prepared.provisioned
    claims = [
        _node_claim(node) | ({"createError": problem} if problem else {})
        for node in provisioned.nodes
        for problem in (exceeded_limit(prepared, node.template.name),)
    ]
    answer: dict[str, Any] = {
        "nodeClaims": sorted(claims, key=lambda claim: sorted(claim["pods"])),
        "existing": _keys_by_node(provisioned.existing),
        "errors": {pod: prepared.texts.of_pools(refused) for pod, refused in provisioned.errors.items()},
    }
    if rejected := ignored(prepared):
        answer["ignored"] = rejected
    events = {
        template.name: [_LACKING if template.lacks_min_values else _FILTERED]
        for template in prepared.all_templates
        if not template.types
    }
    if events and (provisioned.nodes or provisioned.existing or provisioned.errors):
        answer["nodePoolEvents"] = events
    if prepared.overlaid.statuses:
        answer["overlays"] = dict(prepared.overlaid.statuses)
    if provisioned.devices is not None:
        held = sorted(provisioned.devices.held.items())
        answer["resourceClaims"] = {"/".join(key): _devices_of(own) for key, own in held}
    if prepared.buffers:
        answer["buffers"] = {
            buffer.key: {"ReadyForProvisioning": buffer.condition}
            | ({} if buffer.replicas is None else {"replicas": buffer.replicas})
            for buffer in prepared.buffers
        }
    if prepared.options.static:
        answer["static"] = {name: _scaled(scaling, prepared) for name, scaling in scale_static_pools(prepared).items()}
    return answer


def _devices_of(held: Held) -> dict[str, Any]:
    devices = {name: [device_name(one.device) for one in own] for name, own in sorted(held.devices.items())}
    return {"devices": devices, "template": held.is_potential}


def _scaled(scaling: Scaling, prepared: Prepared) -> dict[str, Any]:
    if not scaling.create:
        return {"create": 0, "delete": list(scaling.delete) or None}
    wanted = prepared.static_node(scaling.pool).requirements
    requirements = _requirement_list(wanted, prepared.known, hides_types=False)
    return {"create": scaling.create, "requirements": requirements}


def _disruption(conditions: Mapping[str, ClaimState], outcomes: Mapping[str, MethodResult]) -> dict[str, Any]:
    return {
        "conditions": {
            name: ({CONSOLIDATABLE: "True"} if state.is_consolidatable else {})
            | ({} if state.drift is None else {DRIFTED: f"True {state.drift}".strip()})
            for name, state in sorted(conditions.items())
        },
        "first": next((name for name, outcome in outcomes.items() if outcome.commands), ""),
        "methods": {
            name: {
                "candidates": [{"node": one.name, "cost": rounded(one.cost)} for one in outcome.candidates],
                "budgets": dict(outcome.budgets),
                "commands": [
                    {
                        "decision": command.decision,
                        "candidates": [candidate.name for candidate in command.candidates],
                        "replacements": [_node_claim(node) for node in command.replacements],
                        "existing": _keys_by_node(command.existing),
                    }
                    | ({"savings": rounded(command.savings)} if command.consolidates else {})
                    for command in outcome.commands
                ],
                "events": grouped((one.target, f"{one.reason}: {one.message}") for one in outcome.events.list),
            }
            for name, outcome in outcomes.items()
        },
    }


def _keys_by_node(pods: Mapping[str, Iterable[Pod]]) -> dict[str, list[str]]:
    return {node: [pod.metadata.key for pod in own] for node, own in pods.items()}


def ignored(prepared: Prepared) -> dict[str, str]:
    """Return what Karpenter writes about pods that it does not look at."""
    return {pod: FAILED + "; ".join(problems) for pod, problems in prepared.rejected.items() if problems}


_KWOK_LABELS = {"kwok-partition": "a", "kwok.x-k8s.io/node": "fake"}


def _node_claim(node: Planned) -> dict[str, Any]:
    template, spec = node.template, node.template.pool.spec.template
    known = template.columns.vocabulary
    claim: dict[str, Any] = {
        "nodePool": template.name,
        "pods": list(node.pods),
        "requirements": _requirement_list(node.claim_requirements, known, hides_types=not node.is_static),
        "instanceTypes": list(node.launch_order),
        "requests": texts_of(node.requests),
        "labels": node.labels,
        "annotations": {**spec.metadata.annotations, **_annotations(node)},
    }
    if template.taints:
        claim["taints"] = [_taint(taint) for taint in template.taints]
    if spec.spec.startup_taints:
        claim["startupTaints"] = [_taint(taint) for taint in spec.spec.startup_taints]
    if spec.spec.expire_after not in (None, NEVER):
        claim["expireAfter"] = _duration(spec.spec.expire_after or "")
    if spec.spec.termination_grace_period is not None:
        claim["terminationGracePeriod"] = _duration(spec.spec.termination_grace_period)
    if not node.is_static:
        if cheapest := node.cheapest:
            choices = sorted(f"{entry.name} {offering.choice}" for entry, offering in cheapest)
            claim["cheapest"] = {"price": rounded(cheapest[0][1].price), "choices": choices}
        claim["launch"] = _launch(node)
    return claim


def _launch(node: Planned) -> dict[str, Any]:
    """Return the machine that the kwok provider makes, with the labels that it gives to it."""
    launch = node.launch
    if launch is None:
        return {"error": "panic: runtime error: invalid memory address or nil pointer dereference"}
    instance_type, offerings = launch
    settled = (wanted for wanted in node.claim_requirements.items.values() if not wanted.is_complement)
    known = node.template.columns.vocabulary
    single = {wanted.key: known.one(wanted) for wanted in settled if wanted.values.bit_count() == 1}
    price = {"eks-node-viewer/instance-price": f"{offerings[0].price:f}"}
    labels = node.labels | single | labels_of(instance_type, offerings[0]) | price | _KWOK_LABELS
    hidden = {HOSTNAME, ZONE, CAPACITY_TYPE, *RESERVATION_IDS}
    return {
        "instanceType": instance_type.name,
        "price": rounded(offerings[0].price),
        "choices": sorted(offering.choice for offering in offerings),
        "labels": {key: value for key, value in labels.items() if key not in hidden},
        "capacity": texts_of(node.requests),
        "allocatable": texts_of({**node.requests, **instance_type.allocatable}),
    }


def _annotations(node: Planned) -> dict[str, str]:
    types = [node.template.columns.types[index] for index in node.types]
    has_price = any(offering.is_price_overlaid for entry in types for offering in entry.offerings)
    has_capacity = any(isinstance(entry, EnlargedType) for entry in types)
    annotations = {
        "nodeclaim-min-values-relaxed": "" if node.is_static else "true" if node.is_relaxed else "false",
        "requested-dra-drivers": ",".join(node.drivers),
        "price-overlay-applied": "true" if has_price else "",
        "capacity-overlay-applied": "true" if has_capacity else "",
    }
    return {f"karpenter.sh/{name}": text for name, text in annotations.items() if text}


def _requirement_list(requirements: Requirements, known: Vocabulary, *, hides_types: bool) -> list[dict[str, Any]]:
    """Return requirements as in a NodeClaim, by key and operator."""
    lines = [line for wanted in requirements.items.values() for line in _lines(wanted, known)]
    for line in lines:
        if hides_types and line["key"] == INSTANCE_TYPE:
            line.pop("values", None)
    return sorted(lines, key=lambda line: (line["key"], line["operator"]))


def _lines(wanted: Requirement, known: Vocabulary) -> Iterable[dict[str, Any]]:
    bounds = [(operator, bound) for operator, bound in (("Gte", wanted.gte), ("Lte", wanted.lte)) if bound is not None]
    shared = {} if wanted.min_values is None else {"minValues": wanted.min_values}
    if bounds:
        return [{"key": wanted.key, "operator": name, "values": [str(bound)], **shared} for name, bound in bounds]
    values = known.texts(wanted.key, wanted.values)
    listed = {"values": values} if values else {}
    return [{"key": wanted.key, "operator": wanted.operator, **listed, **shared}]


def _taint(taint: Taint) -> dict[str, str]:
    return {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})


def _duration(text: str) -> str:
    nanoseconds = parse_duration(text)
    return text if nanoseconds is None else format_duration(nanoseconds)
