import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.decode import convert
from kplan.config.args import NodeResourcesFitArgs
from kplan.engine.resource_scoring import Capacities
from kplan.framework.interface import Scope
from kplan.plugins import node_resources_fit
from kplan.plugins.node_resources_fit import NodeResourcesFit
from tests.oracle import node_resources_fit as oracle
from tests.oracle.scheduler_world import NodeInfo

from .asking import changes, details, filtered
from .worlds import World, few, node, pod, pods, scored, worlds

UNRESOLVABLE = "UnschedulableAndUnresolvable"


def args(strategy="LeastAllocated", resources=(("cpu", 1), ("memory", 1)), points=(), **ignored):
    return convert({**ignored, "scoringStrategy": plain_strategy(strategy, resources, points)}, NodeResourcesFitArgs)


def plain_strategy(strategy, resources, points):
    return {
        "type": strategy,
        "resources": [{"name": name, "weight": weight} for name, weight in resources],
        "requestedToCapacityRatio": {"shape": [{"utilization": u, "score": s} for u, s in points]},
    }


def make(handle):
    return NodeResourcesFit(NodeResourcesFitArgs(), handle)


# --- filter -----------------------------------------------------------------------------------------------------------


@few
@given(worlds(), pods(), st.booleans())
def test_filter_equals_the_oracle_for_one_node_alone_and_among_all(world, incoming, ignores):
    ignored = {"ignoredResources": ["example.com/fpga"], "ignoredResourceGroups": ["example.com"]} if ignores else {}
    classes = ("example.com/fpga",) if world.device_classes else ()
    plugin, cycle = NodeResourcesFit(args(**ignored), world.handle), world.cycle(incoming)
    expected = [
        oracle.filter_node(incoming, world.plain(each), ("example.com",) if ignores else (), classes)
        for each in world.nodes
    ]
    assert filtered(plugin, cycle, world.view()) == expected
    assert [filtered(plugin, cycle, world.view([row])) for row in range(len(world.nodes))] == [[e] for e in expected]


def test_sums_that_wrap_around_do_so_for_one_node_as_for_all():
    world = World([node("a", cpu=str(2**53), memory=str(2**63 - 1))])
    world.cluster.requested("memory")[0] = -(2**62)
    plugin = NodeResourcesFit(args(), world.handle)
    incoming = pod(requests={"memory": "1"})
    among_all = world.ask(plugin, incoming)
    assert among_all
    assert filtered(plugin, world.cycle(incoming), world.view([0])) == among_all


@few
@given(st.data(), worlds(), pods())
def test_filter_sees_each_node_in_its_own_world(data, world, incoming):
    changed = data.draw(changes(world, st.lists(pods(), max_size=2)))
    answers = world.ask_changed(make(world.handle), incoming, changed)
    classes = ("example.com/fpga",) if world.device_classes else ()
    for change, answer in zip(changed, answers, strict=True):
        now = NodeInfo(world.nodes[change.row], world.after(change)[0])
        assert answer == oracle.filter_node(incoming, now, (), classes)


def test_more_kinds_of_resources_than_a_machine_word_has_bits():
    names = [f"example.com/r{index:02}" for index in range(70)]
    world = World([node(), node("rich", **dict.fromkeys(names, "1"))])
    answers = filtered(make(world.handle), world.cycle(pod(requests=dict.fromkeys(names, "1"))), world.view())
    assert answers == [(UNRESOLVABLE, [f"Insufficient {name}" for name in names]), None]


def test_details_say_what_is_asked_free_and_short():
    world = World([node(pods="1", cpu="4", memory="8Gi")], {"node": [pod(requests={"cpu": "3500m", "memory": "1Gi"})]})
    incoming = pod(requests={"cpu": "2", "memory": "7680Mi"})

    assert details(make(world.handle), world.cycle(incoming), world.view()) == [
        {
            "reason": "Too many pods", "resource": "pods", "requested": "1", "free": "0", "allocatable": "1",
            "short": "1",
        },
        {
            "reason": "Insufficient cpu", "resource": "cpu", "requested": "2", "free": "500m", "allocatable": "4",
            "short": "1500m",
        },
        {
            "reason": "Insufficient memory", "resource": "memory", "requested": "7680Mi", "free": "7Gi",
            "allocatable": "8Gi", "short": "512Mi",
        },
    ]  # fmt: skip


