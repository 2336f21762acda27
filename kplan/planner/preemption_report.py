"""The answer of `kplan preempt`: whom pods would evict, what that frees and breaks, and where the victims go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kplan.documents.placement import Outcome
from kplan.documents.queue import QueuePlace
from kplan.framework.queue import enqueue
from kplan.planner.document import header, placements_document, summary, warnings_of
from kplan.planner.explanation import Shown
from kplan.planner.follow import Aftermath
from kplan.planner.placement import Placement
from kplan.planner.verdict import DEFAULT_FAIL_ON, judge
from kplan.preemption.result import PreemptionResult
from kplan.rules.resources import nano, pod_resources, quantity_text, resource_order, rounded_requests

if TYPE_CHECKING:
    from kplan.planner.planner import Planner

__all__ = ["pending_in_turn", "preemption_report", "without_room"]

_MOST_NODES = 5


def pending_in_turn(planner: Planner) -> list[str]:
    """List the pending pods that are tried at all, NAMESPACE/NAME, in the order of the scheduling queue."""
    session = planner.session
    queue = enqueue(session, planner.pending_ids())
    return [session.cluster.pods.infos[each.pod].key for each in queue if each.place is QueuePlace.ACTIVE]


def without_room(placements: Sequence[Placement]) -> list[Placement]:
    """Return the decisions about pods that did not fit as things were: their second ones, too, when they got in."""
    stuck = {each.pod.key for each in placements if each.outcome is not Outcome.SCHEDULED}
    return [each for each in placements if each.pod.key in stuck]


def preemption_report(
    planner: Planner,
    placements: Sequence[Placement],
    aftermath: Sequence[Aftermath] | None = None,
    *,
    fail_on: Sequence[str] | None = None,
    nodes_of: Mapping[int, Iterable[str] | Shown | None] | None = None,
    explain: bool = False,
    exit_zero: bool = False,
) -> dict[str, Any]:
    """Return the PreemptionReport document.

    Parameters
    ----------
    aftermath : where the victims go; None when nobody asked
    fail_on : what makes the verdict a failure; None for the defaults of `preempt`
    nodes_of : as for `placement_report`
    explain : tell for every candidate what became of each of its pods of lower priority
    """
    chosen = DEFAULT_FAIL_ON["preempt"] if fail_on is None else fail_on
    verdict = judge(placements, planner.warnings, chosen, accepts_preemption=True)
    told = placements_document(placements, nodes_of)
    for placement, document in zip(placements, told, strict=True):
        result = placement.preemption_result
        if result is not None and document["preemption"] is not None:
            document["preemption"] = _more(planner, placement, result, document["preemption"], explain=explain)
    return {
        **header(planner, "PreemptionReport"),
        "verdict": verdict.to_dict(exit_zero=exit_zero),
        "summary": summary(placements),
        "warnings": warnings_of(planner.warnings),
        "placements": told,
        "aftermath": None if aftermath is None else [each.to_dict() for each in aftermath],
    }


def _more(
    planner: Planner, placement: Placement, result: PreemptionResult, document: dict[str, Any], *, explain: bool
) -> dict[str, Any]:
    """Add to the contract's preemption object what it takes to judge it."""
    index_of = {} if result.candidates is None else _indices(result)
    candidates = {
        node: {**candidate, "lostBy": result.lost_by(index_of[node])}
        for node, candidate in document["candidates"].items()
    }
    if explain:
        candidates = {
            node: {**candidate, "reprieve": result.reprieve_steps(node)} for node, candidate in candidates.items()
        }
    return {
        **document,
        "victims": [
            {**victim, **_cost(planner, result, pod)}
            for victim, pod in zip(document["victims"], result.victim_pods, strict=True)
        ],
        "candidates": candidates,
        "notHelpful": _not_helpful(placement, result),
    }


def _indices(result: PreemptionResult) -> dict[str, int]:
    assert result.candidates is not None  # noqa: S101 - asked only then
    return {result.names[int(row)]: index for index, row in enumerate(result.candidates.rows)}


def _cost(planner: Planner, result: PreemptionResult, pod: int) -> dict[str, Any]:
    """Tell what evicting a pod frees on its node, which budgets count it, and how long it may take to end."""
    info = result.infos[pod]
    # A pod that the plan itself placed does not say where it is; victims are where room is made.
    node = planner.world.node_by_name[result.nominated_node or info.pod.spec.node_name]
    offered = rounded_requests({name: nano(quantity) for name, quantity in node.status.allocatable.items()})
    requests = pod_resources(info.pod).requests
    return {
        "node": node.metadata.name,
        "frees": {
            name: {
                "amount": quantity_text(name, requests[name]),
                "percent": round(100 * requests[name] / offered[name]) if offered.get(name) else None,
            }
            for name in resource_order(requests)
            if requests[name]
        },
        "budgets": result.victim_budgets(pod),
        "terminationGracePeriodSeconds": info.pod.spec.termination_grace_period_seconds,
    }


def _not_helpful(placement: Placement, result: PreemptionResult) -> list[dict[str, Any]]:
    """Group the nodes where no eviction helps by why: tried in vain, or not worth a try."""
    in_vain = {name: (status.plugin, status.texts) for name, status in result.rejected().items()}
    groups: Counter[tuple[bool, str, str]] = Counter()
    nodes: dict[tuple[bool, str, str], list[str]] = {}
    rejections = {name: (each.plugin or "", each.failure.reasons) for name, each in placement.rejections.items()}
    candidates = set(_indices(result)) if result.candidates is not None else set()
    for name, (plugin, reasons) in {**rejections, **in_vain}.items():
        if name in candidates:
            continue
        for reason in reasons:
            group = (name in in_vain, plugin, reason)
            groups[group] += 1
            nodes.setdefault(group, []).append(name)
    ordered = sorted(groups, key=lambda group: (not group[0], -groups[group], group[1:]))
    return [
        {
            "tried": tried,
            "plugin": plugin or None,
            "reason": reason,
            "nodes": groups[tried, plugin, reason],
            "examples": sorted(nodes[tried, plugin, reason])[:_MOST_NODES],
        }
        for tried, plugin, reason in ordered
    ]
