"""kplan decides as the cluster-autoscaler did, loop by loop."""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

import kplan
from tests.objects import planner_of
from tests.recorded import read_lines, sample

HERE = Path(__file__).parent / "recorded"

UP = (
    "result", "plan", "triggered", "filtered", "best", "tied", "expander", "remaining", "toHelp", "awaiting",
    "increase",
)  # fmt: skip
DOWN = ("result", "unneeded", "unremovable", "utilization", "deleted", "softTainted", "softUntainted")


@cache
def records(direction: str) -> dict[str, dict[str, Any]]:
    return {record["name"]: record for record in read_lines(HERE / f"{direction}.jsonl.gz")}


def decide(case: dict[str, Any]) -> list[dict[str, Any]]:
    autoscaler = kplan.ClusterAutoscaler(
        node_groups=case["nodeGroups"], options=case.get("options") or {}, prices=case.get("prices")
    )
    planner = planner_of(case["objects"], autoscaler=autoscaler, now=case["now"])
    report = planner.nodes(full=True, loops=case.get("loops") or [0])
    loops: list[dict[str, Any]] = report.to_dict()["detail"]["loops"]
    return loops


def facts(loop: dict[str, Any]) -> dict[str, Any]:
    """Bring a loop to what is compared: lists that are sets in order, figures rounded."""
    up, down = loop["scaleUp"] or {}, loop["scaleDown"] or {}
    compared = {f"up.{key}": up.get(key) or None for key in UP} | {f"down.{key}": down.get(key) or None for key in DOWN}
    options = up.get("options") or {}
    compared["up.options"] = {group: (option["nodes"], option["podCount"]) for group, option in options.items()}
    for pod in (compared["up.remaining"] or {}).values():
        pod.pop("event", None)
        pod["rejected"] = {group: sorted(reasons) for group, reasons in pod["rejected"].items()}
    if compared["down.utilization"]:
        compared["down.utilization"] = {
            node: (used["resource"], round(used["utilization"], 6)) for node, used in down["utilization"].items()
        }
    if compared["down.deleted"]:
        compared["down.deleted"] = {node: sorted(pods) for node, pods in down["deleted"].items()}
    for key in ("down.unneeded", "down.softTainted", "up.tied"):
        compared[key] = sorted(compared[key] or ())
    compared["up.expander"] = [(name, sorted(groups)) for name, groups in compared["up.expander"] or ()]
    compared["events"] = sorted(map(tuple, loop.get("events") or ()))
    return compared


def differences(direction: str, name: str) -> list[str]:
    record = records(direction)[name]
    loops = decide(record["case"])
    wanted = record["decision"]["loops"]
    assert len(loops) == len(wanted)
    return [
        f"loop {number} {key}: want {expected!r}, got {got[key]!r}"
        for number, (loop, want) in enumerate(zip(loops, wanted, strict=True))
        if (got := facts(loop))
        for key, expected in facts(want).items()
        # Of the other direction, the records hold results only.
        if got[key] != expected and (direction == "scaledown" or not key.startswith("down.") or key == "down.result")
    ]


@pytest.mark.parametrize(
    ("direction", "name"), sample([(way, name) for way in ("scaleup", "scaledown") for name in records(way)], 4)
)
def test_groups_grow_and_nodes_go_as_recorded(direction: str, name: str) -> None:
    assert differences(direction, name) == []
