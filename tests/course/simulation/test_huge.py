"""Workloads that ask for more pods than there can ever be."""

import copy

import pytest

from kplan.course.report import change_report
from kplan.course.simulation import owners
from kplan.documents.change import WorkloadState
from tests.objects import Object, deployment, node, planner_of, running, stateful_set, template

MOST = 2**31 - 1
NODES = [node("n0", "8", pods="6"), node("n1", "8", pods="6")]


def parallel(name: str) -> Object:
    found = stateful_set(name, MOST)
    found["spec"]["podManagementPolicy"] = "Parallel"
    return found


def job(name: str) -> Object:
    once = template(name)
    once["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": MOST, "completions": MOST, "template": once}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "default"}, "spec": spec}


WEB = deployment("web", 2)
RUNNING = running(WEB, ["n0", "n1"])
HUGE = {
    "a new deployment": ([], deployment("web", MOST)),
    "one that is scaled": (RUNNING, deployment("web", MOST)),
    "one that is rolled": (RUNNING, deployment("web", MOST, image="app:2")),
    "a set whose pods come all at once": ([], parallel("db")),
    "a job": ([], job("work")),
}


@pytest.mark.parametrize("name", HUGE)
def test_all_that_fits_is_placed_and_the_rest_is_counted(name: str) -> None:
    standing, manifest = HUGE[name]
    base = planner_of(*NODES, *standing)
    change = base.roll_out([manifest])
    report = change_report(change)

    (found,) = change.workloads
    assert found.state is WorkloadState.STUCK
    assert found.desired == MOST
    assert found.pending == MOST - 12
    assert sum(pod.node is not None for pod in change.after) == 12
    listed = sum(pod.node is None for pod in change.after)
    assert f"{MOST - 12 - listed} of its replicas were not tried one by one" in {
        warning.message for warning in report.warnings
    }


def test_a_set_in_order_waits_for_its_first_pod_without_room() -> None:
    change = planner_of(NODES).roll_out([stateful_set("db", MOST)])
    (found,) = change.workloads
    assert (found.desired, found.ready, found.pending) == (MOST, 12, 1)


def test_no_more_are_made_than_somebody_would_wait_for_where_room_has_no_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "MAX_REPLICAS", 40)
    endless = [node("big", cpu="9000000000", pods="9000000000")]
    change = planner_of(endless).roll_out([deployment("web", MOST)])
    assert len(change.after) == 40
    assert change.workloads[0].pending == MOST - 40


def test_workloads_that_can_be_are_carried_out_to_the_last_pod(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(owners, "MOST_WAITING", 5)
    change = planner_of(NODES).roll_out([copy.deepcopy(deployment("web", 30))])
    assert len(change.after) == 30
    assert change.workloads[0].pending == 18
