"""How a real scheduler's draws fell, held against what kplan takes and foretells."""

from __future__ import annotations

import gzip
import json
from functools import cache
from pathlib import Path
from typing import Any

import kplan

HERE = Path(__file__).parent / "odds"
MOSTLY = 0.9


@cache
def cases() -> tuple[dict[str, Any], ...]:
    with gzip.open(HERE / "cases.jsonl.gz", "rt") as lines:
        return tuple(json.loads(line) for line in lines)


def planner(case: dict[str, Any], **options: Any) -> kplan.Planner:
    return kplan.Planner(
        kplan.load_snapshot(case["objects"]), kplan.load_scheduler_config(case.get("config")), **options
    )


def test_the_first_pod_goes_where_the_released_scheduler_mostly_puts_it() -> None:
    held = 0
    for case in cases():
        shipped = case["asShipped"]
        first = case["pods"][0]
        node, count = max(shipped["counts"][first].items(), key=lambda item: item[1])
        if count <= MOSTLY * shipped["runs"]:
            continue
        placement = planner(case).place(first)
        assert placement.node == (None if node == "pending" else node), case["id"]
        held += len(placement.ties) > 1
    assert held > 10
