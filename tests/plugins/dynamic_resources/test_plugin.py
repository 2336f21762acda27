from unittest import mock

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.time import Nanoseconds
from kplan.config.args import DynamicResourcesArgs
from kplan.engine.details import MissingDevices
from kplan.engine.view import NodeView
from kplan.framework.diagnosis import FilterOutcome
from kplan.framework.interface import StatusCode
from kplan.plugins.dynamic_resources import cluster_devices

from .device_worlds import (
    DRIVER,
    DeviceWorld,
    allocation,
    claim,
    device,
    device_class,
    device_slice,
    first_of,
    many,
    node,
    pod,
    request,
)

SIZE = f'device.attributes["{DRIVER}"].size'


def gpus(on, *sizes):
    return device_slice(on, *(device(f"gpu-{i}", size=size) for i, size in enumerate(sizes)), on=on)


def post_filter(world, incoming):
    """Ask PostFilter after all nodes were rejected: its text."""
    cycle = world.cycle(incoming)
    result = world.plugin.pre_filter(cycle)
    n_nodes = len(world.cluster)
    if result is not None:
        outcome = FilterOutcome(n_nodes, np.zeros(n_nodes, np.bool_), pre_filter_status=result.status)
    else:
        verdicts = world.plugin.filter(cycle, NodeView(world.cluster))
        outcome = FilterOutcome(n_nodes, verdicts.bits == 0, verdicts=[("DynamicResources", verdicts)])
    return world.plugin.post_filter(cycle, outcome).status


# --- before any node --------------------------------------------------------------------------------------------------


TEMPLATE = {"resourceClaims": [{"name": "g", "resourceClaimTemplateName": "t"}]}


@pytest.mark.parametrize(
    ("wanted", "code", "text"),
    [
        (request(of="none"), "UNSCHEDULABLE_AND_UNRESOLVABLE", "request r: device class none does not exist"),
        (
            first_of("r", request("a"), request("b", of="none")),
            "UNSCHEDULABLE_AND_UNRESOLVABLE",
            "request r/b: device class none does not exist",
        ),
        (request(of=""), "ERROR", "request r: unsupported request type"),
        ({"name": "r"}, "UNSCHEDULABLE_AND_UNRESOLVABLE", "resource claim default/c, request r: unknown request type"),
    ],
)
def test_requests_that_can_never_be_met_reject_the_pod(wanted, code, text):
    world = DeviceWorld(["n"], claims=[claim("c", wanted)])
    status = world.plugin.pre_filter(world.cycle(pod("p", "c"))).status
    assert (status.code, status.message) == (StatusCode[code], text)


# --- node by node -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("conditions", "allocated_at", "is_usable"),
    [
        ({}, "2026-01-01T11:59:00Z", True),
        ({}, "2026-01-01T11:49:00Z", False),
        ({}, None, True),
        ({"Attached": "False"}, "2026-01-01T11:49:00Z", False),
        ({"Attached": "True"}, "2026-01-01T11:49:00Z", True),
        ({"Attached": "True", "Failed": "True"}, "2026-01-01T11:59:00Z", False),
        ({"Attached": "False", "Failed": "False"}, "2026-01-01T11:59:00Z", True),
    ],
)
def test_devices_must_get_ready_within_ten_minutes(conditions, allocated_at, is_usable):
    waiting = allocation(("n", "gpu-0"), allocationTimestamp=allocated_at)
    waiting["devices"]["results"][0] |= {"bindingConditions": ["Attached"], "bindingFailureConditions": ["Failed"]}
    status = {
        "driver": DRIVER,
        "pool": "n",
        "device": "gpu-0",
        "conditions": [{"type": name, "status": state} for name, state in conditions.items()],
    }
    world = DeviceWorld(
        ["n"],
        gpus("n", 1),
        claims=[claim("c", request(), allocation=waiting, devices=[status] if conditions else [])],
        taken_at="2026-01-01T12:00:00Z",
    )

    assert (world.rejections(pod("p", "c")) == {}) == is_usable


