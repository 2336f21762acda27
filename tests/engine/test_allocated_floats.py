"""Allocated amounts as float64 are those of the cluster, whatever comes and goes."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.engine import resource_scoring
from kplan.engine.resource_scoring import AllocatedFloats
from tests.engine.crowds import PODS, STEPS, built, change
from tests.recorded import examples

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
            assert found.amounts.tolist() == (with_pod if scale is None else scale * (allocatable - with_pod)).tolist()
            assert (not found.fits) or (with_pod <= allocatable).all()


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
