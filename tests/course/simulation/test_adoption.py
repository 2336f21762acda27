from typing import Any

import kplan
from kplan.course.carried_out import CarriedOut
from kplan.documents.change import StepEvent
from tests.objects import Object, daemon_set, deployment, head, node, planner_of, running, stateful_set, template

NODES = ["n0", "n1", "n2"]


def orphan(name: str, on: str, *, app: str = "web", image: str = "app:1", **labels: str) -> Object:
    """Write a running pod that nobody controls; no node means pending."""
    spec = {**template(app, image)["spec"], "schedulerName": "default-scheduler"}
    if on:
        spec["nodeName"] = on
    return head("Pod", name=name, namespace="default", uid=name, labels={"app": app, **labels}) | {
        "spec": spec,
        "status": {"phase": "Running" if on else "Pending"},
    }


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
    wanted = stateful_set("db", 3)
    wanted["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/d"}]
    request = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    wanted["spec"]["volumeClaimTemplates"] = [{"metadata": {"name": "data"}, "spec": request}]
    change = planner(orphan("db-0", "n0", app="db")).roll_out([wanted])
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
