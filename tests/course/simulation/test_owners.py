"""Whose pods are whose, how many of them a workload wants, and how many are made at most."""

from typing import Any

import pytest

import kplan
from kplan.course.carried_out import CarriedOut
from kplan.course.report import change_report
from kplan.course.simulation import owners
from kplan.documents.change import StepEvent, WorkloadState
from tests.course.simulation.test_set_claims import database
from tests.objects import (
    Object,
    daemon_set,
    deployment,
    head,
    job,
    node,
    owned_pod,
    planner_of,
    pod,
    running,
    scaler,
    stateful_set,
    template,
)

NODES = ["n0", "n1", "n2"]


def orphan(name: str, on: str, *, app: str = "web", image: str = "app:1", **labels: str) -> Object:
    """Write a running pod that nobody controls; no node means pending."""
    containers = template(app, image)["spec"]["containers"]
    return pod(name, on or None, labels={"app": app, **labels}, containers=containers)


def replica_set(name: str, replicas: int, **labels: str) -> Object:
    made = template(name)
    made["metadata"]["labels"] = {"app": name, **labels}
    return head("ReplicaSet", name=name, namespace="default", uid=f"rs-{name}", labels=made["metadata"]["labels"]) | {
        "spec": {"replicas": replicas, "selector": {"matchLabels": made["metadata"]["labels"]}, "template": made}
    }


def planner(*objects: Object) -> kplan.Planner:
    return planner_of(*(node(name, "8") for name in NODES), *objects)


def names(change: CarriedOut, *, new: bool | None = None) -> list[str]:
    return [pod.name for pod in change.after if new is None or pod.new is new]


def adopted(change: CarriedOut) -> list[tuple[str, str]]:
    return [(warning.object, warning.message) for warning in change.warnings if warning.code == "Adopted"]


def test_a_pod_whose_controller_is_a_deployment_leaves_its_replica_sets_alone() -> None:
    there = planner(*running(deployment("web", 2), NODES), pod("odd", "n2", owner="Deployment/web"))
    drained, applied = there.drain(["n0"]), there.roll_out([deployment("web", 2, image="app:2")])
    assert [len(names(change, new=True)) for change in (drained, applied)] == [1, 2]
    assert "odd" in names(drained)
    assert [(one.change.value, one.ready) for one in applied.workloads if one.kind == "Deployment"] == [("rollout", 2)]


def test_a_stateful_set_counts_no_pod_whose_name_is_not_that_of_one_of_its() -> None:
    db = stateful_set("db", 2)
    change = planner(db, *(owned_pod(db, name, "n0") for name in ("db-0", "db-abc"))).roll_out([stateful_set("db", 3)])
    assert names(change) == ["db-0", "db-1", "db-2", "db-abc"]


def test_of_many_that_are_taken_over_three_are_named() -> None:
    change = planner(*(orphan(f"w{number}", "n0") for number in range(5))).roll_out([replica_set("web", 5)])
    [(_, message)] = adopted(change)
    assert message.endswith(": w0, w1, w2 and 2 more")


def test_a_new_bare_pod_that_matches_is_one_too_many() -> None:
    cluster = planner(replica_set("web", 1))
    settled = cluster.changed(settle=True)
    bare = orphan("extra", "")
    del bare["status"], bare["metadata"]["uid"]
    change = settled.roll_out([bare])
    assert "extra" not in names(change)
    assert [step.pod for step in change.steps if step.event is StepEvent.DELETED] == ["default/extra"]


def test_a_stateful_set_replaces_orphans_whose_template_differs_only() -> None:
    first = planner().roll_out([stateful_set("db", 2)])
    revision = first.simulation.workloads.owner("StatefulSet/default/db").wanted.update
    labels = {"controller-revision-hash": revision}
    pods = [orphan(f"db-{number}", NODES[number], app="db", **labels) for number in range(2)]

    same = planner(*pods).roll_out([stateful_set("db", 2)])
    other = planner(*pods).roll_out([stateful_set("db", 2, "app:2")])

    assert [step for step in same.steps if step.pod] == []
    assert [step.pod for step in other.steps if step.event is StepEvent.DELETED] == ["default/db-1", "default/db-0"]
    assert names(other, new=True) == ["db-0", "db-1"]


def test_a_stateful_set_cannot_give_an_orphan_the_volumes_that_it_lacks() -> None:
    change = planner(orphan("db-0", "n0", app="db")).roll_out([database(3)])
    assert names(change) == ["db-0"]
    assert change.workloads[0].because.startswith('Pod "db-0" is invalid: spec: Forbidden: pod updates may not change')


def test_a_daemon_set_keeps_orphans_of_its_generation_whatever_their_template() -> None:
    labels = {"pod-template-generation": "1", "controller-revision-hash": "abc"}
    pods = [orphan(f"ag-{name}", name, app="ag", **labels) for name in NODES[:2]]
    change = planner(*pods).roll_out([daemon_set("ag", "app:2", maxUnavailable=1)])
    assert names(change, new=False) == ["ag-n0", "ag-n1"]
    assert [pod.node for pod in change.after if pod.new] == ["n2"]


def test_a_daemon_set_replaces_orphans_of_another_generation_and_template() -> None:
    labels = {"pod-template-generation": "7", "controller-revision-hash": "abc"}
    pods = [orphan(f"ag-{name}", name, app="ag", **labels) for name in NODES]
    assert names(planner(*pods).roll_out([daemon_set("ag", "app:2", maxUnavailable=1)]), new=False) == []
    assert names(planner(*pods).roll_out([daemon_set("ag", maxUnavailable=1)]), new=True) == []


