import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.decode import convert
from kplan.config.args import NodeResourcesBalancedAllocationArgs
from kplan.framework.interface import Scope
from kplan.plugins.node_resources_balanced_allocation import NodeResourcesBalancedAllocation

from .worlds import World, few, node, pod, pods, scored, worlds


def make(handle, *resources):
    names = [{"name": name} for name in resources or ("cpu", "memory")]
    return NodeResourcesBalancedAllocation(convert({"resources": names}, NodeResourcesBalancedAllocationArgs), handle)


RESOURCES = st.lists(
    st.sampled_from(["cpu", "memory", "ephemeral-storage", "example.com/gpu", "hugepages-2Mi"]),
    min_size=1,
    max_size=4,
    unique=True,
)


@few
@given(worlds(), pods(), RESOURCES)
def test_some_nodes_and_one_alone_are_scored_as_among_all(world, incoming, resources):
    plugin, rows = make(world.handle, *resources), list(range(len(world.nodes)))
    among_all = scored(plugin, world.cycle(incoming), world.view())
    for some in (rows[::-2], *([row] for row in rows)):
        expected = among_all and [among_all[row] for row in some]
        assert scored(plugin, world.cycle(incoming), world.view(some)) == expected


@few
@given(worlds(), st.lists(st.tuples(pods(), pods(), st.integers(0, 2)), max_size=4), RESOURCES)
def test_what_is_kept_of_the_cluster_follows_pods_that_come_and_go(world, steps, resources):
    plugin = make(world.handle, *resources)
    for incoming, arrival, row in steps:
        kept = scored(plugin, world.cycle(incoming), world.view())
        assert kept == scored(make(world.handle, *resources), world.cycle(incoming), world.view())
        cycle = world.cycle(arrival)
        world.cluster.bind(cycle.pod_id, row % len(world.nodes))
        if row == 2:
            world.cluster.unbind(cycle.pod_id)


@pytest.mark.parametrize(
    ("resources", "requests", "score"),
    [
        (["cpu"], {"cpu": "1"}, 75),
        (["cpu", "memory"], {"cpu": "1"}, 81),
        (["cpu", "memory", "example.com/gpu"], {"cpu": "1", "memory": "1Gi", "example.com/gpu": "1"}, 77),
        (["cpu", "memory", "hugepages-2Mi", "example.com/gpu"], {"cpu": "9", "example.com/gpu": "3"}, 65),
    ],
)
def test_scores(resources, requests, score):
    world = World(
        [node(cpu="4", memory="8Gi", **{"example.com/gpu": "4"})],
        {"node": [pod(requests={"cpu": "500m", "memory": "3Gi", "example.com/gpu": "1"})]},
    )
    assert scored(make(world.handle, *resources), world.cycle(pod(requests=requests)), world.view()) == [score]


@pytest.mark.parametrize(
    "requests", [pytest.param({}, id="nothing"), pytest.param({"example.com/gpu": "1"}, id="nothing that counts here")]
)
def test_pods_that_ask_for_nothing_are_not_scored(requests):
    world = World([node(cpu="4", memory="4Gi", **{"example.com/gpu": "2"})])
    plugin, cycle = make(world.handle), world.cycle(pod(requests=requests))
    assert scored(plugin, cycle, world.view()) is None
    assert plugin.score(cycle, world.view()).tolist() == [0], "with PreScore switched off"
    assert plugin.score_details(cycle, 0) == []


def test_devices_count_where_a_node_does_not_list_their_resource():
    fpgas = {"metadata": {"name": "fpgas"}, "spec": {"extendedResourceName": "example.com/fpga"}}
    world = World([node("devices", cpu="4"), node("none", cpu="4")], {}, [fpgas])
    world.handle.device_totals = lambda _: (np.asarray([4, 0]), np.asarray([1, 0]))
    plugin = make(world.handle, "cpu", "example.com/fpga")
    scores = scored(plugin, world.cycle(pod(requests={"cpu": "2", "example.com/fpga": "1"})), world.view())
    assert plugin.scope is Scope.CLUSTER
    # Shares of 0 and 0.25 become 0.5 and 0.5: 87 becomes 100.
    assert scores == [81, 75]


def test_score_details_say_how_full_the_node_is_and_would_be():
    world = World([node(cpu="4", memory="8Gi")], {"node": [pod(requests={"cpu": "1", "memory": "2Gi"})]})
    cycle = world.cycle(pod(requests={"cpu": "1"}))
    assert make(world.handle).score_details(cycle, 0) == [
        "cpu: 25% used, 50% of 4 with this pod",
        "memory: 25% used, 25% of 8Gi with this pod",
    ]
