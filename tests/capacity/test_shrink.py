"""Nodes that are not needed: drained one after another, with every pod placed and every budget kept."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kplan.capacity.shrink import _Shrinking, shrink_report
from kplan.changes.values import DrainOptions
from kplan.course.simulation.draining import LOCAL_STORAGE
from kplan.documents.capacity import ShrinkReport
from tests.objects import Object, budget, head, node, planner_of, pod
from tests.schemas import assert_keeps_to_its_schema


def shrunk(*objects: Object, **options: bool) -> ShrinkReport:
    planner = planner_of(objects)
    return planner.shrink(options=DrainOptions(**options))


def freed(report: ShrinkReport) -> list[tuple[str, int]]:
    return [(freed.name, freed.moved) for freed in report.freed]


def why(report: ShrinkReport) -> dict[str, tuple[str, str]]:
    return {stay.name: (stay.why, stay.pod) for stay in report.stays}


def owned(name: str, cpu: str, on: str, **more: Any) -> Object:
    web_pod = pod(name, cpu=cpu, on=on, owner="ReplicaSet/owner", **more)
    web_pod["metadata"]["labels"] = {"app": "web"}
    web_pod["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return web_pod


def test_the_emptiest_go_first_as_long_as_their_pods_find_places() -> None:
    report = shrunk(
        node("a"),
        node("b"),
        node("c"),
        owned("p", "1", "a"),
        owned("q", "2", "b"),
        owned("r", "3", "c"),
        node("d", "2"),
    )

    assert freed(report) == [("d", 0), ("a", 1)]
    assert why(report) == {"b": ("no-place", "default/q"), "c": ("no-place", "default/r")}
    assert report.frees["cpu"] == "6"
    assert (report.usage["cpu"].percent_before, report.usage["cpu"].percent_after) == (42.9, 75.0)
    assert report.stays[0].because.startswith("0/4 nodes are available: ")
    assert_keeps_to_its_schema(report.to_dict())


def test_pods_that_kubectl_would_not_take_away_keep_their_node() -> None:
    volume = {"volumes": [{"name": "scratch", "emptyDir": {}}]}
    objects = [node("a"), node("b"), node("c"), pod("bare", cpu="1", on="a"), owned("p", "2", "b", **volume)]

    assert freed(shrunk(*objects)) == [("c", 0)]
    report = shrunk(*objects)
    assert why(report) == {"a": ("not-evictable", "default/bare"), "b": ("not-evictable", "default/p")}
    assert report.stays[1].because == LOCAL_STORAGE
    forced = shrunk(*objects, force=True)
    assert [(freed.name, freed.moved, freed.deleted) for freed in forced.freed] == [("c", 0, 0), ("a", 0, 1)]
    assert freed(shrunk(*objects, force=True, delete_emptydir_data=True)) == [("c", 0), ("a", 0)]


def test_budgets_are_kept() -> None:
    objects = [node("a"), node("b"), owned("p", "1", "a"), owned("q", "1", "a"), owned("r", "1", "b")]
    assert why(shrunk(*objects, budget("web", minAvailable=3)))["b"] == ("budget", "default/r")
    assert freed(shrunk(*objects, budget("web", minAvailable=2))) == [("b", 1)]
    assert freed(shrunk(*objects)) == [("b", 1)]


def test_the_control_plane_stays_and_what_waits_already_does_not_count() -> None:
    plane = node("plane")
    plane["metadata"]["labels"]["node-role.kubernetes.io/control-plane"] = ""
    waiting = pod("waits", cpu="9", owner="ReplicaSet/owner")
    daemon = pod("agent", cpu="1", on="a", owner="DaemonSet/owner")
    agents = head("DaemonSet", name="owner", namespace="default", uid="owner") | {
        "spec": {"selector": {"matchLabels": {"x": "y"}}, "template": {"spec": daemon["spec"] | {"nodeName": ""}}}
    }
    report = shrunk(plane, node("a"), node("b"), waiting, daemon, agents, owned("p", "1", "b"))

    assert why(report)["plane"] == ("control-plane", "")
    assert [name for name, _ in freed(report)] == ["a", "b"]


def test_a_node_stays_where_a_pod_that_waits_fits_once_it_is_empty_and_one_node_always_does() -> None:
    objects = (node("a"), node("b"), owned("p", "2", "a"), owned("q", "2", "b"))
    full = shrunk(*objects, pod("waits", cpu="3", owner="ReplicaSet/owner"))
    assert (freed(full), full.waiting) == ([], ("default/waits",))
    assert why(full) == dict.fromkeys("ab", ("pods-wait", "default/waits"))
    assert why(shrunk(*objects, pod("waits", cpu="9", owner="ReplicaSet/owner"))) == {"b": ("last", "")}
    assert [name for name, _ in freed(shrunk(node("a"), node("b"), node("c")))] == ["a", "b"]


def clusters() -> st.SearchStrategy[list[Object]]:
    def build(cpus: list[int], running: list[tuple[int, int, int]], least: int | None) -> list[Object]:
        objects = [node(f"n{i}", str(cpu)) for i, cpu in enumerate(cpus)]
        for i, (at, cpu, priority) in enumerate(running):
            objects.append(owned(f"p{i}", f"{cpu}00m", f"n{at % len(cpus)}", priority=priority))
        return objects if least is None else [*objects, budget("web", minAvailable=least)]

    running = st.tuples(st.integers(0, 4), st.integers(1, 19), st.integers(-1, 1))
    few = st.one_of(st.none(), st.integers(0, 6))
    return st.builds(build, st.lists(st.integers(1, 4), min_size=2, max_size=5), st.lists(running, max_size=7), few)


@settings(deadline=None, max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(clusters())
def test_what_goes_is_the_same_without_placing_in_a_copy_first(
    monkeypatch: pytest.MonkeyPatch, objects: list[Object]
) -> None:
    planner = planner_of(objects)
    quick = shrink_report(planner)
    with monkeypatch.context() as patched:
        patched.setattr(_Shrinking, "_without_place", lambda *_: None)
        plain = shrink_report(planner)

    assert quick.freed == plain.freed
    assert [stay.name for stay in quick.stays] == [stay.name for stay in plain.stays]
    assert quick.usage == plain.usage
    assert len(quick.freed) + len(quick.stays) == len(planner.objects.nodes)
    if quick.freed:
        rest = planner.drain([freed.name for freed in quick.freed[:1]])
        assert not rest.blocked
        assert all(pod.node for pod in rest.after)
