"""What nodes have and what is taken of it, as scores of allocation see it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.api.core import Node, Pod
from kplan.api.decode import convert
from kplan.config.args import ResourceSpec, UtilizationShapePoint
from kplan.engine import resource_scoring
from kplan.engine.cluster import Cluster
from kplan.engine.node_table import NodeTable
from kplan.engine.resource_scoring import AllocatedFloats, ResourceScoring, utilization_table
from kplan.engine.view import NodeView, PodDelta
from kplan.rules.pod_info import PodInfo
from tests.engine.crowds import PODS, STEPS, built, change
from tests.recorded import examples

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


def test_some_nodes_in_a_world_of_their_own():
    cluster = make_cluster()
    view = NodeView(cluster, np.asarray([1, 0]), PodDelta.of([(0, 0, 1), (1, 0, -1)]))
    capacities, allocated = request(cluster, {GPU: 1}, "cpu", GPU).on(view)
    assert allocated.tolist() == [[500, 0], [1, 0]]
    assert (capacities.allocatable.tolist(), capacities.weight_sum.tolist()) == ([[2000, 4000], [0, 2]], [1, 3])


RESOURCES = ("cpu", "memory")


@pytest.mark.parametrize("most_followed", [0, 1, 32])
@pytest.mark.parametrize("scale", [None, 100])
@examples(60)
@given(st.integers(1, 4), STEPS, st.lists(STEPS, max_size=4), PODS)
def test_amounts_with_a_pod_are_those_of_whole_numbers(most_followed, scale, n_nodes, steps, more, pod):
    cluster = built(n_nodes, steps)
    columns = [cluster.requested(name) for name in RESOURCES]
    allocatable = np.stack([cluster.nodes.allocatable(name) for name in RESOURCES])
    requests = [pod.resources.requests.get(name, 0) for name in RESOURCES]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(resource_scoring, "_MAX_FOLLOWED", most_followed)
        floats = AllocatedFloats(cluster, columns, allocatable, scale)
        for changes in ([], *more):
            for step in changes:
                change(cluster, step)
            with_pod = np.stack(columns) + np.asarray(requests)[:, None]
            found = floats.with_pod(requests)

            assert found is not None
            amounts, fits = found
            assert amounts.tolist() == (with_pod if scale is None else scale * (allocatable - with_pod)).tolist()
            assert (not fits) or (with_pod <= allocatable).all()


@pytest.mark.parametrize(
    ("allocated", "allocatable", "wanted"),
    [
        pytest.param(-1, 10, 1, id="a sum that has wrapped around"),
        pytest.param(2**53, 2**54, 1, id="more than float64 holds"),
        pytest.param(1, 10, 2**60, id="a request beyond that"),
    ],
)
def test_what_is_not_exact_is_not_answered(allocated, allocatable, wanted):
    cluster = built(1, [])
    floats = AllocatedFloats(cluster, [np.asarray([allocated])], np.asarray([[allocatable]]))
    assert floats.with_pod([wanted]) is None


@pytest.mark.parametrize(
    ("points", "at", "expected"),
    [
        pytest.param([(0, 0), (100, 10)], [0, 29, 100], [0, 29, 100], id="a straight line"),
        pytest.param([(0, 10), (100, 0)], [0, 29, 100], [100, 71, 0], id="falling"),
        pytest.param([(40, 0), (60, 10)], [0, 40, 45, 60, 99], [0, 0, 25, 100, 100], id="flat outside its points"),
        pytest.param([(0, 10), (70, 0)], [1, 2], [99, 98], id="a fall is cut off toward zero: -100/70 is -1"),
    ],
)
def test_the_score_of_a_utilization_is_read_off_a_broken_line(
    points: list[tuple[int, int]], at: list[int], expected: list[int]
) -> None:
    shape = [UtilizationShapePoint(utilization=utilization, score=score) for utilization, score in points]
    assert utilization_table(shape)[at].tolist() == expected
