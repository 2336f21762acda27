import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kplan.odds.runs import Branch, BranchRandom, all_runs


def drawn(branch: Branch, seed: int, sizes: list[int]) -> dict[tuple[int, ...], list[int]]:
    """Carry all branches out: each draws one number for each size, and one more of each that it drew before."""
    generator = BranchRandom(branch, seed)
    found: dict[tuple[int, ...], list[int]] = {}
    while True:
        draws = as_drawn(generator, sizes)
        assert draws not in found, "a branch is carried out once"
        found[draws] = generator.runs.tolist()
        if not generator.advance():
            return found


def as_drawn(generator: BranchRandom, sizes: list[int]) -> tuple[int, ...]:
    draws = [generator.draw(size) for size in sizes]
    return (*draws, *(generator.draw(draw + 1) for draw in draws))


@given(st.integers(1, 60), st.lists(st.integers(1, 5), max_size=4), st.integers(0, 9))
def test_every_run_is_in_one_branch(runs: int, sizes: list[int], seed: int) -> None:
    found = drawn(all_runs(runs), seed, sizes)

    assert sorted(run for theirs in found.values() for run in theirs) == list(range(runs))
    assert found == drawn(all_runs(runs), seed, sizes)


@given(st.integers(1, 60), st.lists(st.integers(1, 5), max_size=4), st.integers(0, 9), st.integers(1, 4))
def test_a_run_draws_the_same_whoever_carries_it_out(runs: int, sizes: list[int], seed: int, parts: int) -> None:
    together = drawn(all_runs(runs), seed, sizes)
    apart: dict[tuple[int, ...], list[int]] = {}
    for part in range(parts):
        theirs = all_runs(runs).runs[part::parts]
        for draws, found in drawn(Branch(theirs), seed, sizes).items() if len(theirs) else ():
            apart.setdefault(draws, []).extend(found)

    assert {draws: sorted(found) for draws, found in apart.items()} == together


@given(st.integers(1, 60), st.lists(st.integers(1, 5), max_size=4), st.integers(0, 9))
def test_the_branches_that_leave_one_hold_all_other_runs(runs: int, sizes: list[int], seed: int) -> None:
    generator = BranchRandom(all_runs(runs), seed)
    found = {as_drawn(generator, sizes): generator.runs.tolist()}

    for other in generator.others():
        found |= drawn(other, seed, sizes)

    assert found == drawn(all_runs(runs), seed, sizes)


def test_one_run_draws_as_a_generator_with_that_seed_does() -> None:
    plain, generator = random.Random(5), BranchRandom(all_runs(1), 5, is_single=True)

    assert [plain.choice(range(7)) for _ in range(20)] == [generator.choice(range(7)) for _ in range(20)]
    assert [plain.randrange(2, 9, 2) for _ in range(9)] == [generator.randrange(2, 9, 2) for _ in range(9)]


@pytest.mark.parametrize("size", [2, 3, 7])
def test_each_run_draws_evenly_and_independently_of_its_other_draws(size: int) -> None:
    pairs: Counter[tuple[int, ...]] = Counter()
    for draws, runs in drawn(all_runs(10_000), 3, [size, size]).items():
        pairs[draws[:2]] += len(runs)
    assert len(pairs) == size**2
    expected = 10_000 / size**2
    assert all(abs(n - expected) < 5 * expected**0.5 for n in pairs.values())


def test_neighbouring_seeds_have_nothing_in_common() -> None:
    one, other = ({draws[0]: set(runs) for draws, runs in drawn(all_runs(4000), seed, [2]).items()} for seed in (7, 8))

    assert abs(len(one[0] & other[0]) - 1000) < 150
