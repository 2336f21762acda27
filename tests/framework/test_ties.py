"""The node that kube-scheduler's heap brings up first, against the heap itself."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from kplan.framework.session import first_up


def go_heap_top(scores: list[int]) -> int:
    """Make a heap as Go's container/heap.Init does, largest first, and return where its top came from."""
    heap = list(enumerate(scores))

    def down(i: int) -> None:
        while (child := 2 * i + 1) < len(heap):
            if child + 1 < len(heap) and heap[child + 1][1] > heap[child][1]:
                child += 1
            if not heap[child][1] > heap[i][1]:
                return
            heap[i], heap[child] = heap[child], heap[i]
            i = child

    for i in range(len(heap) // 2 - 1, -1, -1):
        down(i)
    return heap[0][0]


def first_on_heap(positions: np.ndarray[tuple[int], np.dtype[np.intp]]) -> int:
    """Return the index of the position that comes up first, of nodes that stand on the heap as in their table."""
    rows = np.arange(positions.max() + 1)
    first = first_up(positions, np.ones(len(rows), np.bool_), rows, rows)
    return int(np.flatnonzero(positions == first)[0])


@given(st.lists(st.integers(0, 2), min_size=1, max_size=70))
def test_the_top_is_that_of_gos_heap(scores: list[int]) -> None:
    best = np.flatnonzero(np.asarray(scores) == max(scores))
    assert best[first_on_heap(best)] == go_heap_top(scores)


@given(st.data(), st.permutations(range(7)), st.integers(0, 20))
def test_a_search_that_begins_later_goes_on_at_the_beginning(
    data: st.DataObject, listed: list[int], start: int
) -> None:
    feasible = data.draw(st.sets(st.integers(0, 6), min_size=1))
    ties = sorted(data.draw(st.sets(st.sampled_from(sorted(feasible)), min_size=1)))
    searched = [row for row in listed[start % 7 :] + listed[: start % 7] if row in feasible]
    is_feasible = np.isin(np.arange(7), list(feasible))
    found = first_up(np.asarray(ties), is_feasible, np.asarray(listed), np.argsort(listed), start)
    assert found == searched[go_heap_top([int(row in ties) for row in searched])]
