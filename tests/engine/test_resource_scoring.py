"""What nodes have and what is taken of it, as scores of allocation see it."""

import numpy as np
import pytest

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.config.args import ResourceSpec
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.engine.resource_scoring import ResourceScoring
from kplan.engine.view import NodeView, PodDelta
from kplan.rules.pod_info import PodInfo

GPU = "example.com/gpu"
MIB = 2**20


def make_cluster():
    """Node a lists GPUs, b does not, c offers nothing; a pod that asks for half a CPU and a GPU runs on a."""
    offers = {"a": {"cpu": "4", "memory": "8", GPU: "2"}, "b": {"cpu": "2", "memory": "8"}, "c": {}}
    nodes = [
        convert({"metadata": {"name": name}, "status": {"allocatable": offer}}, Node) for name, offer in offers.items()
    ]
    container = {"name": "c", "resources": {"requests": {"cpu": "500m", GPU: "1"}}}
    pod = convert({"metadata": {"name": "p"}, "spec": {"nodeName": "a", "containers": [container]}}, Pod)
    return Cluster.build(NodeTable(nodes), [PodInfo(pod)])


def request(cluster, amounts, *names, **options):
    resources = [ResourceSpec(name=name, weight=weight) for weight, name in enumerate(names, start=1)]
    scoring = ResourceScoring(resources, **{"use_requested": True, **options})
    return scoring.request_for(cluster.nodes, amounts)


@pytest.mark.parametrize(
    ("amounts", "names", "weights"),
    [
        pytest.param({}, ("cpu", "memory"), (1, 2), id="cpu and memory count whether or not they are asked for"),
        pytest.param({GPU: 1}, ("cpu", "memory", GPU), (1, 2, 3), id="a scalar counts when it is asked for"),
        pytest.param({GPU: 0}, ("cpu", "memory"), (1, 2), id="asking for nothing is not asking"),
    ],
)
def test_which_resources_count(amounts, names, weights):
    found = request(make_cluster(), amounts, "cpu", "memory", GPU, "unheard-of")

    assert (found.names, found.weights) == (names, weights)
    assert found.requests.tolist() == [[amounts.get(name, 0)] for name in names]


def test_what_is_taken_and_what_there_is():
    cluster = make_cluster()
    capacities, allocated = request(cluster, {GPU: 1}, "cpu", GPU).on(NodeView(cluster))

    assert capacities.allocatable.tolist() == [[4000, 2000, 0], [2, 0, 0]]
    assert capacities.divisor.tolist() == [[4000, 2000, 1], [2, 1, 1]]
    assert capacities.weights.tolist() == [[1, 1, 0], [2, 0, 0]]
    assert capacities.weight_sum.tolist() == [3, 1, 1]
    assert not capacities.is_complete
    assert allocated.tolist() == [[500, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    ("use_requested", "memory"),
    [pytest.param(True, 0, id="as asked"), pytest.param(False, 200 * MIB, id="with defaults")],
)
def test_containers_that_ask_for_nothing(use_requested, memory):
    cluster = make_cluster()
    taken = request(cluster, {}, "cpu", "memory", use_requested=use_requested).on(NodeView(cluster)).allocated

    assert taken.tolist() == [[500, 0, 0], [memory, 0, 0]]


def test_some_nodes_in_a_world_of_their_own():
    cluster = make_cluster()
    view = NodeView(cluster, np.asarray([1, 0]), PodDelta.of([(0, 0, 1), (1, 0, -1)]))
    capacities, allocated = request(cluster, {GPU: 1}, "cpu", GPU).on(view)

    assert allocated.tolist() == [[500, 0], [1, 0]]
    assert (capacities.allocatable.tolist(), capacities.weight_sum.tolist()) == ([[2000, 4000], [0, 2]], [1, 3])


def test_devices_count_where_a_node_does_not_list_the_resource_itself():
    cluster = make_cluster()
    totals = {GPU: (np.asarray([9, 8, 0]), np.asarray([5, 3, 0]))}
    found = request(cluster, {GPU: 1}, "cpu", GPU, device_resources=frozenset({GPU}))
    capacities, allocated = found.on(NodeView(cluster), totals.__getitem__)

    assert capacities.allocatable[1].tolist() == [2, 8, 0]
    assert allocated[1].tolist() == [1, 3, 0]
    assert capacities.weight_sum.tolist() == [3, 3, 1]
    assert found.on(NodeView(cluster)).capacities.allocatable[1].tolist() == [2, 0, 0]
