"""What comes of many draws: in law, against plain answers, and told in a document."""

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kplan
from kplan.course.odds.report import wilson
from kplan.course.odds.runs import Branch, BranchRandom
from kplan.course.odds.tally import Rest
from kplan.questions import Plan
from tests.objects import node, planner_of, pod
from tests.scenarios import scenarios
from tests.schemas import assert_keeps_to_its_schema

AREAS = ("resources", "spread", "podaffinity", "mixed", "settle")

TWO_NODES = (node("a"), node("b"), pod("first", cpu="3"), pod("second", cpu="3"), pod("third", cpu="3"))
PODS = ["default/first", "default/second", "default/third"]


def test_shares_add_up_and_what_is_certain_is_certain() -> None:
    odds = planner_of(*TWO_NODES).odds(PODS, runs=200)
    assert [sum(counts.values()) for counts in odds.counts.values()] == [200, 200, 200]
    assert set(odds.counts["default/first"]) == set(odds.counts["default/second"]) == {"a", "b"}
    assert odds.counts["default/third"] == {Rest.PENDING: 200}
    assert abs(odds.counts["default/first"]["a"] - 100) < 30
    assert not odds.is_certain
    assert (odds.branches, len(odds.outcomes)) == (2, 1)


def test_where_nothing_is_drawn_the_answer_is_certain() -> None:
    odds = planner_of(node("a"), *TWO_NODES[2:]).odds(PODS, runs=200)
    assert odds.is_certain
    assert odds.branches == 1
    assert odds.to_dict()["summary"]["certain"] is True


def test_equal_seeds_draw_alike_and_others_do_not() -> None:
    planner = planner_of(*(node(name) for name in "abcdefgh"), *TWO_NODES[2:])
    assert planner.odds(PODS, runs=12, seed=3) == planner.odds(PODS, runs=12, seed=3)
    assert planner.odds(PODS, runs=12, seed=3) != planner.odds(PODS, runs=12, seed=4)


@pytest.mark.parametrize("area", AREAS)
def test_one_run_is_the_plain_answer_with_that_seed(area: str) -> None:
    for number, scenario in enumerate(scenarios(area)[:12]):
        snapshot, config = kplan.load_snapshot(scenario["objects"]), kplan.load_scheduler_config(scenario.get("config"))
        settles = scenario.get("settlePreemption", False)
        plain = kplan.Planner(snapshot, config, seed=number).plan(scenario["pods"], settle_preemption=settles)

        odds = kplan.Planner(snapshot, config).odds(scenario["pods"], runs=1, seed=number, settle_preemption=settles)

        last = {placement.pod.key: placement.node for placement in plain.placements}
        victims = {victim.key for placement in plain.placements for victim in placement.victims}
        for key, node_name in last.items():
            if key not in odds.victims:
                assert odds.counts[key] == {node_name or Rest.PENDING: 1}, scenario["id"]
        assert set(odds.victims) == (victims if settles else set()), scenario["id"]


@pytest.mark.parametrize("area", ["settle", "mixed"])
def test_one_run_of_a_queue_is_the_plain_answer_with_that_seed(area: str) -> None:
    for number, scenario in enumerate(scenarios(area)[:8]):
        snapshot, config = kplan.load_snapshot(scenario["objects"]), kplan.load_scheduler_config(scenario.get("config"))
        plain = kplan.Planner(snapshot, config, seed=number).plan_queue(recreate=False).report()

        odds = kplan.Planner(snapshot, config).odds(Plan(recreate=False), runs=1, seed=number)

        changes = {change.pod: change for change in plain.changes}
        for key, counts in odds.counts.items():
            if key not in odds.victims:
                assert counts == {changes[key].to_node or Rest.PENDING: 1}, scenario["id"]
        assert set(odds.victims) == {change.pod for change in plain.changes if change.by}, scenario["id"]


def test_every_run_is_one_that_a_seed_could_give() -> None:
    planner = planner_of(*(node(name) for name in "abc"), *TWO_NODES[2:])
    objects = (*(node(name) for name in "abc"), *TWO_NODES[2:])
    plain = {
        tuple(placement.node for placement in planner_of(*objects, seed=seed).plan(PODS).placements)
        for seed in range(60)
    }
    odds = planner.odds(PODS, runs=100)
    assert {tuple(outcome.placements[key] for key in PODS) for outcome in odds.outcomes} <= plain
    assert odds.branches == len(plain) == 6


def test_the_search_starts_anywhere_when_it_stops_early() -> None:
    nodes = [node(f"n{i:03}") for i in range(102)]
    config = kplan.load_scheduler_config(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "percentageOfNodesToScore": 10,
        }
    )
    planner = kplan.Planner(kplan.load_snapshot([*nodes, pod("p", cpu="1")]), config, sampling="as-configured")

    nodes = planner.odds(["default/p"], runs=750).counts["default/p"]

    assert len(nodes) == 102
    assert max(nodes.values()) < 25


@pytest.mark.parametrize(
    ("hits", "runs", "low", "high"),
    [(0, 10, 0, 0.2775), (10, 10, 0.7225, 1), (5, 10, 0.2366, 0.7634), (1, 1, 0.2065, 1)],
)
def test_intervals_are_wilsons(hits: int, runs: int, low: float, high: float) -> None:
    share = wilson(hits, runs)
    assert (share.runs, share.share) == (hits, hits / runs)
    assert (share.low, share.high) == (pytest.approx(low, abs=1e-4), pytest.approx(high, abs=1e-4))


def test_the_document_is_as_its_schema_says() -> None:
    document = planner_of(*TWO_NODES).odds(PODS, runs=100).to_dict()
    assert_keeps_to_its_schema(document)
    assert document["scheduler"]["ties"] == "even"
    assert document["verdict"]["because"] == ["default/third: Unschedulable in 100 of 100 runs"]
    assert [workload["allPlaced"]["share"] for workload in document["workloads"]] == [1, 1, 0]
    assert document["examples"][0]["pending"] == ["default/third"]


def all_runs(n: int) -> Branch:
    return Branch(np.arange(n, dtype=np.uint64))


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


def test_neighbouring_seeds_have_nothing_in_common() -> None:
    one, other = ({draws[0]: set(runs) for draws, runs in drawn(all_runs(4000), seed, [2]).items()} for seed in (7, 8))
    assert abs(len(one[0] & other[0]) - 1000) < 150
