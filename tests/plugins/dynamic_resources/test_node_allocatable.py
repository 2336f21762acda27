from .device_worlds import DeviceWorld, claim, device, device_slice, node, pod, request

GATE = "DRANodeAllocatableResources"
SIZE = {"cpu": "4", "memory": "8Gi"}


def mapped(name, mappings, **more):
    return device(name, **more) | {"nodeAllocatableResourceMappings": mappings}


def using(name, *claims, requests=None, **spec):
    """Make a pod whose only container uses all its claims."""
    made = pod(name, *claims, containers=[requests or {}], **spec)
    made["spec"]["containers"][0]["resources"]["claims"] = [{"name": each} for each in claims]
    return made


def world(*devices, n_claims=2, gates=(GATE,)):
    claims = [claim(f"c{k}", request()) for k in range(n_claims)]
    return DeviceWorld([node("n", allocatable=SIZE)], device_slice("s", *devices, on="n"), claims=claims, gates=gates)


def test_a_device_that_hands_out_no_parts_cannot_stand_for_parts():
    there = world(mapped("a", {"cpu": {"capacityKey": "cores"}}))
    assert there.rejections(using("p", "c0"))["n"].startswith("claim default/c0, device a: ConsumedCapacity is nil")


def test_a_reservation_that_is_taken_back_leaves_the_pod_as_it_was():
    there = world(mapped("a", {"cpu": {"allocationMultiplier": "3"}}))
    cycle = there.cycle(using("p", "c0"))
    there.statuses(cycle)
    there.plugin.reserve(cycle, 0)
    assert there.cluster.pods.infos[cycle.pod_id].resources.requests["cpu"] == 3000
    there.plugin.unreserve(cycle, 0)
    assert there.cluster.pods.infos[cycle.pod_id] is cycle.pod
    assert there.plugin._holders.pods == set()
