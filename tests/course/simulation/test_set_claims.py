from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kplan
from kplan.api.labels import ZONE
from kplan.course.carried_out import CarriedOut
from kplan.documents.change import StepEvent, WorkloadState
from tests.objects import Object, deployment, head, node, owned_pod, planner_of, pod, quota, stateful_set
from tests.recorded import examples

NODES = ["n0", "n1", "n2"]


def database(
    replicas: int, *, image: str = "app:1", cpu: str = "500m", storage_class: str = "local", **settings: Any
) -> Object:
    """Write a stateful set whose pods mount a claim each."""
    found = stateful_set("db", replicas, image)
    container = found["spec"]["template"]["spec"]["containers"][0]
    container["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
    container["resources"]["requests"]["cpu"] = cpu
    found["spec"] |= {
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": wanted(storage_class)}],
        **settings,
    }
    return found


def wanted(storage_class: str, **more: str) -> Object:
    """Return the spec of a claim of a class."""
    size = {"requests": {"storage": "1Gi"}}
    return {"accessModes": ["ReadWriteOnce"], "storageClassName": storage_class, "resources": size, **more}


def storage_class(name: str, mode: str = "WaitForFirstConsumer", provisioner: str = "no-provisioner") -> Object:
    return head("StorageClass", name=name) | {
        "provisioner": provisioner if "." in provisioner else f"kubernetes.io/{provisioner}",
        "volumeBindingMode": mode,
    }


def volume(name: str, on: str, of: str = "local", *, bound_to: str = "") -> Object:
    affinity = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [on]}]}
    found: Object = head("PersistentVolume", name=name) | {
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": of,
            "local": {"path": f"/{name}"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [affinity]}},
        },
        "status": {"phase": "Bound" if bound_to else "Available"},
    }
    if bound_to:
        found["spec"]["claimRef"] = {"namespace": "default", "name": bound_to, "uid": f"uid-{bound_to}"}
    return found


def claim(name: str, of_volume: str) -> Object:
    bound = {"pv.kubernetes.io/bind-completed": "yes"}
    return head("PersistentVolumeClaim", name=name, namespace="default", uid=f"uid-{name}", annotations=bound) | {
        "spec": wanted("local", volumeName=of_volume),
        "status": {"phase": "Bound"},
    }


def pod_of(workload: Object, number: int, on: str) -> Object:
    """Write a running pod of the set, on a node."""
    made = owned_pod(workload, f"db-{number}", on, **{"apps.kubernetes.io/pod-index": str(number)})
    made["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": f"data-db-{number}"}}]
    return made


def standing(replicas: int, *further: Object, **settings: Any) -> kplan.Planner:
    """Return a cluster in which the pods of the set run on n0, n1, …, each with a local volume there."""
    workload = database(replicas, **settings)
    objects = [*(node(name, "8") for name in NODES), storage_class("local"), workload]
    objects += [pod_of(workload, number, NODES[number % 3]) for number in range(replicas)]
    for number in range(replicas):
        objects.append(volume(f"pv{number}", NODES[number % 3], bound_to=f"data-db-{number}"))
        objects.append(claim(f"data-db-{number}", f"pv{number}"))
    return planner_of(*objects, *further)


def nodes_of(change: CarriedOut) -> dict[str, str | None]:
    return {pod.name: pod.node for pod in change.after}


def claims_of(change: CarriedOut) -> dict[str, str | None]:
    claims = change.simulation.session.listers.persistent_volume_claims
    return {name: found.spec.volume_name for (_, name), found in claims.items()}


def test_a_set_comes_no_further_than_a_pod_that_it_once_took_over_without_its_claims() -> None:
    workload = database(1)
    first = pod_of(workload, 0, "n0")
    first["spec"]["volumes"] = []
    objects = [*(node(name, "8") for name in NODES), storage_class("local"), volume("spare", "n1"), workload, first]
    change = planner_of(objects).roll_out([database(2)])
    assert nodes_of(change) == {"db-0": "n0"}


DELETING = {"persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete", "whenDeleted": "Retain"}}


