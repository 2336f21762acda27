"""How a real scheduler's draws fell, held against what kplan takes and foretells."""

import math
from functools import cache
from pathlib import Path
from typing import Any

import kplan
from tests.recorded import read_lines

HERE = Path(__file__).parent / "odds"
MOSTLY = 0.9


@cache
def cases() -> tuple[dict[str, Any], ...]:
    return tuple(read_lines(HERE / "cases.jsonl.gz"))


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


def test_shares_are_those_of_the_real_schedulers_draws() -> None:
    for case in cases():
        settles = case.get("settlePreemption", False)
        odds = planner(case).odds(case["pods"], runs=case["runs"], settle_preemption=settles)
        for pod in case["counts"]:
            found = odds.counts[pod] | ({"evicted": odds.victims[pod]} if pod in odds.victims else {})
            real = case["counts"][pod] | ({"evicted": case["victims"][pod]} if pod in case.get("victims", {}) else {})
            for end in found.keys() | real.keys():
                differs = far(found.get(end, 0), real.get(end, 0), case["runs"], is_even="evictionTies" not in case)
                assert not differs, (case["id"], pod, end, found, real)


def far(found: int, real: int, runs: int, *, is_even: bool) -> bool:
    """Tell whether two counts are more than four standard errors apart, or one is missing that is no rarity."""
    if max(found, real) > runs / 100 and min(found, real) == 0:
        return True
    share = (found + real) / (2 * runs)
    return is_even and abs(found - real) / runs > 4 * math.sqrt(share * (1 - share) * 2 / runs) + 1e-9
