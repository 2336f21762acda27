"""Why nodes stay: in Karpenter's words where it has some.

Karpenter asks nodes one after the other and stops at the first that it can do without; those behind it are asked here
by themselves, up to a number.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec.structs import replace

from kplan.autoscaling.karpenter.cluster import StateNode
from kplan.autoscaling.karpenter.disruption.candidates import (
    BLOCKED,
    CANDIDATE,
    REJECTED,
    UNCONSOLIDATABLE,
    Candidate,
    Event,
    Events,
    Question,
)
from kplan.autoscaling.karpenter.disruption.commands import consolidation
from kplan.autoscaling.karpenter.disruption.conditions import ClaimState
from kplan.autoscaling.karpenter.disruption.methods import DRIFTED, UNDERUTILIZED, Outcome
from kplan.autoscaling.karpenter.prepared import Prepared
from kplan.autoscaling.seam import Stay

_MOST_ALONE = 100
_SECOND_WORDS = (CANDIDATE, REJECTED)


def stays(
    prepared: Prepared, conditions: Mapping[str, ClaimState], outcomes: Mapping[str, Outcome], removed: frozenset[str]
) -> list[Stay]:
    """Return why each node stays that is not removed, in the order of their names."""
    single = outcomes["single"]
    behind = {candidate.name: candidate for candidate in single.candidates}
    reasons: list[Stay] = []
    n_alone = 0
    for state in prepared.state.nodes:
        if state.node is None or state.name in removed:
            continue
        stay = _by_event(state, outcomes) or _by_budget(state, outcomes, behind.get(state.name))
        if stay is None and state.name in behind and n_alone < _MOST_ALONE:
            n_alone += 1
            stay = _alone(prepared, behind[state.name])
        stay = stay or _otherwise(state, conditions, is_behind=state.name in behind)
        reasons.append(_with_drift(stay, state, conditions))
    return reasons


def _with_drift(stay: Stay, state: StateNode, conditions: Mapping[str, ClaimState]) -> Stay:
    """Return why a node stays that differs from its pool: it does not for long, unless something blocks it."""
    condition = conditions.get("" if state.claim is None else state.claim.metadata.name, ClaimState())
    if not condition.is_drifted:
        return stay
    drift = condition.drifted or DRIFTED
    if stay.reason == BLOCKED:
        return replace(stay, message=f"{stay.message} ({drift})")
    return Stay(node=stay.node, reason=DRIFTED, message=f"{drift}: Karpenter replaces it once its turn comes")


def _by_event(state: StateNode, outcomes: Mapping[str, Outcome]) -> Stay | None:
    """Return what Karpenter writes about a node: what blocks it for good first."""
    events = [event for outcome in outcomes.values() for event in outcome.events.about(state.name)]
    for reason in (BLOCKED, UNCONSOLIDATABLE):
        for event in events:
            if event.reason == reason:
                return _stay(state, event)
    return None


def _stay(state: StateNode, event: Event) -> Stay:
    message = f"{event.message}, {event.pod} => {event.particulars}" if event.particulars else event.message
    return Stay(node=state.name, reason=event.reason, message=message, pod=event.pod)


def _by_budget(state: StateNode, outcomes: Mapping[str, Outcome], candidate: Candidate | None) -> Stay | None:
    if candidate is None or outcomes["single"].budgets.get(candidate.pool_name, 0):
        return None
    message = f"No allowed disruptions for disruption reason {UNDERUTILIZED} due to blocking budget"
    return Stay(node=state.name, reason=BLOCKED, message=message)


def _alone(prepared: Prepared, candidate: Candidate) -> Stay | None:
    """Return why Karpenter could not do without a node; where it could, that another one comes first."""
    if not candidate.pods:
        return None
    question = Question(prepared, {}, Events(), prepared.now)
    command = consolidation(question, [candidate])
    telling = [event for event in question.events.about(candidate.name) if event.reason not in _SECOND_WORDS]
    if telling:
        return _stay(candidate.state, telling[0])
    if command is None:
        return None
    message = f"{command.text_for(candidate)} is possible, but Karpenter disrupts other nodes first"
    return Stay(node=candidate.name, reason=CANDIDATE, message=message)


def _otherwise(state: StateNode, conditions: Mapping[str, ClaimState], *, is_behind: bool) -> Stay:
    """Return a reason for which Karpenter has no words."""
    if state.claim is None:
        return Stay(node=state.name, reason=BLOCKED, message="Node isn't managed by karpenter")
    if is_behind:
        return Stay(node=state.name, reason=CANDIDATE, message="Karpenter disrupts other nodes first")
    condition = conditions.get(state.claim.metadata.name, ClaimState())
    if condition.is_consolidatable or condition.is_drifted:
        return Stay(node=state.name, reason=UNCONSOLIDATABLE, message="no method of disruption concerns the node")
    message = "not consolidatable: consolidateAfter has not passed since a pod came or went"
    return Stay(node=state.name, reason=UNCONSOLIDATABLE, message=message)
