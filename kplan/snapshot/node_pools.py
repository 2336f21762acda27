"""Checks of Karpenter's pools and overlays: what its CRDs refuse, an API server never stores.

Upstream: sigs.k8s.io/karpenter pkg/apis/crds/karpenter.sh_nodepools.yaml, karpenter.sh_nodeoverlays.yaml.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

import msgspec

from kplan.api.karpenter import Budget, NodeOverlay, NodePool, NodeRequirement
from kplan.api.labels import parse_int64
from kplan.errors import Problem

_OPERATORS = ("DoesNotExist", "Exists", "Gt", "Gte", "In", "Lt", "Lte", "NotIn")
_COMPARISONS = frozenset({"Gt", "Gte", "Lt", "Lte"})
_POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized")
_REASONS = ("Drifted", "Empty", "Underutilized")
_DURATION = re.compile(r"([0-9]{1,9}[smh])+", re.ASCII)
_NODES = re.compile(r"(100|[0-9]{1,2})%|[0-9]{1,9}", re.ASCII)
_PRICE = re.compile(r"\d{1,12}(\.\d{1,12})?", re.ASCII)
_ADJUSTMENT = re.compile(r"[+-](\d{1,12}(\.\d{1,12})?|\.\d{1,12})%?", re.ASCII)
_MOST_VALUES = 50
_MOST_WEIGHT = 100
_MOST_OVERLAY_WEIGHT = 10_000


def node_pool_problems(obj: msgspec.Struct) -> list[Problem]:
    """Return what is wrong with a NodePool or NodeOverlay; nothing for other objects."""
    if isinstance(obj, NodePool):
        return list(_of_pool(obj))
    return list(_of_overlay(obj)) if isinstance(obj, NodeOverlay) else []


def _of_pool(pool: NodePool) -> Iterator[Problem]:
    spec, template, disruption = pool.spec, pool.spec.template.spec, pool.spec.disruption
    yield from _of_requirements(template.requirements, "$.spec.template.spec.requirements")
    for text, path, allows_never in (
        (template.expire_after, "$.spec.template.spec.expireAfter", True),
        (template.termination_grace_period, "$.spec.template.spec.terminationGracePeriod", False),
        (disruption.consolidate_after, "$.spec.disruption.consolidateAfter", True),
    ):
        yield from _of_duration(text, path, allows_never=allows_never)
    if disruption.consolidation_policy not in ("", *_POLICIES):
        yield _not_one_of(disruption.consolidation_policy, _POLICIES, "$.spec.disruption.consolidationPolicy")
    for index, budget in enumerate(disruption.budgets or ()):
        yield from _of_budget(budget, f"$.spec.disruption.budgets[{index}]")
    if spec.weight is not None and not 1 <= spec.weight <= _MOST_WEIGHT:
        yield Problem(f"weight {spec.weight} is out of range", json_path="$.spec.weight", hint="1 to 100")
    if spec.replicas is not None and spec.replicas < 0:
        yield Problem(f"{spec.replicas} replicas", json_path="$.spec.replicas", hint="0 or more")


def _of_requirements(requirements: Iterable[NodeRequirement], path: str) -> Iterator[Problem]:
    for index, wanted in enumerate(requirements):
        place = f"{path}[{index}]"
        if wanted.operator not in _OPERATORS:
            yield _not_one_of(wanted.operator, _OPERATORS, f"{place}.operator")
        if wanted.operator == "In" and not wanted.values:
            yield Problem("In without values", json_path=f"{place}.values", hint="give at least one value")
        if wanted.operator in _COMPARISONS and not _is_count(wanted.values):
            message = f"{wanted.operator} needs one whole number from 0"
            yield Problem(message, json_path=f"{place}.values", hint='for example values: ["4"]')
        least = wanted.min_values
        if least is not None and not 1 <= least <= _MOST_VALUES:
            yield Problem(f"minValues {least} is out of range", json_path=f"{place}.minValues", hint="1 to 50")
        elif least is not None and wanted.operator == "In" and len(wanted.values) < least:
            message = f"minValues {least} with {len(wanted.values)} values"
            yield Problem(message, json_path=f"{place}.minValues", hint="give at least as many values")


def _is_count(values: tuple[str, ...]) -> bool:
    number = parse_int64(values[0]) if len(values) == 1 else None
    return number is not None and number >= 0


def _of_duration(text: str | None, path: str, *, allows_never: bool) -> Iterator[Problem]:
    if text is None or (allows_never and text == "Never") or _DURATION.fullmatch(text):
        return
    hint = "for example 720h, 30s or 1h30m" + (", or Never" if allows_never else "")
    yield Problem(f"{text[:60]!r} is not a duration", json_path=path, hint=hint)


def _of_budget(budget: Budget, path: str) -> Iterator[Problem]:
    if not _NODES.fullmatch(budget.nodes):
        message = f"{budget.nodes[:60]!r} is no number of nodes"
        yield Problem(message, json_path=f"{path}.nodes", hint="such as 5 or 10%")
    for index, reason in enumerate(budget.reasons or ()):
        if reason not in _REASONS:
            yield _not_one_of(reason, _REASONS, f"{path}.reasons[{index}]")
    if (budget.schedule is None) != (budget.duration is None):
        yield Problem("schedule and duration go together", json_path=path, hint="give both, or neither")
    yield from _of_duration(budget.duration, f"{path}.duration", allows_never=False)


def _of_overlay(overlay: NodeOverlay) -> Iterator[Problem]:
    spec = overlay.spec
    for index, wanted in enumerate(spec.requirements):
        if wanted.operator not in _OPERATORS:
            yield _not_one_of(wanted.operator, _OPERATORS, f"$.spec.requirements[{index}].operator")
    if spec.price is not None and not _PRICE.fullmatch(spec.price):
        yield Problem(f"{spec.price[:60]!r} is not a price", json_path="$.spec.price", hint="for example 0.25")
    if spec.price_adjustment is not None and not _ADJUSTMENT.fullmatch(spec.price_adjustment):
        message = f"{spec.price_adjustment[:60]!r} is no change of a price"
        yield Problem(message, json_path="$.spec.priceAdjustment", hint="for example +0.1, -10% or +15%")
    if spec.price is not None and spec.price_adjustment is not None:
        yield Problem("price and priceAdjustment exclude each other", json_path="$.spec", hint="give one of them")
    if spec.weight is not None and not 1 <= spec.weight <= _MOST_OVERLAY_WEIGHT:
        yield Problem(f"weight {spec.weight} is out of range", json_path="$.spec.weight", hint="1 to 10,000")


def _not_one_of(text: str, known: tuple[str, ...], path: str) -> Problem:
    return Problem(f"{text[:60]!r} is unknown", json_path=path, hint=f"choose from {', '.join(known)}")
