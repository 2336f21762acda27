import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.plugins.dynamic_resources.plugin import REASON_INVALID_POOLS
from kplan.plugins.dynamic_resources.plugin import REASON_NOT_ALLOCATED as NOTHING
from tests.oracle import devices as oracle

from .device_worlds import (
    DRIVER,
    DeviceWorld,
    allocation,
    claim,
    counters_slice,
    device,
    device_class,
    device_slice,
    first_of,
    many,
    pod,
    request,
)

SAME_KIND, OTHER_KINDS = {"matchAttribute": f"{DRIVER}/kind"}, {"distinctAttribute": f"{DRIVER}/kind"}
KIND = f'device.attributes["{DRIVER}"].kind'


def on_one_node(devices, *requests, constraints=(), others=(), classes=None, more=()):
    """Allocate one claim on one node with one pool; return its devices, or why there are none."""
    wanted = claim("c", *requests, constraints=constraints)
    world = DeviceWorld(["n"], device_slice("s", *devices, on="n"), *more, claims=[wanted, *others], classes=classes)
    rejections = world.rejections(pod("p", "c"))
    if rejections:
        return rejections["n"]
    world.place(pod("p", "c"))
    return [each.removeprefix("n/") for each in world.devices_of("c")]


A, B, C, D = (device(name, kind="x" if name in "ab" else "y", group=name > "b") for name in "abcd")


@pytest.mark.parametrize(
    ("requests", "devices"),
    [
        pytest.param([request()], ["a"], id="the first device that fits"),
        pytest.param([request(count=3)], ["a", "b", "c"], id="several, in order"),
        pytest.param([request(count=5)], NOTHING, id="more than there are"),
        pytest.param([request("r", 1, f'{KIND} == "y"')], ["c"], id="the first that a selector takes"),
        pytest.param([request("r", 2), request("s", 2)], ["a", "b", "c", "d"], id="requests share out"),
        pytest.param([request("r", "all")], ["a", "b", "c", "d"], id="all"),
        pytest.param([request("r", "all", f'{KIND} == "z"')], NOTHING, id="all of none is nothing"),
        pytest.param([request("r", "all"), request("s")], NOTHING, id="all leaves none"),
        pytest.param([request("r"), request("s", 1, f'{KIND} == "x"')], ["a", "b"], id="no way back needed"),
        pytest.param(
            [request("r"), request("s", 2, f'{KIND} == "x"')],
            ["c", "a", "b"],
            id="gives a device back for a later request",
        ),
        pytest.param(
            [first_of("r", request("many", 5), request("few", 2))], ["a", "b"], id="the first alternative that works"
        ),
        pytest.param(
            [first_of("r", request("big", 3), request("small", 1)), request("s", 2)],
            ["a", "b", "c"],
            id="an alternative gives way for a later request",
        ),
        pytest.param([request("r", adminAccess=True), request("s", 4)], NOTHING, id="watching takes in a claim"),
    ],
)
def test_which_devices_a_claim_gets(requests, devices):
    assert on_one_node([A, B, C, D], *requests) == devices


@pytest.mark.parametrize(
    ("constraint", "requests", "devices"),
    [
        pytest.param(SAME_KIND, [request(count=2)], ["a", "b"], id="match"),
        pytest.param(SAME_KIND, [request(count=3)], NOTHING, id="too few match"),
        pytest.param({"matchAttribute": f"{DRIVER}/none"}, [request()], NOTHING, id="no such attribute"),
        pytest.param(
            {**SAME_KIND, "requests": ["r"]},
            [request("r", 2), request("s")],
            ["a", "b", "c"],
            id="other requests are free",
        ),
        pytest.param(OTHER_KINDS, [request("r"), request("s")], ["a", "c"], id="distinct requests"),
        pytest.param(OTHER_KINDS, [request("r"), request("s"), request("t")], NOTHING, id="too few are distinct"),
        pytest.param(
            {**SAME_KIND, "requests": ["r/two"]},
            [first_of("r", request("two", 2)), request("s")],
            ["a", "b", "c"],
            id="an alternative by its full name",
        ),
    ],
)
def test_constraints_over_devices(constraint, requests, devices):
    assert on_one_node([A, B, C, D], *requests, constraints=[constraint]) == devices


@pytest.mark.parametrize(
    ("tolerations", "devices"),
    [
        ([], ["b"]),
        ([{"key": "broken", "operator": "Exists"}], ["a"]),
        ([{"operator": "Exists"}], ["a"]),
        ([{"key": "broken", "operator": "Exists", "effect": "NoExecute"}], ["b"]),
        ([{"key": "broken"}], ["a"]),
        ([{"key": "broken", "value": "very"}], ["b"]),
    ],
)
def test_tainted_devices_go_to_those_who_tolerate_them(tolerations, devices):
    assert on_one_node([device("a", taints=["broken"]), device("b")], request(tolerations=tolerations)) == devices


