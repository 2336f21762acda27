"""JSON documents: the header that all of them share, verdict and summary, and the PlacementReport."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kplan.documents.placement import Outcome
from kplan.planner.explanation import Shown
from kplan.planner.placement import Placement
from kplan.planner.verdict import DEFAULT_FAIL_ON, Verdict, judge
from kplan.snapshot.model import Warning as InputWarning

if TYPE_CHECKING:
    from kplan.planner.planner import Planner

API_VERSION = "kplan/v1"
FORMAT_VERSION = "1.0"


def header(planner: Planner, kind: str) -> dict[str, Any]:
    """Return what every document starts with."""
    snapshot = planner.snapshot
    return {
        "apiVersion": API_VERSION,
        "kind": kind,
        "formatVersion": FORMAT_VERSION,
        "generatedAt": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "snapshot": {
            "source": snapshot.source,
            "takenAt": snapshot.taken_at,
            "nodes": len(snapshot.nodes),
            "pods": len(snapshot.pods),
            "digest": snapshot.digest,
            "missing": [
                {"resource": each.resource, "reason": each.reason, "blinds": list(each.blinds)}
                for each in snapshot.missing
            ],
        },
        "scheduler": {
            "kubernetesVersion": planner.release.version,
            "featureGates": dict(planner.release.switched),
            "ties": planner.ties,
            "seed": planner.options.seed,
            "profiles": [profile.scheduler_name for profile in planner.config.profiles],
            "configSource": planner.config.source,
        },
    }


def warnings_of(warnings: Iterable[InputWarning]) -> list[dict[str, Any]]:
    """Return warnings in their JSON form."""
    return [{"code": each.code, "object": each.object, "message": each.message} for each in warnings]


def summary(placements: Sequence[Placement]) -> dict[str, int]:
    """Count outcomes; of a pod that was tried twice the last counts. Victims count once, whoever would evict them."""
    last = {placement.pod.key: placement for placement in placements}
    outcomes = [placement.outcome for placement in last.values()]
    victims = {
        (victim["namespace"], victim["name"], bool(victim["pdbViolation"]))
        for placement in placements
        for victim in placement.victims
    }
    return {
        "pods": len(last),
        "scheduled": outcomes.count(Outcome.SCHEDULED),
        "unschedulable": outcomes.count(Outcome.UNSCHEDULABLE),
        "gated": outcomes.count(Outcome.GATED),
        "errors": outcomes.count(Outcome.ERROR),
        "victims": len({(namespace, name) for namespace, name, _ in victims}),
        "pdbViolations": sum(violates for _, _, violates in victims),
    }


def placement_report(
    planner: Planner,
    placements: Sequence[Placement],
    *,
    fail_on: Sequence[str] | None = None,
    nodes_of: Mapping[int, Iterable[str] | Shown | None] | None = None,
    exit_zero: bool = False,
) -> dict[str, Any]:
    """Return the PlacementReport document.

    Parameters
    ----------
    fail_on : what makes the verdict a failure; None for the defaults of `place`
    nodes_of : index of a placement -> the nodes to tell about, None for all; placements without an entry are outlined
        only. None tells about all nodes of all placements.
    exit_zero : the verdict is told, and does not count
    """
    verdict: Verdict = judge(placements, planner.warnings, DEFAULT_FAIL_ON["place"] if fail_on is None else fail_on)
    return {
        **header(planner, "PlacementReport"),
        "verdict": verdict.to_dict(exit_zero=exit_zero),
        "summary": summary(placements),
        "warnings": warnings_of(planner.warnings),
        "placements": placements_document(placements, nodes_of),
    }


def placements_document(
    placements: Sequence[Placement], nodes_of: Mapping[int, Iterable[str] | Shown | None] | None
) -> list[dict[str, Any]]:
    """Return placements in their JSON form; `nodes_of` as in `placement_report`."""
    if nodes_of is None:
        return [placement.to_dict() for placement in placements]
    return [
        placement.to_dict(nodes_of[index]) if index in nodes_of else placement.to_outline()
        for index, placement in enumerate(placements)
    ]
