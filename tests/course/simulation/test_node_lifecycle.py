"""Nodes that fail, come back, are deleted or tainted, and what becomes of their pods."""

from typing import Any

import pytest

from tests.objects import Object, deployment, node, planner_of, running, stateful_set

THREE = ["n0", "n1", "n2"]
START, STOP = 6.0, 2.0

Times = dict[str, list[float]]


def _node(name: str, *taints: Object, ready: str = "True") -> Object:
    there = node(name, "8", **{"topology.kubernetes.io/zone": "a"})
    there["spec"]["taints"] = list(taints)
    there["status"]["conditions"] = [{"type": "Ready", "status": ready}]
    return there


def _web() -> list[Object]:
    return running(deployment("web", 3), THREE)


def _db(name: str = "n0", **metadata: Any) -> list[Object]:
    own = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s-db", "controller": True}
    _, _, pod = running(deployment("db", 1), [name])
    pod["metadata"] |= {"name": "db-0", "ownerReferences": [own], **metadata}
    return [stateful_set("db", 1), pod]


def _course(objects: list[Object], *changes: Object, until: float = 1000.0) -> dict[str, Any]:
    planner = planner_of(objects)
    return planner.timeline(list(changes), start={"*": START}, stop={"*": STOP}, until=until).to_dict()


def _times(report: dict[str, Any], workload: str = "web") -> Times:
    times: Times = {}
    for step in report["steps"]:
        if step["workload"].endswith(f"/{workload}"):
            times.setdefault(step["event"], []).append(step["at"])
    return times


@pytest.mark.parametrize(
    ("change", "last"),
    [
        ({"drain": ["n0"], "options": {"force": True, "timeout": 60}}, "blocked"),
        ({"delete": [["Pod", "default/db-0"]], "options": {"gracePeriod": 0}}, "terminating"),
        ({"delete": [["Node", "n0"]]}, "terminating"),
    ],
)
@pytest.mark.parametrize("deleted", [{}, {"deletionTimestamp": "2026-03-01T12:00:00Z"}])
def test_a_finalizer_of_somebody_else_holds_a_pod_for_ever(change: Object, last: str, deleted: dict[str, str]) -> None:
    db = _db(finalizers=["example.com/hold"], **deleted)
    times = _times(_course([*map(_node, THREE), *db], change), "db")
    assert "gone" not in times
    assert "created" not in times
    assert last in times or bool(deleted)


def test_pods_of_a_node_that_is_gone_already_are_collected() -> None:
    report = _course([*map(_node, THREE[1:]), *_web()], {"at": 0})
    assert _times(report)["gone"] == _times(report)["created"] == [60.0]


def test_pods_on_a_node_that_is_back_are_not_said_to_stay_without_running() -> None:
    report = _course([*map(_node, THREE), *_web()], {"fail": ["n0"]}, {"at": 80, "recover": ["n0"]})
    assert report["warnings"] == []
