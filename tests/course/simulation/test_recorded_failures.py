"""Nodes that failed on a real control plane (v1.36), and what it made of their pods, held against what is foretold.

The controllers look from time to time, and when a look comes is a lot: a time agrees if it does after one of the delays
that the recording tells (`ticks`), or those of the garbage collector's look, are taken out.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from tests.course.simulation.test_recorded_times import timeline
from tests.recorded import read_lines, sample

_FILE = Path(__file__).parent / "recorded" / "node_failures.jsonl.gz"
_COMPARED = ("bound", "ready", "terminating", "gone", "succeeded")
_LEAST, _SHARE = 0.5, 0.03
_AT_ONCE = 0.5
"""Within so many seconds a deletion is a forced one, whose begin is not compared."""
_EDGE = 6.0
"""So shortly before the end of a recording an event may be missing in either."""
_COLLECTOR = 20.5
"""Seconds between two looks of the garbage collector."""

LOTS = {
    # Six equal pods on three equal nodes: which of them are on the one that stops is a lot.
    "g-stop-5",
    # Three nodes of a zone are tainted in no certain order, and do not hold equally many pods.
    "g-zone-3",
    # The control plane was slow there, by half a second within the first four.
    "g-pressure-2",
    # The snapshot was taken when the next renewal of a lease was just due, which nothing in it tells.
    "g-mid-3",
}

CASES = {case["id"]: case for case in read_lines(_FILE) if not case["differs"] and case["id"] not in LOTS}

Times = dict[tuple[str, str], list[float]]
"""KIND/NAME of a workload and what happens to its pods -> when, in seconds."""


def _times(events: list[tuple[float, str, str, str]], until: float) -> Times:
    gone = {pod: at for at, what, pod, _ in events if what == "gone"}
    times: Times = defaultdict(list)
    for at, what, pod, workload in sorted(events):
        is_forced = what == "terminating" and 0 <= gone.get(pod, -1.0) - at < _AT_ONCE
        if what in _COMPARED and at <= until and not is_forced:
            times[workload, what].append(at)
    return times


def _theirs(case: dict[str, Any]) -> Times:
    pods = case["pods"]
    return _times(
        [(at, what, pod, pods[pod]["workload"]) for at, what, pod, *_ in case["events"] if pods.get(pod)], case["until"]
    )


def _ours(case: dict[str, Any]) -> Times:
    report, between = timeline(case, case["until"])
    events = [(one["at"], one["event"], one["pod"], one["workload"].replace(between, "/")) for one in report["steps"]]
    return _times(events, case["until"])


def _delays(case: dict[str, Any], theirs: Times, ours: Times) -> list[float]:
    """Return by how many seconds the looks of controllers may have come late."""
    late = (case["late"].get("evicted") or (0, 0))[1]
    ticks = [tick["late"] for tick in case["ticks"] if tick["late"] and not tick.get("before")]
    ticks = [tick + share for tick in ticks for share in ((0, late / 2, late) if late > _LEAST else (0,))]
    is_collected = any(word in json.dumps(case["change"]) for word in ("out-of-service", '"Node"'))
    looks: set[float] = set()
    if is_collected:
        pairs = ((a, b) for name, at in theirs.items() if name[1] == "gone" for a in at for b in ours.get(name, ()))
        looks = {a - b for a, b in pairs if abs(a - b) <= _COLLECTOR}
    return [0.0, *ticks, *looks, *(tick + other for tick in ticks for other in (*ticks, *looks))]


def _trimmed(times: list[float], other: list[float], until: float) -> list[float]:
    while len(times) > len(other) and times[-1] > until - _EDGE:
        times = times[:-1]
    return times


@pytest.mark.parametrize("name", sample([*CASES], 4))
def test_nodes_and_their_pods_fare_as_they_did_there(name: str) -> None:
    case = CASES[name]
    theirs, ours = _theirs(case), _ours(case)
    delays, text = _delays(case, theirs, ours), json.dumps([case["objects"], case["change"]])
    has_waits = any(f'"{field}": ' in text for field in ("minReadySeconds", "progressDeadlineSeconds", "backoffLimit"))
    tolerance = _LEAST + (1.0 if has_waits or case["drains"] else 0.0)
    for name in theirs.keys() | ours.keys():
        want, got = theirs.get(name, []), ours.get(name, [])
        want, got = _trimmed(want, got, case["until"]), _trimmed(got, want, case["until"])
        assert len(got) == len(want), (name, want, got)
        for expected, actual in zip(want, got, strict=True):
            off = min(abs(expected - delay - actual) for delay in delays)
            assert off <= tolerance + _SHARE * expected, (name, want, got)