def test_rejections_come_with_numbers():
    held = claim("held", request(), allocation=allocation(("n", "gpu-0")))
    world = DeviceWorld(
        ["n"], gpus("n", 1, 1, 2), claims=[held, claim("c", request("big", 2, f"{SIZE} == 1", of="gpu"))]
    )
    cycle = world.cycle(pod("p", "c"))
    world.plugin.pre_filter(cycle)

    (reason,) = world.plugin.filter(cycle, NodeView(world.cluster)).reasons_at(0)

    assert list(reason.details(0)) == [
        MissingDevices(
            claim="default/c",
            request="big",
            device_class="gpu",
            wanted="2",
            matching="2",
            free="1",
            held_by=("default/held",),
        ),
    ]


# --- when nothing fits ------------------------------------------------------------------------------------------------


def test_what_post_filter_says():
    mine = [{"resource": "pods", "name": "p", "uid": "uid-p"}]
    others = [*mine, {"resource": "pods", "name": "q", "uid": "uid-q"}]
    away = allocation(("n", "gpu-0"), on="elsewhere")
    world = DeviceWorld(
        ["n"],
        claims=[
            claim("c", request()),
            claim("alone", request(), allocation=away, reservedFor=mine),
            claim("shared", request(), allocation=away, reservedFor=others),
            claim("broken", request(of="none")),
        ],
    )

    assert post_filter(world, pod()).message == "no new claims to deallocate"
    assert post_filter(world, pod("p", "broken")).message == "no new claims to deallocate"
    assert post_filter(world, pod("p", "c")).message == "still not schedulable"
    assert post_filter(world, pod("p", "shared")).message == "still not schedulable"
    assert post_filter(world, pod("p", "alone")).message == "deallocation of ResourceClaim completed"
    never_asked = world.plugin.post_filter(world.cycle(pod()), FilterOutcome(1, np.zeros(1, np.bool_)))
    assert never_asked.status.code is StatusCode.ERROR
    assert never_asked.status.message == "not found"


# --- scores -----------------------------------------------------------------------------------------------------------


def score(world, incoming):
    cycle = world.cycle(incoming)
    world.statuses(cycle)
    view = NodeView(world.cluster)
    if world.plugin.constant_score(cycle) is not None:
        return None
    raw = world.plugin.score(cycle, view)
    return raw.tolist(), world.plugin.normalize_score(cycle, raw).tolist()


def test_allocated_alternatives_count_where_something_else_is_allocated():
    prefers = first_of("r", request("two", 2), request("one"))
    given = allocation(("n1", "gpu-0"))
    given["devices"]["results"][0]["request"] = "r/one"
    settled = claim("settled", prefers, allocation=given)
    world = DeviceWorld(["n1", "n2"], gpus("n1", 1, 1, 1), gpus("n2", 1), claims=[settled, claim("c", prefers)])
    assert score(world, pod("p", "settled")) == ([0, 0], [0, 0])
    assert score(world, pod("p", "settled", "c")) == ([15, 14], [100, 93])


def test_score_details_name_the_alternative():
    prefers = first_of("r", request("two", 2), request("one"))
    world = DeviceWorld(["n"], gpus("n", 1), claims=[claim("c", prefers)])
    cycle = world.cycle(pod("p", "c"))
    world.statuses(cycle)
    assert world.plugin.score_details(cycle, 0) == ["claim default/c: request r gets one, alternative 2 of 2"]


# --- the chosen node --------------------------------------------------------------------------------------------------


def test_the_claim_of_a_pod_that_leaves_stands_for_that_of_its_successor():
    mine = claim("mine", request(), owner="uid-p", reservedFor=[{"resource": "pods", "name": "p", "uid": "uid-p"}])
    world = DeviceWorld(["n"], gpus("n", 1), claims=[mine])
    status = [{"name": "g", "resourceClaimName": "mine"}]
    cycle = world.cycle(pod("p", **TEMPLATE, statuses=status))
    world.cluster.bind(cycle.pod_id, 0)
    successor = pod("again", **TEMPLATE, statuses=status)
    before = world.plugin.pre_enqueue(world.info(successor)).message
    world.cluster.unbind(cycle.pod_id)

    assert before == "ResourceClaim default/mine was not created for Pod default/again (Pod is not owner)"
    assert world.place(successor) == "n"


