import copy
from typing import Any

import pytest
from msgspec.structs import replace

import kplan
from kplan.api.core import PodTemplateSpec
from kplan.api.names import WorkloadRef
from kplan.course.carried_out import CarriedOut
from kplan.course.simulation.templates import Templates
from kplan.snapshot.model import Snapshot
from kplan.snapshot.redact import redact_snapshot
from tests.course.simulation.test_owners import NODES, names, orphan
from tests.objects import Object, daemon_set, head, node, stateful_set

OWNER = {"apiVersion": "apps/v1", "controller": True}
DEFAULTS = {"restartPolicy": "Always", "terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler"}


def stored(workload: Object) -> Object:
    """Return a workload with the defaults of scheduling, as the API server stores it."""
    workload = copy.deepcopy(workload)
    workload["spec"]["template"]["spec"].update(DEFAULTS)
    return workload


def revision(workload: Object, number: int, digest: str, *, is_orphan: bool = False) -> Object:
    """Write the revision of a workload's template."""
    kind, name = workload["kind"], workload["metadata"]["name"]
    made = workload["spec"]["template"]
    hash_key = "controller-revision-hash" if kind == "DaemonSet" else "controller.kubernetes.io/hash"
    owners = [] if is_orphan else [{**OWNER, "kind": kind, "name": name, "uid": workload["metadata"]["uid"]}]
    return head(
        "ControllerRevision",
        name=f"{name}-{digest}",
        namespace="default",
        uid=f"{name}-{digest}",
        labels={**made["metadata"]["labels"], hash_key: digest},
        ownerReferences=owners,
    ) | {
        "data": {"spec": {"template": {"$patch": "replace", **stored(workload)["spec"]["template"]}}},
        "revision": number,
    }


def pod_of(workload: Object, name: str, on: str, image: str, label: str, *, is_orphan: bool = False) -> Object:
    pod = orphan(name, on, app=workload["metadata"]["name"], image=image, **{"controller-revision-hash": label})
    if not is_orphan:
        owner = {"kind": workload["kind"], "name": workload["metadata"]["name"], "uid": workload["metadata"]["uid"]}
        pod["metadata"]["ownerReferences"] = [{**OWNER, **owner}]
    return pod


def lean(snapshot: Snapshot) -> Snapshot:
    """Return a snapshot as it is after a live read: without the fields that scheduling does not read."""
    return replace(snapshot, whole={})


@pytest.fixture(params=["whole", "lean", "redacted"])
def as_read(request: pytest.FixtureRequest) -> Any:
    return {"whole": lambda snapshot: snapshot, "lean": lean, "redacted": redact_snapshot}[request.param]


def asked(objects: list[Object], manifests: list[Object], read: Any = lambda snapshot: snapshot) -> CarriedOut:
    snapshot = kplan.load_snapshot([*(node(name, "8") for name in NODES), *objects])
    return kplan.Planner(read(snapshot)).roll_out(manifests)


def half_rolled_out() -> list[Object]:
    """Write a daemon set in the middle of an update: one pod of three is new."""
    old, new = daemon_set("ag", maxUnavailable=1), daemon_set("ag", "app:2", maxUnavailable=1)
    pods = [pod_of(new, "ag-n0", "n0", "app:2", "newer")]
    pods += [pod_of(old, f"ag-{name}", name, "app:1", "older") for name in NODES[1:]]
    return [stored(new), revision(old, 1, "older"), revision(new, 2, "newer"), *pods]


def test_a_daemon_set_that_is_rolled_back_keeps_the_pods_of_that_revision() -> None:
    back = daemon_set("ag", maxUnavailable=1)
    assert names(asked(half_rolled_out(), [back]), new=False) == ["ag-n1", "ag-n2"]
    assert names(asked(half_rolled_out(), [back], lean), new=False) == ["ag-n1", "ag-n2"]


def test_a_daemon_set_whose_template_nobody_runs_yet_replaces_all_pods(as_read: Any) -> None:
    old, new = daemon_set("ag", maxUnavailable=1), daemon_set("ag", "app:2", maxUnavailable=1)
    pods = [pod_of(old, f"ag-{name}", name, "app:1", "older") for name in NODES]
    objects = [stored(new), revision(old, 1, "older"), revision(new, 2, "newer"), *pods]
    snapshot = as_read(kplan.load_snapshot([*(node(name, "8") for name in NODES), *objects]))
    after = kplan.Planner(snapshot).changed(settle=True).snapshot
    images = {container.image for pod in after.pods for container in pod.spec.containers}
    assert images == {container.image for container in snapshot.daemon_sets[0].spec.template.spec.containers}


