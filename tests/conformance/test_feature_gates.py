"""Every scenario of `feature_gates` decides as kube-scheduler 1.36.2 did with gates on that are off by default."""

from pathlib import Path
from typing import Any

import pytest

import kplan
from tests.conformance.test_conformance import actual, expected, failing_plugins
from tests.recorded import read_lines, sample

HERE = Path(__file__).parent / "feature_gates"
AREAS = sorted(path.name.removesuffix(".jsonl.gz") for path in HERE.glob("*.jsonl.gz"))


def placements(scenario: dict[str, Any], gates: dict[str, bool]) -> list[dict[str, Any]]:
    planner = kplan.Planner(
        kplan.load_snapshot(scenario["objects"]),
        kplan.load_scheduler_config(scenario.get("config")),
        kubernetes="1.36",
        feature_gates=gates,
        ties="name",
    )
    plan = planner.plan(scenario["pods"], settle_preemption=scenario.get("settlePreemption", False))
    return [placement.to_dict() for placement in plan.placements]


@pytest.mark.parametrize("area", AREAS)
def test_decides_as_kube_scheduler_with_its_gates(area: str) -> None:
    scenarios = read_lines(HERE / f"{area}.jsonl.gz")
    assert len(scenarios) > 10
    for scenario in sample(scenarios, 4):
        wanted = [expected(result) for result in scenario["expect"]]
        decided = placements(scenario, scenario["featureGates"])
        assert [actual(one, other) for one, other in zip(decided, wanted, strict=True)] == wanted, scenario["id"]
        for placement, result in zip(decided, scenario["expect"], strict=True):
            assert {node: plugins for node, plugins in failing_plugins(placement, result) if plugins} == {}


def test_the_gates_matter() -> None:
    scenario = next(each for each in read_lines(HERE / "taintcompare.jsonl.gz") if each["gateMatters"] == "placement")
    wanted = [expected(result) for result in scenario["expect"]]
    decided = placements(scenario, {})
    assert [actual(one, other) for one, other in zip(decided, wanted, strict=True)] != wanted