def test_devices_of_other_claims_are_taken_and_watched_ones_are_not():
    held = allocation(("n", "a"))
    watched = allocation(("n", "b"))
    watched["devices"]["results"][0]["adminAccess"] = True
    others = [claim("held", request(), allocation=held), claim("watching", request(), allocation=watched)]

    assert on_one_node([A, B], request(), others=others) == ["b"]
    assert on_one_node([A, B], request(adminAccess=True), others=others) == ["a"]


GPU = {"gpu": {"memory": "4", "cores": "8"}}


def partition(name, memory, cores="1"):
    return device(name, uses={"gpu": {"memory": memory, "cores": cores}})


@pytest.mark.parametrize(
    ("held", "requests", "devices"),
    [
        ([], [request(count=3)], ["pool/half", "pool/quarter", "pool/other-half"]),
        ([], [request(count=4)], NOTHING),
        (["half"], [request()], ["pool/quarter"]),
        (["half"], [request(count=3)], NOTHING),
        (["whole"], [request()], NOTHING),
    ],
)
def test_partitions_share_the_counters_of_their_pool(held, requests, devices):
    sizes = {"half": "2", "quarter": "0.5", "other-half": "1.5", "whole": "4"}
    parts = [partition(name, memory) for name, memory in sizes.items()]
    world = DeviceWorld(
        ["n"],
        counters_slice("counters", GPU, nodeName="n", count=2),
        device_slice("parts", *parts, on="n", pool="pool", count=2),
        claims=[
            claim("c", *requests),
            *(claim(f"of-{each}", request(), allocation=allocation(("pool", each))) for each in held),
        ],
    )

    found = world.rejections(pod("p", "c")) or (world.place(pod("p", "c")) and world.devices_of("c"))

    assert found == ({"n": devices} if isinstance(devices, str) else devices)


SHARED = {"memory": {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "1Gi"}}}


@pytest.mark.parametrize(
    ("amounts", "devices"),
    [
        pytest.param(["8Gi", "8Gi"], ["a", "b"], id="one each"),
        pytest.param(["4Gi", "4Gi", "8Gi"], ["a", "a", "b"], id="a device is filled first"),
        pytest.param(["7Gi", "1500Mi", "2Gi"], ["a", "b", "b"], id="rounded up to the step"),
        pytest.param([None, "7Gi", "8Gi"], ["a", "a", "b"], id="the default when nothing is asked"),
        pytest.param(["9Gi"], None, id="above the range"),
        pytest.param(["8Gi", "8Gi", "1Gi"], None, id="no room left"),
    ],
)
def test_shared_devices_are_filled_up(amounts, devices):
    shared = [device(name, shared=True, capacity={"memory": "8Gi"}, policies=SHARED) for name in "ab"]
    asked = [{} if each is None else {"capacity": {"requests": {"memory": each}}} for each in amounts]
    requests = [request(f"r{i}", **each) for i, each in enumerate(asked)]

    found = on_one_node(shared, *requests)

    assert found == (NOTHING if devices is None else devices)


def test_shares_that_others_hold_count():
    held = allocation(("n", "a"))
    held["devices"]["results"][0] |= {"shareID": "s", "consumedCapacity": {"memory": "6Gi"}}
    shared = [device("a", shared=True, capacity={"memory": "8Gi"})]
    others = [claim("held", request(), allocation=held)]

    assert on_one_node(shared, request(capacity={"requests": {"memory": "2Gi"}}), others=others) == ["a"]
    assert on_one_node(shared, request(capacity={"requests": {"memory": "3Gi"}}), others=others) == NOTHING
    assert on_one_node(shared, request(capacity={"requests": {"cores": "1"}}), others=others) == NOTHING


def test_pools_come_by_driver_and_name_and_those_with_binding_conditions_last():
    slow = {**device("d"), "bindingConditions": ["Attached"]}
    world = DeviceWorld(
        ["n"],
        device_slice("1", slow, on="n", pool="a"),
        device_slice("2", device("d"), on="n", pool="b"),
        device_slice("3", device("d"), on="n", pool="z", driver="a.example.com"),
        claims=[claim("c", request(count=3))],
    )
    world.place(pod("p", "c"))

    assert world.devices_of("c") == ["z/d", "b/d", "a/d"]


