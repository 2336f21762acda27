"""The order of a node's pods, held against plain lists."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.engine import cluster
from kplan.engine.cluster import NodePods

MOVES = st.tuples(st.sampled_from(["add", "leave", "turn", "copy", "grow"]), st.integers(0, 99))


@given(
    crowded=st.integers(0, 6),
    moves=st.lists(
        st.tuples(st.sampled_from(["add", "leave", "turn", "copy", "grow"]), st.integers(0, 99)), max_size=40
    ),
)
def test_the_last_pod_takes_the_place_of_one_that_leaves_and_copies_stay_as_they_are(
    crowded: int, moves: list[tuple[str, int]]
) -> None:
    pods = NodePods([[], []])
    plain: list[list[int]] = [[], []]
    copies: list[tuple[NodePods, list[list[int]]]] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "CROWDED", crowded)
        for number, (move, choice) in enumerate(moves):
            row = choice % len(plain)
            there = plain[row]
            if move == "add":
                pods.append(row, number)
                there.append(number)
            elif move == "leave" and there:
                leaving = choice % len(there)
                pods.take_out(row, there[leaving])
                there[leaving] = there[-1]
                there.pop()
            elif move == "turn":
                pods.reorder(row, there[::-1])
                there.reverse()
            elif move == "copy":
                copies.append((pods, [on.copy() for on in plain]))
                pods = pods.copy()
            elif move == "grow":
                pods = pods.grown(1)
                plain.append([])
    assert pods.lists == plain
    assert all(copied.lists == before for copied, before in copies)
