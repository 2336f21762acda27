"""Where the search for nodes stops, and where the next one starts."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.framework.session import Sampling, num_feasible_nodes_to_find
from tests.recorded import examples


@pytest.mark.parametrize(
    ("percentage", "n_nodes", "expected"),
    [
        pytest.param(0, 99, 99, id="all of fewer than a hundred"),
        pytest.param(10, 99, 99, id="all of fewer than a hundred, whatever the percentage"),
        pytest.param(0, 100, 100, id="at least a hundred"),
        pytest.param(0, 1000, 420, id="50 - 1000/125 = 42 percent"),
        pytest.param(0, 5000, 500, id="50 - 5000/125 = 10 percent"),
        pytest.param(0, 6000, 300, id="never below 5 percent"),
        pytest.param(40, 1000, 400, id="a percentage of its own"),
        pytest.param(5, 1000, 100, id="at least a hundred, whatever the percentage"),
        pytest.param(100, 1000, 1000, id="all"),
        pytest.param(33, 1001, 330, id="rounded down"),
    ],
)
def test_how_many_feasible_nodes_are_enough(percentage, n_nodes, expected):
    assert num_feasible_nodes_to_find(percentage, n_nodes) == expected


@examples(150)
@given(st.data(), st.integers(0, 20), st.integers(1, 6))
def test_the_search_is_one_node_after_another_until_one_too_many_is_found(data, start, limit):
    n_nodes = data.draw(st.integers(0, 8))
    passes = np.asarray(data.draw(st.lists(st.booleans(), min_size=n_nodes, max_size=n_nodes)), np.bool_)
    order = data.draw(st.permutations(range(n_nodes)))[: data.draw(st.integers(0, n_nodes))]
    sampling = Sampling(start)

    seen, found = [False] * n_nodes, 0
    for step in range(len(order)):
        row = order[(start + step) % len(order)]
        found += passes[row]
        if found > limit:
            break
        seen[row] = True

    assert sampling.look(np.asarray(order, np.intp), passes, limit).tolist() == seen
    assert sampling.start_index == start


def test_the_next_search_starts_beyond_the_nodes_that_were_processed():
    sampling = Sampling(3)
    sampling.advance(4, 10)
    assert sampling.start_index == 7
    sampling.advance(5, 10)
    assert sampling.start_index == 2
