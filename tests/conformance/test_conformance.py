"""Every scenario of this folder decides as kube-scheduler v1.36.2 decided it, field by field."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kplan

HERE = Path(__file__).parent
AREAS = sorted(path.name.removesuffix(".jsonl.gz") for path in HERE.glob("*.jsonl.gz"))
OUTCOMES = {"scheduled": "Scheduled", "unschedulable": "Unschedulable", "gated": "Gated", "error": "Error"}


def scenarios(area: str) -> Iterator[dict[str, Any]]:
    with gzip.open(HERE / f"{area}.jsonl.gz", "rt") as lines:
        for line in lines:
            yield json.loads(line)


def decide(scenario: dict[str, Any]) -> list[dict[str, Any]]:
    sampling = "as-configured" if scenario["area"] == "sampling" else "all"
    planner = kplan.Planner(
        kplan.load_snapshot(scenario["objects"]),
        kplan.load_scheduler_config(scenario.get("config")),
        sampling=sampling,
    )
    plan = planner.plan(scenario["pods"], settle_preemption=scenario.get("settlePreemption", False))
    return [placement.to_dict() for placement in plan.placements]


def expected(result: dict[str, Any]) -> dict[str, Any]:
    """Return what kube-scheduler decided, in the words that both sides are brought to."""
    namespace, name = result["pod"].split("/")
    decision: dict[str, Any] = {"pod": (namespace, name), "outcome": OUTCOMES[result["result"]]}
    if "message" in result or result["result"] != "error":
        decision["message"] = result.get("message", "")
    if result["result"] in ("gated", "error"):
        return decision
    decision["feasible"] = sorted(result["feasible"])
    decision["notEvaluated"] = sorted(result.get("notEvaluated") or [])
    decision["rejected"] = {node: status(each) for node, each in result["rejected"].items()}
    decision["scores"] = {
        node: (each["total"], {name: score for name, score in each["plugins"].items() if score})
        for node, each in (result.get("scores") or {}).items()
    }
    if result["result"] == "scheduled":
        decision["ties"] = result["best"]
        if not result.get("reserve"):
            decision["node"] = result["chosen"]
    if result.get("preemption"):
        decision["preemption"] = expected_preemption(result["preemption"])
    return decision


def expected_preemption(found: dict[str, Any]) -> dict[str, Any]:
    wanted: dict[str, Any] = {"candidates": found.get("candidates") or {}, "ties": found.get("selected") or []}
    if "status" in found:
        wanted["message"] = ", ".join(found["status"]["reasons"])
    wanted["rejected"] = {node: status(each) for node, each in (found.get("rejected") or {}).items()}
    return wanted


def status(found: dict[str, Any]) -> tuple[str, str | None, tuple[str, ...]]:
    return found["code"], found.get("plugin") or None, tuple(found["reasons"])


def actual(placement: dict[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """Return what kplan decided, in the same words and with the same fields as `wanted`."""
    preemption = placement["preemption"] or {"candidates": {}, "ties": [], "message": "", "rejected": {}}
    decision = {
        "pod": (placement["pod"]["namespace"], placement["pod"]["name"]),
        "outcome": placement["outcome"],
        "message": placement["message"],
        "feasible": sorted(placement["feasibleNodes"]),
        "notEvaluated": sorted(placement["notEvaluated"]),
        "rejected": {node: status(each) for node, each in placement["rejections"].items()},
        "scores": {
            node: (each["total"], {name: score for name, score in each["plugins"].items() if score})
            for node, each in placement["scores"].items()
        },
        "ties": sorted(placement["ties"]),
        "node": placement["node"],
        "preemption": {
            "candidates": {
                node: {"victims": each["victims"], "pdbViolations": each["pdbViolations"]}
                for node, each in preemption["candidates"].items()
            },
            "ties": sorted(preemption["ties"]),
            "message": preemption["message"],
            "rejected": {
                node: status(each)
                for node, each in preemption["rejected"].items()
                if node in wanted.get("preemption", {}).get("rejected", {})
            },
        },
    }
    if "preemption" in wanted:
        decision["preemption"] = {key: decision["preemption"][key] for key in wanted["preemption"]}
    return {key: decision[key] for key in wanted}


@pytest.mark.parametrize("area", AREAS)
def test_decides_as_kube_scheduler(area: str) -> None:
    for scenario in scenarios(area):
        wanted = [expected(result) for result in scenario["expect"]]

        placements = decide(scenario)

        assert len(placements) == len(wanted), scenario["id"]
        found = [actual(placement, each) for placement, each in zip(placements, wanted, strict=True)]
        assert found == wanted, scenario["id"]


@pytest.mark.parametrize("area", AREAS)
def test_names_every_plugin_that_fails_a_node(area: str) -> None:
    for scenario in scenarios(area):
        for placement, result in zip(decide(scenario), scenario["expect"], strict=True):
            for node, plugins in (result.get("failing") or {}).items():
                rejection = placement["rejections"].get(node)
                if rejection is None or node not in result["rejected"]:
                    continue
                named = {rejection["plugin"], *rejection["alsoFailing"]}
                assert set(plugins) <= named, (scenario["id"], node)


def test_there_are_scenarios() -> None:
    assert sum(1 for area in AREAS for _ in scenarios(area)) > 700