def test_the_shortfall_says_how_near_each_node_is():
    world = World([node("a", cpu="1"), node("b", cpu="3500m"), node("c", cpu="2")], {"c": [pod(requests={"cpu": "1"})]})
    plugin, cycle = make(world.handle), world.cycle(pod(requests={"cpu": "4"}))
    plugin.pre_filter(cycle)
    cpu = plugin.filter(cycle, world.view()).reasons[1]
    assert cpu.shortfall(np.asarray([2, 1, 0])).tolist() == [3000, 500, 3000]


# --- score ------------------------------------------------------------------------------------------------------------

STRATEGIES = st.sampled_from(["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"])
WEIGHTED = st.lists(
    st.tuples(st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/gpu"]), st.integers(1, 5)),
    min_size=1,
    max_size=4,
    unique_by=lambda each: each[0],
)
POINTS = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 10)), min_size=1, max_size=4, unique_by=lambda p: p[0])


@few
@given(worlds(), pods(), STRATEGIES, WEIGHTED, POINTS.map(sorted), st.sampled_from([0, 256]))
def test_score_equals_the_oracle(world, incoming, strategy, resources, points, many):
    plugin, rows = NodeResourcesFit(args(strategy, resources, points), world.handle), range(len(world.nodes))[::-2]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_resources_fit, "_MANY", many)
        scores = scored(plugin, world.cycle(incoming), world.view())
        of_some = scored(plugin, world.cycle(incoming), world.view(rows))
    assert scores == [
        oracle.score(incoming, world.plain(each), plain_strategy(strategy, resources, points)) for each in world.nodes
    ]
    assert of_some == [scores[row] for row in rows]
    assert all(0 <= each <= 100 for each in scores)


SCALES = st.sampled_from([1, 3, 2**10, 2**12 + 1])
"""Up to amounts of which a hundred times is as much as int64 holds."""


@given(st.data(), st.sampled_from(["LeastAllocated", "MostAllocated"]), st.integers(1, 3))
def test_many_nodes_score_as_few_do_whatever_the_amounts(data, strategy, n_resources):
    rows = st.lists(st.tuples(st.integers(1, 2**40), st.integers(-5, 2**40)), min_size=1, max_size=6)
    amounts = [data.draw(rows) for _ in range(n_resources)]
    width = min(map(len, amounts))
    allocatable = np.asarray([[has for has, _ in row[:width]] for row in amounts], np.int64) * data.draw(SCALES)
    requested = np.asarray([[taken for _, taken in row[:width]] for row in amounts], np.int64) * data.draw(SCALES)
    capacities = Capacities.of(allocatable, range(1, n_resources + 1))
    score = node_resources_fit.least_allocated_score
    if strategy == "MostAllocated":
        score = node_resources_fit.most_allocated_score

    few_nodes = score(requested.copy(), capacities).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node_resources_fit, "_MANY", 0)
        assert score(requested.copy(), capacities).tolist() == few_nodes


def test_devices_count_where_a_node_does_not_list_their_resource():
    fpgas = {"metadata": {"name": "fpgas"}, "spec": {"extendedResourceName": "example.com/fpga"}}
    world = World([node("devices"), node("lists-it", **{"example.com/fpga": "10"}), node("none")], {}, [fpgas])
    world.handle.device_totals = lambda _: (np.asarray([4, 4, 0]), np.asarray([1, 1, 0]))
    plugin = NodeResourcesFit(args("LeastAllocated", [("example.com/fpga", 1)]), world.handle)
    scores = scored(plugin, world.cycle(pod(requests={"example.com/fpga": "1"})), world.view())
    assert plugin.scope is Scope.CLUSTER
    assert scores == [50, 90, 0]


def test_score_details_say_how_full_the_node_would_be():
    world = World([node(cpu="4", memory="8Gi")], {"node": [pod(requests={"cpu": "1", "memory": "1Gi"})]})
    lines = make(world.handle).score_details(world.cycle(pod(requests={"cpu": "500m", "memory": "1Gi"})), 0)
    assert lines == ["cpu: 1500m of 4 with this pod", "memory: 2Gi of 8Gi with this pod"]