def test_a_daemon_set_keeps_orphans_of_a_revision_that_was_orphaned_with_them() -> None:
    old = daemon_set("ag", maxUnavailable=1)
    pods = [pod_of(old, f"ag-{name}", name, "app:1", "older", is_orphan=True) for name in NODES]
    for pod in pods:
        pod["metadata"]["labels"]["pod-template-generation"] = "4"
    objects = [revision(old, 1, "older", is_orphan=True), *pods]
    assert names(asked(objects, [old]), new=True) == []
    assert names(asked(objects, [daemon_set("ag", "app:2", maxUnavailable=1)]), new=False) == []


def test_labels_tell_the_revision_of_an_orphan_and_not_its_fields() -> None:
    old = daemon_set("ag", maxUnavailable=1)
    pods = [pod_of(old, f"ag-{name}", name, "app:1", "another", is_orphan=True) for name in NODES]
    for pod in pods:
        pod["metadata"]["labels"]["pod-template-generation"] = "4"
    assert names(asked([revision(old, 1, "older", is_orphan=True), *pods], [old]), new=False) == []


def partly_updated() -> list[Object]:
    """Write a stateful set whose pods below its partition have an older revision; the first is missing."""
    old, new = stateful_set("db", 3), stateful_set("db", 3, "app:2")
    new["spec"]["updateStrategy"] = {"type": "RollingUpdate", "rollingUpdate": {"partition": 2}}
    new["status"] = {"currentRevision": "db-older", "updateRevision": "db-newer", "replicas": 3}
    pods = [pod_of(old, "db-1", "n1", "app:1", "db-older"), pod_of(new, "db-2", "n2", "app:2", "db-newer")]
    return [stored(new), revision(old, 1, "older"), revision(new, 2, "newer"), *pods]


def test_a_missing_pod_below_the_partition_has_the_template_of_its_revision(as_read: Any) -> None:
    snapshot = as_read(kplan.load_snapshot([*(node(name, "8") for name in NODES), *partly_updated()[:3]]))
    planner = kplan.Planner(snapshot).changed(settle=True)
    older, newer = (obj.data.spec.template.spec.containers[0].image for obj in snapshot.controller_revisions)
    images = [pod.spec.containers[0].image for pod in sorted(planner.snapshot.pods, key=lambda pod: pod.metadata.name)]
    assert images == [older, older, newer]
    assert "UnknownRevision" not in {warning.code for warning in planner.snapshot.warnings}


def test_a_stateful_set_does_not_take_revisions_of_an_earlier_one_of_its_name() -> None:
    old = stateful_set("db", 1)
    before = revision(old, 1, "older")
    before["metadata"]["ownerReferences"][0]["uid"] = "another"
    current = {**stored(old), "status": {"currentRevision": "db-x", "updateRevision": "db-x"}}
    pod = pod_of(old, "db-0", "n0", "app:1", "db-x")
    assert names(asked([current, before, pod], [{**old, "spec": {**old["spec"], "replicas": 2}}]), new=False) == [
        "db-0"
    ]


def test_of_revisions_that_differ_in_unread_fields_the_whole_template_decides() -> None:
    old, new = daemon_set("ag", maxUnavailable=1), daemon_set("ag", maxUnavailable=1)
    new["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "1"}]
    pods = [pod_of(old, f"ag-{name}", name, "app:1", "older") for name in NODES]
    objects = [stored(old), revision(old, 1, "older"), revision(new, 2, "newer"), *pods]
    assert names(asked(objects, [old]), new=True) == []
    assert names(asked(objects, [new]), new=False) == []


def test_the_name_of_a_revision_is_the_hash_of_what_go_writes() -> None:
    whole = {"template": {"metadata": {"annotations": {"x": "<&>"}}, "spec": {"containers": [{"name": "c"}]}}}
    templates, ref = Templates({"StatefulSet/a/db": whole}), WorkloadRef("StatefulSet", "a", "db")
    assert templates.stateful_revision(ref, PodTemplateSpec()) == "db-5557f7bdc8"


def test_what_other_programs_store_in_revisions_is_left_out() -> None:
    foreign: list[Object] = [
        (head("ControllerRevision", name=name, ownerReferences=[{"kind": kind, "name": "a", **owned}]) | {"data": data})
        for name, kind, owned, data in (
            ("a", "VirtualMachine", {"apiVersion": "kubevirt.io/v1", "controller": True}, {"spec": [1]}),
            (
                "b",
                "StatefulSet",
                {"apiVersion": "apps.kruise.io/v1beta1", "controller": True},
                {"spec": {"template": {"spec": {"overhead": {"cpu": "nonsense"}}}}},
            ),
            ("c", "StatefulSet", {}, {"spec": {"template": "text"}}),
        )
    ]
    snapshot = kplan.load_snapshot([node("n0", "8"), *foreign])

    assert snapshot.controller_revisions == ()
