"""Nodes that fail, come back, are deleted or tainted, and what becomes of their pods."""

from typing import Any

import pytest

from kplan.api.labels import ZONE
from kplan.course.simulation.node_lifecycle import Zone, ZoneCount, ZoneState, apply_states
from tests.objects import Object, daemon_set, deployment, node, owned_pod, planner_of, running, stateful_set, with_ready

THREE = ["n0", "n1", "n2"]
WEB = running(deployment("web", 3), THREE)
START, STOP = 6.0, 2.0

Times = dict[str, list[float]]


def _node(name: str, *taints: Object, ready: str = "True") -> Object:
    return with_ready(node(name, "8", taints=taints, labels={ZONE: "a"}), ready)


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
    pod = owned_pod(workload := stateful_set("db", 1), "db-0", "n0")
    pod["metadata"] |= {"finalizers": ["example.com/hold"], **deleted}
    times = _times(_course([*map(_node, THREE), workload, pod], change), "db")
    assert "gone" not in times
    assert "created" not in times
    assert last in times or bool(deleted)


def test_a_pod_that_has_ended_ends_no_second_time_where_its_node_is_out_of_service() -> None:
    pod = owned_pod(workload := stateful_set("db", 1), "db-0", "n0")
    pod["metadata"]["finalizers"] = ["example.com/hold"]
    fails = {"at": 100, "fail": ["n0"], "taint": {"n0": ["node.kubernetes.io/out-of-service:NoExecute"]}}
    report = _course([*map(_node, THREE), workload, pod], {"delete": [["Pod", "default/db-0"]]}, fails)
    assert report["timeline"]["end"] == 150.0  # when the node controller misses the kubelet


def test_pods_of_a_node_that_is_gone_already_are_collected() -> None:
    report = _course([*map(_node, THREE[1:]), *WEB], {"at": 0})
    assert _times(report)["gone"] == _times(report)["created"] == [60.0]


def test_a_new_template_of_a_daemon_set_goes_by_the_taints_of_now() -> None:
    changes = ({"taint": {"n0": ["a:NoSchedule"]}, "delete": [["Node", "n1"]]}, {"at": 5, "apply": [daemon_set("a")]})
    assert len(_times(_course([*map(_node, THREE), daemon_set("a", "app:0")], *changes), "a")["created"]) == 2


def test_a_kubelet_that_is_back_does_what_it_could_not_do_and_its_pods_are_not_said_to_stay_without_running() -> None:
    deleted = {"at": 3, "delete": [["Pod", "default/web-h1-000"]]}
    report = _course([*map(_node, THREE), *WEB], deleted, {"at": 4, "fail": ["n0"]}, {"at": 80, "recover": ["n0"]})
    assert report["warnings"] == []
    assert _times(report)["gone"] == _times(report)["ready"] == [80.0]


@pytest.mark.parametrize(
    ("ready", "not_ready", "state", "rate"),
    [
        (2, 0, ZoneState.NORMAL, 0.1),
        (0, 2, ZoneState.FULL, 0.1),
        (1, 2, ZoneState.NORMAL, 0.1),  # two nodes are no disruption
        (2, 3, ZoneState.PARTIAL, 0.0),
        (3, 3, ZoneState.NORMAL, 0.1),
        (20, 40, ZoneState.PARTIAL, 0.01),
    ],
)
def test_a_zone_of_which_most_nodes_are_not_ready_is_spared(
    ready: int, not_ready: int, state: ZoneState, rate: float
) -> None:
    count = ZoneCount(ready, not_ready)
    assert (count.state, count.rate) == (state, rate)


def test_a_rate_that_changes_starts_the_wait_anew_only_where_one_was_on() -> None:
    rested, busy = Zone(), Zone(waiting=["n0"])
    busy.take(100.0)
    rested.swap(0.01, 105.0)
    busy.swap(0.01, 105.0)
    assert rested.accepts(105.0)
    assert busy.next_at == pytest.approx(205.0)


def test_no_node_is_tainted_while_all_zones_are_down_and_the_first_ten_seconds_after_it() -> None:
    zones = {"a": Zone(waiting=["n0"]), "b": Zone()}
    apply_states(zones, {"a": ZoneCount(0, 1), "b": ZoneCount(0, 1)}, 50.0)
    assert not zones["a"].accepts(60.0)
    assert not zones["a"].waiting
    assert apply_states(zones, {"a": ZoneCount(0, 1), "b": ZoneCount(1, 0)}, 80.0) == (True, False)
    assert [zones["a"].accepts(at) for at in (80.0, 90.0)] == [False, True]


def test_once_a_node_is_ready_again_all_silent_ones_have_the_whole_grace_period_anew() -> None:
    down, up = {"Ready": "False"}, {"Ready": "True"}
    report = _course(
        [_node("n0"), _node("n1"), *running(deployment("web", 1), ["n0"])],
        {"conditions": {"n0": down, "n1": down}},
        {"at": 40, "fail": ["n1"]},
        {"at": 60, "conditions": {"n0": up}},
    )
    lost = [(step["node"], step["at"]) for step in report["steps"] if step["event"] == "unreachable"]
    assert lost == [("n1", 110.0)]
