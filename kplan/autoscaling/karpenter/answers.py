"""Decisions in Karpenter's own terms: NodeClaims, requirements, events; as plain data.

Upstream: apis/v1/nodeclaim.go; scheduling/requirement.go NodeSelectorRequirement.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kplan.api.affinity import Taint
from kplan.api.labels import ZONE
from kplan.api.provisioning import NEVER
from kplan.api.time import format_duration, parse_duration
from kplan.autoscaling.karpenter.amounts import (
    CAPACITY_OVERLAID,
    CAPACITY_TYPE,
    DRA_DRIVERS,
    INSTANCE_TYPE,
    MIN_VALUES_RELAXED,
    PRICE_OVERLAID,
    RESERVATION_IDS,
    texts_of,
)
from kplan.autoscaling.karpenter.candidates import CONSOLIDATABLE, DRIFTED, ClaimState
from kplan.autoscaling.karpenter.commands import Command, Scaling, scale_static_pools
from kplan.autoscaling.karpenter.devices import device_name
from kplan.autoscaling.karpenter.disruption import MethodResult
from kplan.autoscaling.karpenter.planned import (
    CRASH,
    Planned,
    launch_labels,
    static_node,
)
from kplan.autoscaling.karpenter.prepared import Prepared, exceeded_limit
from kplan.autoscaling.karpenter.requirements import Requirement, Requirements, Vocabulary
from kplan.autoscaling.karpenter.texts import PoolRefusal, Texts

FAILED = "Failed to schedule pod, "
_FILTERED = "NodePool requirements filtered out all compatible available instance types"
_LACKING = f"{_FILTERED} due to minValues incompatibility"


def provisioning_answer(prepared: Prepared) -> dict[str, Any]:
    texts, provisioned = Texts(prepared.known), prepared.provisioned
    answer: dict[str, Any] = {
        "nodeClaims": sorted(
            (_created(node, prepared) for node in provisioned.nodes), key=lambda claim: sorted(claim["pods"])
        ),
        "existing": {node: [pod.metadata.key for pod in pods] for node, pods in provisioned.existing.items()},
        "errors": {pod: error_texts(refused, texts) for pod, refused in provisioned.errors.items()},
    }
    rejected = {pod: FAILED + "; ".join(problems) for pod, problems in prepared.rejected.items() if problems}
    if rejected:
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
        answer["resourceClaims"] = {
            "/".join(key): {
                "devices": {
                    name: [device_name(one.device) for one in own] for name, own in sorted(held.devices.items())
                },
                "template": held.is_potential,
            }
            for key, held in sorted(provisioned.devices.held.items())
        }
    if prepared.buffers:
        answer["buffers"] = {
            buffer.key: {"ReadyForProvisioning": buffer.condition}
            | ({} if buffer.replicas is None else {"replicas": buffer.replicas})
            for buffer in prepared.buffers
        }
    if prepared.options.static:
        answer["static"] = {name: _scaled(scaling, prepared) for name, scaling in scale_static_pools(prepared).items()}
    return answer


def _scaled(scaling: Scaling, prepared: Prepared) -> dict[str, Any]:
    if not scaling.create:
        return {"create": 0, "delete": list(scaling.delete) or None}
    template = prepared.template_of(scaling.pool, relaxes_min_values=False)
    requirements = requirement_list(static_node(template).requirements, prepared.known, hides_types=False)
    return {"create": scaling.create, "requirements": requirements}


def error_texts(refused: Sequence[PoolRefusal], texts: Texts) -> list[str]:
    """Return why pools have no node for a pod, sorted; reserved capacity that may come is marked as deferred."""
    lines = sorted(text for one in refused for text in texts.of_pool(one))
    return ["(deferred)", *lines] if any(one.is_deferred for one in refused) else lines


def _created(node: Planned, prepared: Prepared) -> dict[str, Any]:
    problem = exceeded_limit(prepared, node.template.name)
    return node_claim(node) | ({"createError": problem} if problem else {})


def node_claim(node: Planned) -> dict[str, Any]:
    """Return a NodeClaim with what its provider makes of it."""
    template, spec = node.template, node.template.pool.spec.template
    known = template.columns.vocabulary
    claim: dict[str, Any] = {
        "nodePool": template.name,
        "pods": list(node.pods),
        "requirements": requirement_list(node.claim_requirements, known, hides_types=not node.is_static),
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
    if node.launch is None:
        return {"error": CRASH}
    instance_type, offerings = node.launch
    hidden = {ZONE, CAPACITY_TYPE, *RESERVATION_IDS}
    labels = launch_labels(node, instance_type, offerings[0])
    return {
        "instanceType": instance_type.name,
        "price": rounded(offerings[0].price),
        "choices": sorted(offering.choice for offering in offerings),
        "labels": {key: value for key, value in labels.items() if key not in hidden},
        "capacity": texts_of(node.requests),
        "allocatable": texts_of({**node.requests, **instance_type.allocatable}),
    }


def _annotations(node: Planned) -> dict[str, str]:
    own = {} if node.is_static else {MIN_VALUES_RELAXED: "true" if node.is_relaxed else "false"}
    if node.drivers:
        own[DRA_DRIVERS] = ",".join(node.drivers)
    types = [node.template.columns.types[index] for index in node.types]
    if any(offering.is_price_overlaid for entry in types for offering in entry.offerings):
        own[PRICE_OVERLAID] = "true"
    if any(entry.is_capacity_overlaid for entry in types):
        own[CAPACITY_OVERLAID] = "true"
    return own


def requirement_list(requirements: Requirements, known: Vocabulary, *, hides_types: bool) -> list[dict[str, Any]]:
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
    return [{"key": wanted.key, "operator": wanted.operator, **({"values": values} if values else {}), **shared}]


def _taint(taint: Taint) -> dict[str, str]:
    return {"key": taint.key, "effect": taint.effect} | ({"value": taint.value} if taint.value else {})


def _duration(text: str) -> str:
    nanoseconds = parse_duration(text)
    return text if nanoseconds is None else format_duration(nanoseconds)


def rounded(number: float) -> float:
    return float(f"{number:.12g}")


def answer_of(conditions: Mapping[str, ClaimState], outcomes: Mapping[str, MethodResult]) -> dict[str, Any]:
    """Return what each method does by itself, and which one acts."""
    return {
        "conditions": {name: _condition_texts(state) for name, state in sorted(conditions.items())},
        "first": next((name for name, outcome in outcomes.items() if outcome.commands), ""),
        "methods": {name: _method(outcome) for name, outcome in outcomes.items()},
    }


def _condition_texts(state: ClaimState) -> dict[str, str]:
    texts = {CONSOLIDATABLE: "True"} if state.is_consolidatable else {}
    return texts | ({DRIFTED: f"True {state.drifted}".strip()} if state.is_drifted else {})


def _method(outcome: MethodResult) -> dict[str, Any]:
    return {
        "candidates": [{"node": one.name, "cost": rounded(one.cost)} for one in outcome.candidates],
        "budgets": dict(outcome.budgets),
        "commands": [_command(command) for command in outcome.commands],
        "events": outcome.events.by_target(),
    }


def _command(command: Command) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "decision": command.decision,
        "candidates": [candidate.name for candidate in command.candidates],
        "replacements": [node_claim(node) for node in command.replacements],
        "existing": {node: [pod.metadata.key for pod in pods] for node, pods in command.existing.items()},
    }
    if command.consolidates:
        answer["savings"] = rounded(command.savings)
    return answer
