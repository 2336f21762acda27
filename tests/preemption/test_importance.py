"""The order of victims on many nodes at once is that of each node alone."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kplan.engine.pod_info import NO_START_TIME
from kplan.preemption.go_sort import go_sort
from kplan.preemption.importance import importance_order

PODS = st.tuples(st.sampled_from([-1, 0, 7]), st.sampled_from([None, 1, 1, 2, 3]))
IN_ORDER = st.lists(PODS, max_size=60).map(lambda pods: sorted(pods, key=lambda pod: (-pod[0], pod[1] or 9)))
GROUPS = st.lists(st.lists(PODS, max_size=20) | IN_ORDER, max_size=6)


def alone(pods):
    """Sort one node's pods with Go's algorithm and the comparison as it is written upstream."""

    def less(i, j):
        (priority, start), (other_priority, other_start) = pods[i], pods[j]
        if priority != other_priority:
            return priority > other_priority
        if other_start is None:
            return True
        return start is not None and start < other_start

    order = list(range(len(pods)))
    go_sort(order, less)
    return order


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
