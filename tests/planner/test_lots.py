from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.planner.lots import Lots


def drawn(lots: Lots, sizes: list[int]) -> Counter[tuple[int, ...]]:
    """Carry all branches out: each draws one number for each size, and one more of each that it drew before."""
    found: Counter[tuple[int, ...]] = Counter()
    while True:
        draws = [lots.draw(size) for size in sizes]
        draws += [lots.draw(each + 1) for each in draws]
        assert tuple(draws) not in found, "a branch is carried out once"
        found[tuple(draws)] += lots.weight
        if not lots.advance():
            return found


@given(st.integers(1, 60), st.lists(st.integers(1, 5), max_size=4), st.integers(0, 9))
def test_every_run_is_in_one_branch(runs: int, sizes: list[int], seed: int) -> None:
    found = drawn(Lots(runs, seed), sizes)

    assert sum(found.values()) == runs
    assert found == drawn(Lots(runs, seed), sizes)


def test_one_run_draws_as_a_generator_with_that_seed_does() -> None:
    plain, lots = random.Random(5), Lots(1, 5)

    assert [plain.choice(range(7)) for _ in range(20)] == [lots.choice(range(7)) for _ in range(20)]
    assert [plain.randrange(2, 9, 2) for _ in range(9)] == [lots.randrange(2, 9, 2) for _ in range(9)]


@pytest.mark.parametrize("size", [2, 3, 7])
def test_each_run_draws_evenly(size: int) -> None:
    found = drawn(Lots(10_000, 3), [size])

    first = Counter[int]()
    for draws, n in found.items():
        first[draws[0]] += n
    assert all(abs(first[option] - 10_000 / size) < 300 for option in range(size))