def test_every_search_error_names_claim_and_request():
    def error(*requests, **more):
        return on_one_node([A, B], *requests, **more)

    assert error(request("r", 33)).startswith("claim default/c: number of requested devices 33 exceeds the claim limit")
    assert error(request("r", 1, "1")).startswith("claim default/c: selector #0: CEL compile error: must evaluate to")
    assert error(request("r", 1, f"{KIND} > 1")).startswith("claim default/c: selector #0: CEL runtime error:")
    assert error(request(), classes=[device_class("gpu", "true", "1")]).startswith(
        "class gpu: selector #1: CEL compile"
    )
    assert error(request(), constraints=[{}]) == (
        "claim default/c, constraint #0: empty constraint (unsupported constraint type?)"
    )
    assert error({"name": "r", "exactly": {"deviceClassName": "gpu", "allocationMode": "Some"}}) == (
        "claim default/c, request r: unsupported count mode Some"
    )
    assert error(request("r", "all"), constraints=[{"matchAttribute": f"{DRIVER}/none"}]) == (
        f"claim default/c, request r: cannot add device {DRIVER}/n/a because a claim constraint would not be satisfied"
    )
    assert error(request("r", "all"), more=[device_slice("t", on="n", pool="late", count=2)]) == (
        f"claim default/c, request r: asks for all devices, but resource pool {DRIVER}/late is currently being updated"
    )


def test_invalid_pools_are_named_only_when_nothing_else_works():
    twins = device_slice("t", device("x"), device("x"), on="n", pool="twins")

    assert on_one_node([A], request(), more=[twins]) == ["a"]
    assert on_one_node([A], request(count=2), more=[twins]) == REASON_INVALID_POOLS


DEVICES = st.fixed_dictionaries(
    {"kind": st.sampled_from(["x", "y"]), "group": st.sampled_from([1, 2, None]), "slots": st.sampled_from([0, 1, 3])}
)


@st.composite
def problems(draw):
    """A node's devices and a claim; devices draw from a counter, or there are taints and constraints, not both.

    A device turned down for a taint or a constraint leaves its share of the counters drawn, as it does upstream,
    so with both a solution may be missed.
    """
    rule = draw(st.sampled_from(["", "match", "distinct"]))
    devices = [{"name": f"d{i}", **each} for i, each in enumerate(draw(st.lists(DEVICES, max_size=5)))]
    has_taints = draw(st.booleans())
    for each in devices:
        each["tainted"] = has_taints and draw(st.booleans())
        each["slots"] = 0 if has_taints or rule else each["slots"]
    wanted = st.fixed_dictionaries(
        {"kind": st.sampled_from(["x", "y"]), "count": st.sampled_from([1, 1, 2, 3, "all"]), "tolerates": st.booleans()}
    )
    requests = draw(st.lists(st.lists(wanted, min_size=1, max_size=2), min_size=1, max_size=3))
    if rule == "distinct":
        # Of several devices for one request only the last one is remembered, so one each is what the rule is good for.
        requests = [[{**each, "count": 1} for each in alternatives] for alternatives in requests]
    if rule == "match":
        # All devices that cannot be had because of a constraint are an error, not a search that fails.
        requests = [
            [{**each, "count": 1 if each["count"] == "all" else each["count"]} for each in alternatives]
            for alternatives in requests
        ]
    taken = draw(st.sets(st.sampled_from([each["name"] for each in devices]))) if devices else set()
    return devices, requests, taken, rule


@many
@given(problems())
def test_a_solution_is_found_exactly_when_there_is_one(problem):
    devices, requests, taken, rule = problem

    def made(each):
        group = {} if each["group"] is None else {"group": each["group"]}
        uses = {"gpu": {"slots": each["slots"]}} if each["slots"] else None
        return device(each["name"], uses=uses, taints=["t"] if each["tainted"] else (), kind=each["kind"], **group)

    def wanted(name, each):
        tolerations = [{"operator": "Exists"}] if each["tolerates"] else []
        return request(name, each["count"], f'{KIND} == "{each["kind"]}"', tolerations=tolerations)

    asked = [
        first_of(f"r{i}", *(wanted(f"a{j}", each) for j, each in enumerate(alternatives)))
        if len(alternatives) > 1
        else wanted(f"r{i}", alternatives[0])
        for i, alternatives in enumerate(requests)
    ]
    world = DeviceWorld(
        ["n"],
        counters_slice("counters", {"gpu": {"slots": 8}}, nodeName="n", count=2),
        device_slice("devices", *map(made, devices), on="n", pool="pool", count=2),
        claims=[
            claim("c", *asked, constraints=[{f"{rule}Attribute": f"{DRIVER}/group"}] if rule else []),
            *(claim(f"of-{each}", request(), allocation=allocation(("pool", each))) for each in taken),
        ],
    )

    possible = oracle.fits(devices, requests, taken=taken, match=rule == "match", distinct=rule == "distinct")

    assert (world.rejections(pod("p", "c")) == {}) == possible
