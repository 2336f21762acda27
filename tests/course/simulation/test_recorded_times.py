"""Changes that a real control plane (v1.36) carried out with pods that take time, held against what is foretold.

Each case has every event with its time. What is compared, for each workload: how many pods were bound, became ready,
succeeded and were gone, when, in order; the lowest number of ready pods; and when it all came to rest.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.objects import planner_of
from tests.recorded import read_lines, sample

_FILE = Path(__file__).parent / "recorded" / "clock.jsonl.gz"
_COMPARED = ("bound", "ready", "gone", "succeeded")
_LEAST = 0.5
"""Seconds by which equal runs differ on a quiet machine."""
_SHARE = 0.03
"""A control plane's own steps take time, too."""

LOTS = {
    # Two nodes are equal on all criteria of preemption: there the one with the pods of the other job was taken.
    "g-jobs-6",
    # Deletions in other namespaces of the same control plane had waiting pods tried again, which made their backoff
    # longer, and a younger pod was bound before them.
    "g-rollout-8",
}

Events = list[tuple[float, str, str]]
"""Seconds, what happens, KIND/NAME of the workload."""

CASES = {case["id"]: case for case in read_lines(_FILE) if not case["differs"] and case["id"] not in LOTS}


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or []
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)


def _theirs(case: dict[str, Any]) -> tuple[Events, dict[str, int]]:
    pods = case["pods"]
    events = [(at, what, pods[pod]["workload"]) for at, what, pod, _ in case["events"] if pod and pods.get(pod)]
    ready: defaultdict[str, set[str]] = defaultdict(set)
    for obj in case["objects"]:
        if obj["kind"] == "Pod" and _is_ready(obj):
            name = obj["metadata"]["name"]
            ready[pods[name]["workload"]].add(name)
    lowest = {workload: len(names) for workload, names in ready.items()}
    for _, what, pod, _ in case["events"]:
        if not pod or not pods.get(pod):
            continue
        workload = pods[pod]["workload"]
        if what == "ready":
            ready[workload].add(pod)
        elif what in ("terminating", "succeeded", "failed", "gone"):
            ready[workload].discard(pod)
        lowest[workload] = min(lowest.get(workload, 0), len(ready[workload]))
    return events, lowest


def timeline(case: dict[str, Any], until: float) -> tuple[dict[str, Any], str]:
    """Return what is foretold, and what stands between kind and name of its workloads."""
    namespace = next(obj["metadata"]["name"] for obj in case["objects"] if obj["kind"] == "Namespace")
    durations = {
        name: {key.replace("/", f"/{namespace}/"): seconds for key, seconds in case["durations"][name].items()}
        for name in ("start", "stop", "run")
    }
    report = planner_of(case["objects"]).timeline(case["change"], until=until, **durations).to_dict()
    return report | {"steps": [step for step in report["steps"] if step["pod"]]}, f"/{namespace}/"


def _ours(case: dict[str, Any]) -> tuple[Events, dict[str, int], float]:
    report, between = timeline(case, case["end"] + 60)
    events = [(step["at"], step["event"], step["workload"].replace(between, "/")) for step in report["steps"]]
    lowest = {key.replace(between, "/"): of["lowestReady"] for key, of in report["timeline"]["workloads"].items()}
    return events, lowest, report["timeline"]["end"]


def _tolerance(case: dict[str, Any]) -> float:
    """Return by how many seconds equal runs may differ: of waits from a whole second on, and of ticks near an edge."""
    edges = case["edges"] or {}
    is_near = min(edges.get("second") or 1, edges.get("poll") or 1) < 0.1
    text = json.dumps([case["objects"], case["change"]])
    waits = any(
        f'"{field}": {n}' in text for field in ("minReadySeconds", "activeDeadlineSeconds") for n in range(1, 9)
    )
    has_failed = any(event[1] == "failed" for event in case["events"])
    return _LEAST + (is_near or waits or has_failed) + (5 if (edges.get("evict") or 1) < 0.3 else 0)


def _times(events: Iterable[tuple[float, str, str]], what: str, workload: str) -> list[float]:
    return sorted(at for at, event, of in events if (event, of) == (what, workload))


@pytest.mark.parametrize("name", sample([*CASES], 4))
def test_everything_happens_when_it_did_there(name: str) -> None:
    case = CASES[name]
    theirs, their_lowest = _theirs(case)
    ours, our_lowest, our_end = _ours(case)
    tolerance = _tolerance(case)
    for workload in {of for _, _, of in theirs}:
        for what in _COMPARED:
            expected, actual = _times(theirs, what, workload), _times(ours, what, workload)
            assert len(actual) == len(expected), (workload, what, expected, actual)
            late = [abs(a - b) > tolerance + _SHARE * b for a, b in zip(actual, expected, strict=True)]
            assert not any(late), (workload, what, expected, actual)
        assert our_lowest[workload] == their_lowest[workload], workload
    assert abs(our_end - case["end"]) <= tolerance + _SHARE * case["end"]
