"""Every scenario of this folder decides as kube-scheduler decided it, minor by minor, field by field."""

from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kplan
from tests.recorded import read_lines, sample
from tests.scenarios import AREAS
from tests.scenarios import scenarios as recorded

HERE = Path(__file__).parent
NEWEST = "1.36"
OLDER = ("1.33", "1.34", "1.35")
OUTCOMES = {"scheduled": "Scheduled", "unschedulable": "Unschedulable", "gated": "Gated", "error": "Error"}


@cache
def scenarios(area: str) -> list[tuple[dict[str, Any], kplan.Snapshot]]:
    """Return the scenarios of an area with their clusters, which every minor shares."""
    return [(scenario, kplan.load_snapshot(scenario["objects"])) for scenario in recorded(area)]


@cache
def other_expectations(minor: str) -> dict[str, Any]:
    """Return what an older minor decided where it is not what the newest did, by scenario."""
    return {record["id"]: record["expect"] for record in read_lines(HERE / minor / "expect.jsonl.gz")}


def expectation(scenario: dict[str, Any], minor: str) -> list[dict[str, Any]]:
    kept: list[dict[str, Any]] = scenario["expect"]
    return kept if minor == NEWEST else other_expectations(minor).get(scenario["id"], kept)


def decide(scenario: dict[str, Any], snapshot: kplan.Snapshot, minor: str) -> list[dict[str, Any]]:
    planner = kplan.Planner(
        snapshot,
        kplan.load_scheduler_config(scenario.get("config"), kubernetes=minor),
        sampling="as-configured" if scenario["area"] == "sampling" else "all",
        ties="name",
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


def hold(chosen: Iterable[tuple[dict[str, Any], kplan.Snapshot]], minor: str) -> None:
    for scenario, snapshot in chosen:
        expect = expectation(scenario, minor)
        wanted = [expected(result) for result in expect]

        placements = decide(scenario, snapshot, minor)

        assert len(placements) == len(wanted), scenario["id"]
        found = [actual(placement, each) for placement, each in zip(placements, wanted, strict=True)]
        assert found == wanted, (minor, scenario["id"])
        for placement, result in zip(placements, expect, strict=True):
            unnamed = {node: plugins for node, plugins in failing_plugins(placement, result) if plugins}
            assert unnamed == {}, (minor, scenario["id"])


def failing_plugins(placement: dict[str, Any], result: dict[str, Any]) -> Iterator[tuple[str, set[str]]]:
    """Yield, for each node of which all failing plugins are recorded, those that kplan does not name."""
    for node, plugins in (result.get("failing") or {}).items():
        rejection = placement["rejections"].get(node)
        if rejection is not None and node in result["rejected"]:
            yield node, set(plugins) - {rejection["plugin"], *rejection["alsoFailing"]}


@pytest.mark.parametrize("area", AREAS)
def test_decides_as_kube_scheduler(area: str) -> None:
    """By default, one of eight scenarios; others are decided by the older minors."""
    hold(sample(scenarios(area), 8, 1), NEWEST)


@pytest.mark.parametrize("area", [area for area in AREAS if area != "dra2"])  # recorded for the newest alone
@pytest.mark.parametrize("minor", OLDER)
def test_decides_as_older_kube_schedulers(minor: str, area: str) -> None:
    """By default, one of eight scenarios is decided by one of them, which take turns."""
    hold(sample(scenarios(area), 8 * len(OLDER), 8 * OLDER.index(minor)), minor)


def test_there_are_scenarios() -> None:
    ids = {scenario["id"] for area in AREAS for scenario, _ in scenarios(area)}
    assert len(ids) > 700
    for minor in OLDER:
        assert other_expectations(minor).keys() <= ids
        assert len(other_expectations(minor)) > 300


def test_patch_releases_that_still_name_the_taint_are_told_apart() -> None:
    named: dict[str, list[str]] = {"1.34.1": [], "1.34.2": []}
    for scenario, snapshot in scenarios("taints"):
        for version, messages in named.items():
            planner = kplan.Planner(snapshot, kplan.load_scheduler_config(scenario.get("config")), kubernetes=version)
            messages += [each.message for each in planner.plan(scenario["pods"]).placements]
    assert sum("untolerated taint {" in message for message in named["1.34.1"]) > 2
    assert not any("untolerated taint {" in message for message in named["1.34.2"])