def test_claims_that_are_deleted_with_their_pods_leave_volumes_that_nobody_gets() -> None:
    cluster = standing(3, volume("spare", "n0"), **DELETING)
    small, large = database(2, **DELETING), database(3, **DELETING)
    assert "data-db-2" not in claims_of(cluster.roll_out([small]))
    again = cluster.roll_out([small, large])
    assert claims_of(again)["data-db-2"] == "spare"
    assert nodes_of(again)["db-2"] == "n0"


def being_deleted(name: str, of_volume: str) -> Object:
    going = claim(name, of_volume)
    return {**going, "metadata": {**going["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}}


def test_a_claim_that_waits_for_the_end_of_its_pod_is_made_anew() -> None:
    cluster = standing(3).changed(with_=[being_deleted("data-db-2", "pv2"), volume("spare", "n0")])
    drained = cluster.drain(["n2"])
    assert nodes_of(drained) == {"db-0": "n0", "db-1": "n1", "db-2": "n0"}
    assert claims_of(drained)["data-db-2"] == "spare"
    assert drained.steps[1].because == "pod 2 is missing, with new claim data-db-2"


def test_a_claim_that_is_being_deleted_stays_while_another_pod_uses_it() -> None:
    reader = pod_of(database(1), 0, "n1")
    reader["metadata"] = {"name": "reader", "namespace": "default", "uid": "reader"}
    reader["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data-db-2"}}]
    drained = standing(3, reader).changed(with_=[being_deleted("data-db-2", "pv2")]).drain(["n2"])
    assert claims_of(drained)["data-db-2"] == "pv2"
    refused = [step.because for step in drained.steps if step.event is StepEvent.REFUSED]
    assert refused == ["pvc data-db-2 is being deleted"]


@pytest.mark.parametrize(
    ("owner", "is_deleted"),
    [
        ({"kind": "StatefulSet", "name": "db", "uid": "s-db", "controller": True}, True),
        ({"kind": "StatefulSet", "name": "db", "uid": "of an older set", "controller": True}, False),
        ({"kind": "Pod", "name": "db-2", "uid": "db-2", "controller": True}, True),
        ({"kind": "Backup", "name": "b", "uid": "b", "controller": True}, False),
        ({"kind": "Backup", "name": "b", "uid": "b"}, True),
    ],
)
def test_claims_with_another_controller_are_left_alone(owner: Object, is_deleted: bool) -> None:
    owned = claim("data-db-2", "pv2")
    owned["metadata"]["ownerReferences"] = [{"apiVersion": "v1", **owner}]
    change = standing(3, **DELETING).changed(with_=[owned]).roll_out([database(2, **DELETING)])
    assert ("data-db-2" not in claims_of(change)) is is_deleted


def test_a_class_that_binds_at_once_takes_a_volume_before_the_pod_has_a_node() -> None:
    objects = [*(node(name, "8") for name in NODES), storage_class("now", "Immediate"), volume("v", "n1", "now")]
    change = planner_of(objects).roll_out([database(2, storage_class="now")])
    assert nodes_of(change) == {"db-0": "n1", "db-1": None}
    assert change.after[1].message.startswith("0/3 nodes are available: pod has unbound immediate")


def test_a_class_that_binds_at_once_prefers_few_access_modes_to_a_small_volume() -> None:
    def first_claim(*volumes: tuple[str, str, list[str]]) -> str | None:
        objects = [*(node(name, "8") for name in NODES), storage_class("now", "Immediate")]
        for name, size, modes in volumes:
            written = volume(name, "n1", "now")
            written["spec"] |= {"capacity": {"storage": size}, "accessModes": modes}
            objects.append(written)
        change = planner_of(objects).roll_out([database(1, storage_class="now")])
        return claims_of(change)["data-db-0"]

    once, both = ["ReadWriteOnce"], ["ReadWriteOnce", "ReadOnlyMany"]
    assert first_claim(("small", "1Gi", both), ("large", "9Gi", once)) == "large"
    assert first_claim(("large", "9Gi", once), ("small", "2Gi", once), ("tiny", "1Mi", once)) == "small"
    assert first_claim(("small", "1Gi", both), ("large", "9Gi", ["ReadWriteMany"])) == "small"


def test_a_provisioned_volume_can_move_where_its_driver_says() -> None:
    def driver(name: str, keys: list[str]) -> Object:
        drivers = [{"name": "csi.example.com", "nodeID": name, "topologyKeys": keys}]
        return head("CSINode", name=name, uid=name) | {"spec": {"drivers": drivers}}

    def second_pod(keys: list[str] | None, provisioner: str = "csi.example.com", key: str = "zone") -> str | None:
        zones = {"n0": "a", "n1": "a", "n2": "b"}
        nodes = [node(name, "1", labels={key: zone}) for name, zone in zones.items()]
        fast = storage_class("fast", provisioner=provisioner)
        objects = [*nodes, fast, *(driver(name, keys) for name in NODES if keys is not None)]
        one, none = database(1, storage_class="fast"), database(0, storage_class="fast")
        cluster = planner_of(*objects, filler("n1"), filler("n2"))
        assert nodes_of(cluster.roll_out([one]))["db-0"] == "n0"
        return nodes_of(cluster.roll_out([one, none, filler("n0"), one]))["db-0"]

    def filler(on: str) -> Object:
        return pod(f"fill-{on}", on, cpu="400m" if on != "n0" else "800m")

    assert second_pod(["zone"]) == "n1"
    assert second_pod([]) in ("n1", "n2")
    # Where no CSINode tells, volumes are of the zone, if there is one, unless they are local.
    assert second_pod(None, key=ZONE) == second_pod(None, "kubernetes.io/gce-pd", ZONE) == "n1"
    assert second_pod(None) is second_pod(None, "rancher.io/local-path", ZONE) is None


def test_what_the_api_server_says_about_a_claim_stops_the_pod() -> None:
    full = quota("few", "1", persistentvolumeclaims="1")
    change = standing(1, volume("spare", "n2"), full).roll_out([database(2)])
    assert change.workloads[0].state is WorkloadState.STUCK
    assert change.workloads[0].because == (
        'failed to create PVC data-db-1: persistentvolumeclaims "data-db-1" is forbidden: exceeded quota: few,'
        " requested: persistentvolumeclaims=1, used: persistentvolumeclaims=1, limited: persistentvolumeclaims=1"
    )


LEAST_CPU = head("LimitRange", name="small", namespace="default") | {
    "spec": {"limits": [{"type": "Container", "min": {"cpu": "800m"}}]}
}


def test_words_about_a_refused_pod_of_a_set_have_its_name() -> None:
    change = standing(1, LEAST_CPU).roll_out([database(2)])
    words = [step.because for step in change.steps if step.event is StepEvent.REFUSED]
    assert words == ['pods "db-1" is forbidden: minimum cpu usage per Container is 800m, but request is 500m']


def test_the_claims_of_a_refused_pod_are_told_of_no_other() -> None:
    change = standing(1, LEAST_CPU).roll_out([database(2), deployment("web", 1, cpu="900m")])
    assert "data-db-1" in claims_of(change)
    assert not any("claim" in step.because for step in change.steps if step.event is StepEvent.CREATED)


@examples(25)
@given(
    before=st.integers(0, 4),
    after=st.integers(0, 5),
    image=st.sampled_from(["app:1", "app:2"]),
    spare=st.lists(st.sampled_from(NODES), max_size=3),
)
def test_every_pod_runs_where_its_volume_is_and_no_volume_has_two_claims(
    before: int, after: int, image: str, spare: list[str]
) -> None:
    volumes = [volume(f"spare{number}", on) for number, on in enumerate(spare)]
    place_of = {f"spare{number}": on for number, on in enumerate(spare)}
    place_of |= {f"pv{number}": NODES[number % 3] for number in range(before)}

    change = standing(before, *volumes).roll_out([database(after, image=image)])

    claims = claims_of(change)
    bound = [name for name in claims.values() if name]
    assert len(bound) == len(set(bound))
    running = {name: on for name, on in nodes_of(change).items() if on is not None}
    assert running == {name: place_of[claims[f"data-{name}"] or ""] for name in running}
    assert len(running) == min(after, before + len(spare))
