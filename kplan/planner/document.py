"""JSON documents: the header that all of them share, verdict and summary, and the PlacementReport."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kplan.framework.cycle import Outcome
from kplan.planner.placement import Placement
from kplan.planner.verdict import DEFAULT_FAIL_ON, Verdict, judge
from kplan.snapshot.model import Warning as InputWarning

if TYPE_CHECKING:
    from kplan.planner.planner import Planner

API_VERSION = "kplan/v1"
FORMAT_VERSION = "1.0"
KUBERNETES_VERSION = "1.36"


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
            "kubernetesVersion": KUBERNETES_VERSION,
            "profiles": [profile.scheduler_name for profile in planner.config.profiles],
            "configSource": planner.config.source,
        },
    }


def warnings_of(warnings: Iterable[InputWarning]) -> list[dict[str, Any]]:
    """Return warnings in their JSON form."""
    return [{"code": each.code, "object": each.object, "message": each.message} for each in warnings]


def summary(placements: Sequence[Placement]) -> dict[str, int]:
    """Count outcomes; of a pod that was tried twice the last counts, and its victims once."""
    last = {placement.pod.key: placement for placement in placements}
    outcomes = [placement.outcome for placement in last.values()]
    preempting = [placement.preemption for placement in placements if placement.preemption is not None]
    victims = [victim for each in preempting for victim in each["victims"]]
    return {
        "pods": len(last),
        "scheduled": outcomes.count(Outcome.SCHEDULED),
        "unschedulable": outcomes.count(Outcome.UNSCHEDULABLE),
        "gated": outcomes.count(Outcome.GATED),
        "errors": outcomes.count(Outcome.ERROR),
        "victims": len(victims),
        "pdbViolations": sum(bool(victim["pdbViolation"]) for victim in victims),
    }


def placement_report(
    planner: Planner,
    placements: Sequence[Placement],
    *,
    fail_on: Sequence[str] | None = None,
    nodes_of: dict[int, Sequence[str]] | None = None,
) -> dict[str, Any]:
    """Return the PlacementReport document.

    Parameters
    ----------
    fail_on : what makes the verdict a failure; None for the defaults of `place`
    nodes_of : index of a placement -> the nodes to tell about; None or no entry for all
    """
    verdict: Verdict = judge(placements, planner.warnings, DEFAULT_FAIL_ON["place"] if fail_on is None else fail_on)
    chosen = nodes_of or {}
    return {
        **header(planner, "PlacementReport"),
        "verdict": verdict.to_dict(),
        "summary": summary(placements),
        "warnings": warnings_of(planner.warnings),
        "placements": [placement.to_dict(chosen.get(index)) for index, placement in enumerate(placements)],
    }
