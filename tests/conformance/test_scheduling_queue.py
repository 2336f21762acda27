"""Scenarios of `feature_gates/queue` end as with kube-scheduler 1.36.2: pods arrive in waves, alone or in groups."""

from pathlib import Path
from typing import Any

import pytest

import kplan
from tests.recorded import read_lines, sample

HERE = Path(__file__).parent / "feature_gates" / "queue"
AREAS = sorted(path.name.removesuffix(".jsonl.gz") for path in HERE.glob("*.jsonl.gz"))
OUTCOMES = {
    "scheduled": "Scheduled",
    "unschedulable": "Unschedulable",
    "gated": "Gated",
    "error": "Error",
    "evicted": "Evicted",
}


def run(scenario: dict[str, Any]) -> dict[str, Any]:
    planner = kplan.Planner(
        kplan.load_snapshot(scenario["objects"]),
        kplan.load_scheduler_config(scenario.get("config")),
        kubernetes="1.36",
        feature_gates=scenario["featureGates"],
        ties="name",
    )
    return planner.run_queue(scenario["waves"]).to_dict()


def ends(pod: dict[str, Any], *, with_node: bool) -> tuple[object, ...]:
    """Return how a pod of a run ends, as far as no chance decides it."""
    name = f"{pod['pod']['namespace']}/{pod['pod']['name']}"
    if pod["outcome"] == "Scheduled":
        return name, "Scheduled", pod["node"] if with_node else None
    if pod["outcome"] == "Evicted":
        return name, "Evicted"
    return name, pod["outcome"], pod.get("message") or "", pod["waits"], pod.get("nominatedNode")


def ended(pod: dict[str, Any], *, with_node: bool) -> tuple[object, ...]:
    """Return the same of a recorded pod."""
    if pod["result"] == "scheduled":
        return pod["pod"], "Scheduled", pod["chosen"] if with_node else None
    if pod["result"] == "evicted":
        return pod["pod"], "Evicted"
    return pod["pod"], OUTCOMES[pod["result"]], pod.get("message", ""), pod["waits"], pod.get("nominatedNode")


@pytest.mark.parametrize("area", AREAS)
def test_the_queue_ends_as_that_of_kube_scheduler(area: str) -> None:
    scenarios = read_lines(HERE / f"{area}.jsonl.gz")
    assert len(scenarios) > 10
    for scenario in sample(scenarios, 4):
        with_node = not scenario["nodeByChance"]

        report = run(scenario)

        pods = {name: rest for name, *rest in (ends(pod, with_node=with_node) for pod in report["pods"])}
        for pod in scenario["expect"]:
            name, *rest = ended(pod, with_node=with_node)
            assert pods[name] == rest, f"{scenario['id']}: {name}"
        assert report["groups"] == scenario.get("groups", {}), scenario["id"]
        assert sorted(report["evicted"]) == sorted(scenario.get("evicted", [])), scenario["id"]