def test_a_daemon_set_leaves_an_orphan_alone_that_is_meant_for_no_node() -> None:
    waiting = pod("ag", cpu="9", labels={"app": "ag"})
    change = planner(waiting).roll_out([daemon_set("ag", "app:2", maxUnavailable=1), daemon_set("ag", "app:3")])
    assert [pod.node for pod in change.after] == [None, *NODES]
    assert names(change, new=False) == ["ag"]


def orphaned_deployment() -> list[Object]:
    """Write what is left of a deployment that was deleted with ``--cascade=orphan``."""
    _, left, *pods = running(deployment("web", 3), NODES)
    del left["metadata"]["ownerReferences"]
    left["metadata"]["labels"] = left["spec"]["selector"]["matchLabels"]
    return [left, *pods]


def test_a_deployment_takes_over_the_replica_set_that_it_left_behind() -> None:
    change = planner(*orphaned_deployment()).roll_out([deployment("web", 4)])
    assert len(names(change, new=False)) == 3
    assert [pod.name.rpartition("-")[0] for pod in change.after if pod.new] == ["web-h1"]
    assert adopted(change)[0][0] == "Deployment/default/web"


def test_a_deployment_replaces_the_pods_of_an_older_template_that_it_left_behind() -> None:
    change = planner(*orphaned_deployment()).roll_out([deployment("web", 4, "app:2")])
    assert names(change, new=False) == []
    assert len(names(change, new=True)) == 4


def test_a_replication_controller_lets_pods_go_that_its_new_selector_does_not_match() -> None:
    def controller(**selector: str) -> Object:
        made = template("web")
        made["metadata"]["labels"] = {"app": "web", **selector}
        spec: dict[str, Any] = {"replicas": 1, "selector": made["metadata"]["labels"], "template": made}
        return head("ReplicationController", name="web", namespace="default", uid="rc") | {"spec": spec}

    cluster = planner(controller(), orphan("w1", "n0")).changed(settle=True)
    assert [pod.workload for pod in cluster.roll_out([]).after] == ["ReplicationController/default/web"]

    change = cluster.roll_out([controller(track="new")])
    assert names(change, new=False) == ["w1"]
    assert len(names(change, new=True)) == 1


def test_pods_that_were_taken_over_are_drained_as_those_of_their_new_owner() -> None:
    cluster = planner(replica_set("web", 1), orphan("w1", "n0")).changed(settle=True)
    change = cluster.drain(["n0"])
    assert change.blocked == {}
    assert len(names(change, new=True)) == 1


@pytest.mark.parametrize(("replicas", "ends_at"), [(1, 2), (2, 2), (5, 5), (9, 6), (0, 0)])
def test_a_number_of_replicas_beyond_the_bounds_ends_at_the_bound(replicas: int, ends_at: int) -> None:
    change = planner(*running(deployment("web", 3), NODES), scaler("web", 2, 6)).roll_out([deployment("web", replicas)])
    assert change.workloads[0].desired == ends_at
    assert len(change.after) == ends_at


def test_an_autoscaler_that_is_applied_scales_what_runs_already() -> None:
    change = planner(*running(deployment("web", 3), NODES)).roll_out([scaler("web", 5, 6)])
    assert len(change.after) == 5


def test_of_several_autoscalers_none_acts() -> None:
    cluster = planner(*running(deployment("web", 3), NODES), scaler("web", 5, 6), scaler("other", 5, 6, target="web"))
    assert len(cluster.roll_out([deployment("web", 1)]).after) == 1


def test_a_cluster_settles_within_the_bounds() -> None:
    settled = planner(*running(deployment("web", 3), NODES), scaler("web", 1, 2)).changed(settle=True)
    assert len(settled.roll_out([]).after) == 2


def test_a_replica_set_that_another_controller_of_the_name_made_is_not_the_deployments() -> None:
    _, replica_set, *pods = running(deployment("web", 2), NODES[:2])
    replica_set["metadata"]["ownerReferences"] = [{"kind": "Rollout", "name": "web", "controller": True}]
    plan = planner_of(*map(node, NODES), deployment("web", 0), replica_set, pods).drain(["n0"])
    assert [step.event for step in plan.steps] == ["evicted", "created", "bound"]


MOST = 2**31 - 1
SMALL = [node("n0", "8", pods="6"), node("n1", "8", pods="6")]


def parallel(name: str) -> Object:
    found = stateful_set(name, MOST)
    found["spec"]["podManagementPolicy"] = "Parallel"
    return found


RUNNING = running(deployment("web", 2), NODES[:2])
HUGE = {
    "a new deployment": ([], deployment("web", MOST)),
    "one that is scaled": (RUNNING, deployment("web", MOST)),
    "one that is rolled": (RUNNING, deployment("web", MOST, image="app:2")),
    "a set whose pods come all at once": ([], parallel("db")),
    "a job": ([], job("work", MOST)),
}


@pytest.mark.parametrize("name", HUGE)
def test_all_that_fits_is_placed_and_the_rest_is_counted(name: str) -> None:
    standing, manifest = HUGE[name]
    base = planner_of(SMALL, standing)
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
    change = planner_of(SMALL).roll_out([stateful_set("db", MOST)])
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
    change = planner_of(SMALL).roll_out([deployment("web", 30)])
    assert len(change.after) == 30
    assert change.workloads[0].pending == 18
