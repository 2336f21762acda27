"""The order of victims on many nodes at once is that of each node alone."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kplan.preemption.go_sort import go_sort
from kplan.preemption.importance import importance_order
from kplan.rules.pod_info import NO_START_TIME

PODS = st.tuples(st.sampled_from([-1, 0, 7]), st.sampled_from([None, 1, 1, 2, 3]))
IN_ORDER = st.lists(PODS, max_size=60).map(lambda pods: sorted(pods, key=lambda pod: (-pod[0], pod[1] or 9)))
GROUPS = st.lists(st.lists(PODS, max_size=20) | IN_ORDER, max_size=6)


def alone(pods):
    """Sort one node's pods with Go's algorithm, a pod without a start being earlier than others like it."""
    ranks = sorted({(-priority, start or 9) for priority, start in pods})
    keys = [2 * ranks.index((-priority, start or 9)) for priority, start in pods]
    return go_sort(keys, [key + (start is None) for key, (_, start) in zip(keys, pods, strict=True)])


@given(GROUPS)
def test_every_node_is_sorted_as_if_it_were_alone(groups):
    pods = [pod for group in groups for pod in group]
    starts = np.concatenate(([0], np.cumsum([len(group) for group in groups], dtype=int)))
    expected = [int(start) + index for start, group in zip(starts, groups, strict=False) for index in alone(group)]

    order = importance_order(
        np.repeat(np.arange(len(groups)), [len(group) for group in groups]),
        np.asarray([priority for priority, _ in pods], np.int64),
        np.asarray([NO_START_TIME if start is None else start for _, start in pods], np.int64),
    )

    assert order.tolist() == expected
