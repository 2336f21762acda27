"""Searches that go on for long: what they remember changes no answer, and what they cannot finish they give up."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.time import Nanoseconds
from kplan.config.args import DynamicResourcesArgs
from kplan.plugins.dynamic_resources import allocator, cluster_devices

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
    node,
    pod,
    request,
)

GROUP = f"{DRIVER}/group"
ADMIN = {"adminAccess": True}


@st.composite
def worlds(draw):
    """Draw devices of few kinds and claims that ask for much of them, so that searches turn back often."""
    devices = []
    for number in range(draw(st.integers(3, 7))):
        shared = draw(st.sampled_from([None, None, True]))
        devices.append(
            device(
                f"d{number}",
                group=draw(st.integers(0, 2)),
                capacity={"memory": "4"} if shared else None,
                shared=shared,
                uses=draw(st.sampled_from([None, {"card": {"slots": "1"}}, {"card": {"slots": "2"}}])),
                taints=draw(st.sampled_from([(), (), ("worn",)])),
            )
        )
    pool = [
        device_slice("devices", *devices, on="n", count=2),
        counters_slice("counters", {"card": {"slots": str(draw(st.integers(2, 6)))}}, pool="n", count=2, nodeName="n"),
    ]
    claims = [draw(claims_named(f"c{number}")) for number in range(draw(st.integers(1, 2)))]
    return pool, claims


@st.composite
def claims_named(draw, name):
    requests = []
    for number in range(draw(st.integers(1, 4))):
        own = [request(f"r{number}", draw(st.integers(1, 3)), **draw(st.sampled_from([{}, {}, ADMIN, memory("2")])))]
        if draw(st.booleans()):
            own.append(request("other", draw(st.integers(1, 2))))
            requests.append(first_of(f"r{number}", *(without_admin(each) for each in own)))
        else:
            requests.append(own[0])
    names = [each["name"] for each in requests]
    kinds = st.sampled_from(["matchAttribute", "distinctAttribute"])
    some = st.lists(st.sampled_from(names), unique=True, max_size=2)
    constraints = [{draw(kinds): GROUP, "requests": draw(some)} for _ in range(draw(st.integers(0, 2)))]
    return claim(name, *requests, constraints=constraints)


def memory(amount):
    return {"capacity": {"requests": {"memory": amount}}}


def without_admin(wanted):
    return {**wanted, "exactly": {key: each for key, each in wanted["exactly"].items() if key != "adminAccess"}}


def outcome(pool, claims, args=None):
    """Return why the node is rejected, or the devices of each claim."""
    world = DeviceWorld(["n"], *pool, claims=claims, args=args)
    incoming = pod("p", *(each["metadata"]["name"] for each in claims))
    rejections = world.rejections(incoming)
    if rejections:
        return rejections
    world.place(incoming)
    return [world.devices_of(each["metadata"]["name"]) for each in claims]


@many
@given(worlds(), st.sampled_from([1, 5, 20, 50, 100, 400, 10**7]))
def test_remembering_changes_neither_what_is_found_nor_when_time_is_up(drawn, n_steps):
    pool, claims = drawn
    args = DynamicResourcesArgs(filter_timeout=Nanoseconds(1000 * n_steps))
    found = []
    for before in (0, 10**9):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(allocator, "_BEFORE_REMEMBERING", before)
            found.append(outcome(pool, claims, args))

    assert found[0] == found[1]


def test_a_search_through_unlike_devices_is_given_up_after_so_many_steps(monkeypatch):
    monkeypatch.setattr(cluster_devices, "_MAX_EXECUTED", 1000)
    devices = [device(f"d{i}", group=i % 9, capacity={"memory": str(2**i)}) for i in range(40)]
    pools = [device_slice(name, *devices, on=name, pool=name) for name in ("n1", "n2")]
    wanted = claim(
        "c", *(request(f"r{i}") for i in range(12)), constraints=[{"distinctAttribute": GROUP, "requests": []}]
    )

    def rejections(seconds):
        args = DynamicResourcesArgs(filter_timeout=Nanoseconds(seconds * 10**9))
        world = DeviceWorld(["n1", "n2"], *pools, claims=[wanted], args=args)
        return world.rejections(pod("p", "c"))

    assert rejections(10) == {name: f"node {name}: timed out trying to allocate devices" for name in ("n1", "n2")}
    assert rejections(0) == {
        name: f"node {name}: gave up the search for devices after 1000 steps" for name in ("n1", "n2")
    }


def test_later_nodes_get_less_time_once_some_were_given_up(monkeypatch):
    monkeypatch.setattr(cluster_devices, "_MAX_EXECUTED", 400)
    names = [f"n{i}" for i in range(6)]
    unlike = [device(f"d{i}", group=i % 4, capacity={"memory": str(2**i)}) for i in range(30)]
    pools = [device_slice(name, *unlike, on=name, pool=name) for name in names]
    held = [claim(f"held-{i}", request(), allocation=allocation((name, f"d{i}"))) for i, name in enumerate(names)]
    wanted = claim(
        "c", *(request(f"r{i}") for i in range(8)), constraints=[{"distinctAttribute": GROUP, "requests": []}]
    )
    world = DeviceWorld(
        [node(name) for name in names],
        *pools,
        classes=[device_class()],
        claims=[*held, wanted],
        args=DynamicResourcesArgs(filter_timeout=Nanoseconds(0)),
    )

    texts = world.rejections(pod("p", "c"))

    assert [text.rpartition(" after ")[2] for text in texts.values()] == ["400 steps"] * 3 + ["48 steps"] * 3
    alone = world.statuses(world.cycle(pod("q", "c")), rows=[5])
    assert alone == {"n5": ["node n5: gave up the search for devices after 400 steps"]}
