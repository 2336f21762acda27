"""Conformance scenarios as ready-made worlds for tests of laws."""

import copy
from functools import cache
from pathlib import Path
from typing import Any

import kplan
from tests.recorded import read_lines

CONFORMANCE = Path(__file__).parent / "conformance"
AREAS = sorted(path.name.removesuffix(".jsonl.gz") for path in CONFORMANCE.glob("*.jsonl.gz"))


@cache
def scenarios(area: str) -> tuple[dict[str, Any], ...]:
    """Return all scenarios of an area; not to be changed."""
    return tuple(read_lines(CONFORMANCE / f"{area}.jsonl.gz"))


def planner(scenario: dict[str, Any], objects: list[dict[str, Any]] | None = None) -> kplan.Planner:
    """Return a planner for a scenario, or for other objects under its configuration."""
    snapshot = kplan.load_snapshot(scenario["objects"] if objects is None else objects)
    return kplan.Planner(snapshot, kplan.load_scheduler_config(scenario.get("config")))


def pending(scenario: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the pods that the scenario places."""
    wanted = set(scenario["pods"])
    return [
        obj
        for obj in scenario["objects"]
        if obj["kind"] == "Pod" and f"{obj['metadata']['namespace']}/{obj['metadata']['name']}" in wanted
    ]


def replica(pod: dict[str, Any], number: int) -> dict[str, Any]:
    """Return a pod that says the same under another name."""
    made = copy.deepcopy(pod)
    made["metadata"]["name"] += f"-{number}"
    made["metadata"]["uid"] = f"{made['metadata'].get('uid', '')}-{number}"
    return made


def key(pod: dict[str, Any]) -> str:
    """Return NAMESPACE/NAME."""
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
