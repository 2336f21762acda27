from .device_worlds import DeviceWorld, allocation, claim, device, device_class, device_slice, node, pod, request

GPU = "example.com/gpu"
FAST = 'device.attributes["gpu.example.com"].fast'


def totals(world, resource=GPU):
    capacity, in_use = world.handle.device_totals(resource)
    return capacity.tolist(), in_use.tolist()


def test_devices_of_a_class_are_counted_node_by_node():
    held = claim("held", request(), allocation=allocation(("n1", "a")))
    in_zone = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}
    world = DeviceWorld(
        [node("n1", zone="a"), node("n2")],
        device_slice("s", device("a", fast=True), device("b", fast=False), device("c", fast=True), on="n1"),
        device_slice("net", device("a", fast=True), pool="net", allNodes=True),
        device_slice("zone", device("a", fast=True), pool="zone", nodeSelector=in_zone),
        device_slice("own", device("a", fast=True) | {"nodeName": "n2"}, pool="own", perDeviceNodeSelection=True),
        classes=[device_class("gpu", FAST, extended=GPU)],
        claims=[held],
    )

    assert totals(world) == ([4, 2], [1, 0])
    assert totals(world, "example.com/other") == ([0, 0], [0, 0])


def test_a_device_that_cannot_be_judged_spoils_the_count_of_its_nodes():
    world = DeviceWorld(
        ["n1", "n2"],
        device_slice("s", device("a", fast=True), device("b"), on="n1"),
        device_slice("t", device("a", fast=True), on="n2"),
        classes=[device_class("gpu", FAST, extended=GPU)],
    )
    assert totals(world) == ([0, 1], [0, 0])


def test_counts_follow_what_is_allocated_and_given_back():
    world = DeviceWorld(
        ["n1"],
        device_slice("s", device("a"), device("b"), on="n1"),
        classes=[device_class("gpu", extended=GPU)],
        claims=[claim("c", request(count=2))],
    )
    before = totals(world)
    cycle = world.cycle(pod("p", "c"))
    world.statuses(cycle)
    world.plugin.reserve(cycle, 0)
    during = totals(world)
    world.plugin.unreserve(cycle, 0)

    assert (before, during, totals(world)) == (([2], [0]), ([2], [2]), ([2], [0]))


def test_a_device_that_can_be_shared_counts_for_scores_as_one_that_cannot():
    shared = "device.allowMultipleAllocations == true"
    slices = device_slice("s", device("a", shared=True), device("b", shared=True), on="n1")
    by_class = {
        "shared": device_class("shared", shared, extended=GPU),
        "alone": device_class("alone", f"!({shared})", extended=GPU),
    }
    counted = {name: totals(DeviceWorld(["n1"], slices, classes=[each])) for name, each in by_class.items()}
    assert counted == {"shared": ([0], [0]), "alone": ([2], [0])}
