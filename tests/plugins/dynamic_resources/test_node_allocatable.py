import pytest

from .device_worlds import DeviceWorld, claim, device, device_slice, node, pod, request

GATE = "DRANodeAllocatableResources"
SHORT = "pod level request for cpu is insufficient"
SIZE = {"cpu": "4", "memory": "8Gi"}


def mapped(name, mappings, **more):
    return device(name, **more) | {"nodeAllocatableResourceMappings": mappings}


def cores(n="1"):
    return {"cpu": {"allocationMultiplier": n}}


def using(name, *claims, requests=None, **spec):
    """Make a pod whose only container uses all its claims."""
    made = pod(name, *claims, containers=[requests or {}], **spec)
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": each} for each in claims]
    return made


def world(*devices, n_claims=2, gates=(GATE,)):
    claims = [claim(f"c{k}", request()) for k in range(n_claims)]
    return DeviceWorld([node("n", allocatable=SIZE)], device_slice("s", *devices, on="n"), claims=claims, gates=gates)


def test_what_devices_take_of_the_node_counts_with_the_requests_of_the_containers():
    there = world(mapped("a", cores("3")), mapped("b", cores("3")))

    assert there.place(using("first", "c0", requests={"cpu": "500m"})) == "n"
    assert there.cluster.requested("cpu").tolist() == [3500]
    assert there.rejections(using("second", "c1")) == {"n": "Insufficient cpu"}


def test_an_amount_of_a_capacity_is_multiplied():
    shared = mapped(
        "m", {"memory": {"capacityKey": "bytes", "allocationMultiplier": "2"}}, capacity={"bytes": "8Gi"}, shared=True
    )
    wanted = request(capacity={"requests": {"bytes": "3Gi"}})
    there = DeviceWorld(
        [node("n", allocatable=SIZE)], device_slice("s", shared, on="n"), claims=[claim("c0", wanted)], gates=[GATE]
    )

    assert there.place(using("p", "c0")) == "n"
    assert there.cluster.requested("memory").tolist() == [6 * 2**30]


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (pod("p", "c0"), "claim c0: node-allocatable resource claim not referenced by any container within the pod"),
        (
            using("p", "c0", resources={"requests": {"cpu": "1"}}),
            f"{SHORT} to cover the aggregated container and node-allocatable DRA requests",
        ),
        (using("p", "c0", requests={"cpu": "3"}), "Insufficient cpu"),
    ],
)
def test_a_demand_that_does_not_add_up_is_rejected(made, reason):
    assert world(mapped("a", cores("2"))).rejections(made) == {"n": reason}


def test_a_device_that_hands_out_no_parts_cannot_stand_for_parts():
    there = world(mapped("a", {"cpu": {"capacityKey": "cores"}}))

    assert there.rejections(using("p", "c0"))["n"].startswith("claim default/c0, device a: ConsumedCapacity is nil")


def test_a_claim_for_resources_of_the_node_is_not_shared_until_its_pod_leaves():
    there = world(mapped("a", cores()))
    there.place(using("first", "c0"))

    assert there.rejections(using("second", "c0")) == {
        "n": "node allocatable resource claim c0 is already used by another pod"
    }
    assert there.rejections(using("first", "c0")) == {}


def test_without_the_gate_devices_stand_for_nothing():
    there = world(mapped("a", cores("9")), gates=())

    assert there.place(using("p", "c0")) == "n"
    assert there.cluster.requested("cpu").tolist() == [0]


def test_a_reservation_that_is_taken_back_leaves_the_pod_as_it_was():
    there = world(mapped("a", cores("3")))
    cycle = there.cycle(using("p", "c0"))
    there.statuses(cycle)
    there.plugin.reserve(cycle, 0)
    assert there.cluster.pods.infos[cycle.pod_id].resources.requests["cpu"] == 3000

    there.plugin.unreserve(cycle, 0)

    assert there.cluster.pods.infos[cycle.pod_id] is cycle.pod
    assert there.plugin._holders.pods == set()
