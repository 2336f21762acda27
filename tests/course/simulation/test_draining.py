"""Drains where pods take time."""

from itertools import pairwise
from typing import Any

import pytest

import kplan
from kplan.changes.timed import Timed
from kplan.changes.values import Drain, Upgrade
from kplan.course.carried_out import CarriedOut
from kplan.course.carry_out import carry_out
from kplan.course.clock import Clock
from kplan.course.task import Task
from kplan.documents.change import StepEvent
from tests.objects import budget, deployment, node, planner_of, running

NODES = ["n0", "n1", "n2"]


def _planner(replicas: int, **rule: Any) -> kplan.Planner:
    web = running(deployment("web", replicas), NODES)
    return planner_of(*map(node, NODES), *web, budget("web", **rule))


def _drain(planner: kplan.Planner, *nodes: str, **fields: Any) -> CarriedOut:
    clock = Clock(start={"*": 6.0}, stop={"*": 2.0})
    return carry_out(planner, Task((Timed(0.0, Drain(tuple(nodes), **fields)),), clock))


def _times(plan: CarriedOut, event: StepEvent) -> list[float]:
    return [step.at for step in plan.steps if step.event is event and isinstance(step.at, float)]


def test_a_drain_that_is_blocked_for_ever_ends_with_what_holds_it_up() -> None:
    plan = _drain(_planner(3, minAvailable=3), "n0")
    assert list(plan.blocked) == ["default/web-h1-000"]
    assert plan.timeline.is_over
    assert plan.timeline.stuck_at == plan.timeline.end < 5


def test_a_drain_gives_up_at_the_first_try_after_its_timeout() -> None:
    plan = _drain(_planner(3, minAvailable=3), "n0", timeout=30.0)
    assert 30 <= plan.timeline.end < 36
    assert plan.blocked


def test_a_drain_goes_on_with_the_next_node_when_the_time_of_one_is_over() -> None:
    plan = _drain(_planner(3, minAvailable=3), "n0", "n1", timeout=20.0)
    begun = _node_times(plan, StepEvent.DRAINING)
    assert begun["n1"] == pytest.approx(begun["n0"] + 20.25, abs=0.3)  # at the first try after the timeout
    assert sorted(plan.blocked) == ["default/web-h1-000", "default/web-h1-001"]


def test_an_eviction_that_ends_with_an_error_is_not_tried_again_and_the_next_node_follows() -> None:
    twice = budget("web", maxUnavailable=1)
    twice["metadata"]["name"] = "again"
    web = running(deployment("web", 2), NODES[:2])
    other = running(deployment("other", 1), ["n1"])
    planner = planner_of(*map(node, NODES), *web, *other, budget("web", maxUnavailable=1), twice)

    plan = _drain(planner, "n0", "n1")

    assert len(plan.blocked) == 2
    assert [step.workload for step in plan.steps if step.event is StepEvent.EVICTED] == ["Deployment/default/other"]
    assert set(_node_times(plan, StepEvent.DRAINING)) == {"n0", "n1"}


def test_an_upgrade_has_surge_nodes_join_first_and_then_replaces_node_after_node() -> None:
    planner = _planner(3, maxUnavailable=1).changed(add_nodes=["1=n0"])
    surge = [name for name in planner.objects.node_by_name if name not in NODES]

    plan = _drain(planner, *NODES, upgrade=Upgrade(surge=surge, node_start=60.0))

    evicted = _times(plan, StepEvent.EVICTED)
    assert len(evicted) >= 3
    assert evicted[0] >= 60
    assert all(later - sooner >= 60 for sooner, later in pairwise(evicted) if later != sooner)
    assert plan.timeline.stuck_at is None
    assert plan.timeline.workloads["Deployment/default/web"].lowest_ready >= 2


def _node_times(plan: CarriedOut, event: StepEvent) -> dict[str, float]:
    return {step.node: step.at for step in plan.steps if step.event is event and not step.pod}


def test_further_nodes_are_drained_and_removed_when_the_others_are_back() -> None:
    planner = _planner(3, maxUnavailable=1).changed(add_nodes=["1=n0"])
    (further,) = [name for name in planner.objects.node_by_name if name not in NODES]
    plan = _drain(planner, *NODES, upgrade=Upgrade(surge=[further], node_start=60.0))
    back = _node_times(plan, StepEvent.ADDED)
    assert _node_times(plan, StepEvent.REMOVED)[further] > max(back[name] for name in NODES)
    assert {pod.node for pod in plan.after} <= set(NODES)
    assert plan.timeline.workloads["Deployment/default/web"].lowest_ready >= 2


