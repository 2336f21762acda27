"""A cluster that has settled: what its pods took is taken, for whoever comes next."""

import pytest

from kplan.course.snapshots import has_its_pod
from kplan.planner.planner import Planner
from kplan.snapshot import Snapshot
from tests.course.simulation.test_device_claims import DEVICES, trained
from tests.objects import node as device_node
from tests.objects import owned_by, planner_of, running
from tests.objects import pod as plain_pod
from tests.planner.test_plan_volumes import claim, node, pod, storage_class, volume

LOCAL = [
    storage_class("local", "kubernetes.io/no-provisioner"),
    *(node(name) for name in ("n1", "n2")),
    *(volume(f"pv-{name}", name, storageClassName="local") for name in ("n1", "n2")),
    *(claim(name, storageClassName="local") for name in ("a", "b", "c")),
    pod("first", "a"),
    pod("second", "b"),
]


def read_anew(snapshot: Snapshot) -> Planner:
    return planner_of(*snapshot)


def test_volumes_that_were_promised_are_bound() -> None:
    settled = planner_of(LOCAL).changed(settle=True)

    bound = {claim.metadata.name: claim.spec.volume_name for claim in settled.snapshot.persistent_volume_claims}
    assert sorted(filter(None, bound.values())) == ["pv-n1", "pv-n2"]
    assert bound["c"] == ""
    refs = {volume.metadata.name: volume.spec.claim_ref for volume in settled.snapshot.persistent_volumes}
    assert {ref.name for ref in refs.values() if ref is not None} == {"a", "b"}
    assert not [warning for warning in settled.snapshot.warnings if warning.code == "UnsettledClaims"]
    for planner in (settled, read_anew(settled.snapshot)):
        third = planner.place(pod("third", "c"))
        assert third.node is None
        assert "didn't find available persistent volumes to bind" in third.message
        assert planner.place(pod("beside", "a")).node == bound["a"].removeprefix("pv-")


def test_a_claim_that_is_to_be_provisioned_names_its_node_and_is_told() -> None:
    objects = [
        storage_class("disks", "disk.example.com"),
        *(node(name) for name in ("n1", "n2")),
        claim("a", storageClassName="disks"),
        pod("first", "a"),
    ]

    settled = planner_of(objects).changed(settle=True)

    [first] = settled.snapshot.pods
    assert settled.place(pod("beside", "a")).node == first.spec.node_name
    [warning] = [warned for warned in settled.snapshot.warnings if warned.code == "UnsettledClaims"]
    assert warning.object == "Pod/default/first"
    assert "made for its claims: a" in warning.message


@pytest.mark.parametrize("replicas", [1, 2])
def test_devices_that_were_allocated_are_taken(replicas: int) -> None:
    nodes = [device_node("n0", "8"), device_node("n1", "8")]
    web = running(trained(0), [])
    settled = planner_of(*nodes, *DEVICES, *web).changed(scale=[f"deployment/web={replicas}"], settle=True)

    allocated = [
        resource_claim
        for resource_claim in settled.snapshot.resource_claims
        if resource_claim.status.allocation is not None
    ]
    assert len(allocated) == replicas
    assert [bound.spec.node_name for bound in settled.snapshot.pods] == ["n0"] * replicas
    assert not [warning for warning in settled.snapshot.warnings if warning.code == "UnsettledClaims"]
    for planner in (settled, read_anew(settled.snapshot)):
        more = planner.roll_out([{**trained(1), "metadata": {"name": "more", "namespace": "default"}}])
        assert [pod_at_rest.node for pod_at_rest in more.after if pod_at_rest.new] == ["n0" if replicas == 1 else None]


def test_what_nobody_took_stays_the_same_object() -> None:
    planner = planner_of(LOCAL)
    settled = planner.changed(settle=True)
    before = {claim.metadata.name: claim for claim in planner.snapshot.persistent_volume_claims}
    after = {claim.metadata.name: claim for claim in settled.snapshot.persistent_volume_claims}
    assert [*after] == [*before]
    assert after["c"] is before["c"]
    assert settled.changed(settle=True).snapshot.digest == settled.snapshot.digest


def test_a_pod_that_the_scheduler_never_tried_is_tried() -> None:
    planner = planner_of(device_node("n0", "8"), plain_pod("low", cpu="8", nodeName="n0", priority=0))
    preempting = planner.changed(with_=[plain_pod("high", cpu="8", priority=10)], settle=True).snapshot
    waiting = planner.changed(with_=[plain_pod("low-too", cpu="8", priority=0)], settle=True).snapshot
    assert [(entry.metadata.name, entry.spec.node_name) for entry in preempting.pods] == [("high", "n0")]
    [condition] = waiting.pod_by_key["default/low-too"].status.conditions
    assert condition.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")


def test_claims_of_pods_that_are_gone_go_and_others_stay() -> None:
    owners = {"of-it": "Pod/first", "of-another": "Pod/gone", "of-a-set": "StatefulSet/db", "of-nobody": ""}
    claims = [claim(name) for name in owners]
    for one, owner in zip(claims, owners.values(), strict=True):
        one["metadata"]["ownerReferences"] = owned_by(owner) if owner else []
    held = planner_of(*claims).snapshot.persistent_volume_claims
    assert [one.metadata.name for one in held if has_its_pod(one, {"first"})] == ["of-it", "of-a-set", "of-nobody"]