def test_the_shortest_time_for_a_search_is_a_step_and_not_none():
    args = DynamicResourcesArgs(filter_timeout=Nanoseconds(1))
    world = DeviceWorld(["n"], gpus("n", 1), claims=[claim("c", request())], args=args)
    assert world.rejections(pod("p", "c")) == {"n": "node n: timed out trying to allocate devices"}


SHAPES = [
    claim("c", request()),
    claim("c", request(count=2)),
    claim("c", request("r", 1, f"{SIZE} > 1")),
    claim("c", request("r", "all", f"{SIZE} == 1")),
    claim("c", first_of("r", request("two", 2, f"{SIZE} == 2"), request("one"))),
    claim("c", request("r", of="shared", capacity={"requests": {"memory": "2"}})),
    claim("c", request(count=2), constraints=[{"matchAttribute": f"{DRIVER}/size"}]),
    claim("c", request("r", of="part"), request("s", of="part")),
]


def _node_slices(name, sizes):
    """A node's devices: whole ones of some sizes, and parts that share a counter."""
    parts = [device(f"part-{i}", uses={"gpu": {"memory": memory}}) for i, memory in enumerate("223")]
    counters = {"name": "gpu", "counters": {"memory": {"value": "5"}}}
    return [
        gpus(name, *sizes),
        device_slice(f"{name}-parts", *parts, on=name, pool=f"{name}-parts", driver="part.example.com", count=2),
        device_slice(f"{name}-counters", on=name, pool=f"{name}-parts", driver="part.example.com", count=2,
                     sharedCounters=[counters]),
    ]  # fmt: skip


@many
@given(
    st.lists(st.lists(st.integers(1, 3), max_size=4), min_size=1, max_size=4),
    st.lists(st.tuples(st.sampled_from(SHAPES), st.booleans()), min_size=1, max_size=6),
    st.booleans(),
)
def test_what_is_kept_between_pods_never_changes_an_answer(nodes, steps, shares_searches):
    slices = [each for i, sizes in enumerate(nodes) for each in _node_slices(f"n{i}", sizes)]
    shared = [device(name, shared=True, capacity={"memory": "5"}, size=9) for name in "xy"]
    slices.append(device_slice("net", *shared, pool="net", driver="net.example.com", allNodes=True))
    classes = [
        device_class("gpu", f'device.driver == "{DRIVER}"'),
        device_class("part", 'device.driver == "part.example.com"'),
        device_class("shared", "device.allowMultipleAllocations"),
    ]
    claims = [
        {**shape, "metadata": {"name": f"c{i}", "namespace": "default", "uid": f"uid-c{i}"}}
        for i, (shape, _) in enumerate(steps)
    ]
    made = [node(f"n{i}") for i in range(len(nodes))]
    world = DeviceWorld(made, *slices, classes=classes, claims=claims)
    placed = []
    for i, (_, leaves) in enumerate(steps):
        current = [msgspec.json.decode(msgspec.json.encode(world.claim(f"c{j}"))) for j in range(len(steps))]
        fresh = DeviceWorld(made, *slices, classes=classes, claims=current)
        incoming = pod(f"p{i}", f"c{i}")

        with mock.patch.object(cluster_devices, "_COSTLY_TRIES", -1 if shares_searches else 10**6):
            rejections = world.rejections(incoming)
            name = world.place(incoming)

        assert rejections == fresh.rejections(incoming)
        assert name == fresh.place(incoming)
        if name is not None:
            assert world.devices_of(f"c{i}") == fresh.devices_of(f"c{i}")
            placed.append(len(world.cluster.node_of) - 1)
        if leaves and placed:
            world.cluster.unbind(placed.pop())
            world.plugin.pre_enqueue(world.info(pod()))