def test_the_daemons_of_further_nodes_are_ready_after_their_node_and_not_before_the_change() -> None:
    planner = kplan.Planner("demo").changed(add_nodes="1=general-a-1")

    plan = _drain(planner, "general-a-1", upgrade=Upgrade(surge=["general-a-1-more-1"], node_start=60.0))

    ready = [step for step in plan.steps if step.event is StepEvent.READY and step.node == "general-a-1-more-1"]
    daemons = {step.workload: step.at for step in ready if step.workload.startswith("DaemonSet")}
    assert daemons.keys() == {"DaemonSet/kube-system/kube-proxy", "DaemonSet/monitoring/node-agent"}
    for workload, at in daemons.items():
        assert at == pytest.approx(66.0, abs=0.5)
        assert (
            plan.timeline.workloads[workload].ready_before,
            max(n for _, n in plan.timeline.workloads[workload].ready_over_time),
        ) == (12, 13)  # one node of the demo does not answer


def test_further_nodes_may_take_the_place_of_the_last_ones() -> None:
    planner = _planner(3, maxUnavailable=1).changed(add_nodes=["1=n0"])
    (further,) = [name for name in planner.objects.node_by_name if name not in NODES]
    plan = _drain(planner, *NODES, upgrade=Upgrade(surge=[further], node_start=60.0, keeps_surge=True))
    assert set(_node_times(plan, StepEvent.ADDED)) == {further, "n0", "n1"}
    assert further not in _node_times(plan, StepEvent.REMOVED)
    assert "n2" not in {pod.node for pod in plan.after}


def test_all_nodes_may_be_closed_at_first_and_the_next_one_follows_before_a_new_one_is_there() -> None:
    planner = _planner(3, maxUnavailable=1).changed(add_nodes=["2=n0"])
    surge = [name for name in planner.objects.node_by_name if name not in NODES]
    upgrade = Upgrade(surge=surge, node_start=60.0, cordons_all=True, pause=30.0, waits_for_nodes=False)

    plan = _drain(planner, *NODES, upgrade=upgrade)

    empty, gone = _node_times(plan, StepEvent.EMPTIED), _node_times(plan, StepEvent.REMOVED)
    begun = _node_times(plan, StepEvent.DRAINING)
    assert gone["n0"] == pytest.approx(empty["n0"] + 30)
    assert begun["n1"] == pytest.approx(gone["n0"], abs=0.5)
    first = [step.node for step in plan.steps if step.event is StepEvent.BOUND and step.at < begun["n1"]]
    assert set(first) <= set(surge)


def test_so_many_nodes_are_drained_at_a_time() -> None:
    begun = _node_times(
        _drain(_planner(3, maxUnavailable=3), *NODES, upgrade=Upgrade(parallel=2, node_start=60.0)), StepEvent.DRAINING
    )
    assert max(begun["n0"], begun["n1"]) < 1
    assert begun["n2"] >= 60


def test_nodes_that_were_closed_at_first_take_pods_again_when_they_come_back() -> None:
    planner = _planner(3, maxUnavailable=3).changed(add_nodes=["1=n0"])
    surge = [name for name in planner.objects.node_by_name if name not in NODES]
    plan = _drain(planner, *NODES, upgrade=Upgrade(surge=surge, is_replaced=False, cordons_all=True))
    assert set(_node_times(plan, StepEvent.ADDED)) == {*NODES, *surge}
    nodes = plan.simulation.session.cluster.nodes
    assert not any(nodes.unschedulable[nodes.row_of[name]] for name in NODES)


def test_a_node_that_cannot_be_emptied_may_take_pods_again() -> None:
    plan = _drain(_planner(3, minAvailable=3), *NODES, upgrade=Upgrade(timeout=20.0, uncordons_failed=True))
    assert list(_node_times(plan, StepEvent.NEEDED)) == ["n0"]
    assert not plan.simulation.session.cluster.nodes.unschedulable.any()


def test_an_upgrade_ends_at_a_node_that_cannot_be_emptied_unless_it_is_forced() -> None:
    planner = _planner(3, minAvailable=3)
    held_up = _drain(planner, *NODES, upgrade=Upgrade(timeout=20.0))
    forced = _drain(planner, *NODES, upgrade=Upgrade(timeout=20.0, is_forced=True))
    assert not _times(held_up, StepEvent.DELETED)
    assert [warning.object for warning in held_up.left_out] == ["Node/n1", "Node/n2"]
    assert len(_times(forced, StepEvent.DELETED)) >= 3
    assert not forced.blocked


@pytest.mark.parametrize(
    "upgrade",
    [{"keeps_surge": True}, {"cordons_all": True, "pause": 60.0, "waits_for_nodes": False}, {"uncordons_failed": True}],
)
def test_an_upgrade_with_slower_pods_never_ends_earlier_and_time_never_runs_back(upgrade: dict[str, Any]) -> None:
    ends = []
    for seconds in (0.0, 2.0, 20.0, 90.0):
        planner = _planner(6, maxUnavailable=1).changed(add_nodes=["2=n0"])
        surge = [name for name in planner.objects.node_by_name if name not in NODES]
        step = Drain(tuple(NODES), upgrade=Upgrade(surge=surge, node_start=45.0, **upgrade))
        plan = carry_out(planner, Task((Timed(0.0, step),), Clock(start={"*": seconds}, stop={"*": 2.0})))
        times = [step.at for step in plan.steps]
        assert times == sorted(times)
        ends.append(plan.timeline.end)
    assert ends == sorted(ends)
