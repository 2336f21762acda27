"""A plain answer tells what depends on draws, and pays nothing where none can matter."""

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import kplan
import kplan.course.odds.luck
from kplan.course.odds.tally import Rest
from kplan.questions import Drain, Plan
from kplan.questions.preempt import Preempt
from tests.objects import node, planner_of, pod
from tests.recorded import examples

HOSTNAME = "kubernetes.io/hostname"

#: The second pod needs all of n2, which the first takes in about half of all draws.
TIGHT = (node("n1"), node("n2"), pod("a", cpu="2"), pod("b", cpu="4", nodeSelector={HOSTNAME: "n2"}, priority=-1))


def test_a_queue_tells_which_pod_waits_in_how_many_draws() -> None:
    luck = planner_of(*TIGHT).plan_queue().to_dict()["luck"]
    assert [*luck["pending"]] == ["default/b"]
    assert 3 < luck["pending"]["default/b"] < 17
    assert luck["fails"] == luck["pending"]["default/b"]
    assert (luck["runs"], luck["evicted"]) == (20, {})


def test_pods_in_order_tell_it_too_and_with_the_order_it_may_not_matter() -> None:
    assert [*planner_of(*TIGHT).plan(["default/a", "default/b"]).to_dict()["luck"]["pending"]] == ["default/b"]
    assert "luck" not in planner_of(*TIGHT).plan(["default/b", "default/a"]).to_dict()


def test_preemption_tells_who_is_evicted_by_chance() -> None:
    running = [pod(f"low-{name}", on=name, cpu="3", start=1) for name in ("n1", "n2")]
    report = planner_of(node("n1"), node("n2"), *running, pod("high", cpu="3", priority=10)).ask(Preempt()).to_dict()
    assert {*report["luck"]["evicted"]} == {"default/low-n1", "default/low-n2"}
    assert sum(report["luck"]["evicted"].values()) == report["luck"]["runs"]


def test_a_drain_tells_which_pod_it_cannot_evict_by_chance() -> None:
    planner = planner_of(node("n1"), node("n2"), pod("a", cpu="3"), pod("b", cpu="3"))
    luck = planner.ask(Drain(nodes=("n1",), how="replace")).luck
    assert {*luck.blocked} == {"default/a", "default/b"}
    assert sum(luck.blocked.values()) == luck.runs


def test_an_answer_that_hardly_any_draw_gives_says_so() -> None:
    objects = [*(node(f"n{number:02}") for number in range(40)), pod("a", cpu="2")]
    first = planner_of(*objects).place("default/a").node
    pinned = pod("b", cpu="4", nodeSelector={HOSTNAME: first}, priority=-1)
    luck = planner_of(*objects, pinned).plan_queue().to_dict()["luck"]
    assert luck["pending"] == {"default/b": 0}
    assert luck["fails"] == 0


def test_where_more_nodes_fit_than_there_are_pods_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*_: object, **__: object) -> None:
        raise AssertionError("no draw can matter here")

    monkeypatch.setattr(kplan.course.odds.luck, "odds_of", drawn)
    pods = [pod(f"p{number}", cpu="3") for number in range(3)]

    assert "luck" not in planner_of(*map(node, "abcde"), *pods).plan_queue().to_dict()
    with pytest.raises(AssertionError):
        planner_of(*map(node, "ab"), *pods).plan_queue().to_dict()


def test_a_long_answer_gets_fewer_draws() -> None:
    many = [pod(f"p{number:03}", cpu="1m", nodeSelector={HOSTNAME: "n3"}) for number in range(90)]
    luck = planner_of(*TIGHT, node("n3"), *many).plan_queue().to_dict()["luck"]
    assert luck["runs"] == 800 // 92


@examples(60)
@given(
    st.lists(st.integers(1, 6), min_size=3, max_size=8),
    st.lists(st.tuples(st.integers(1, 5), st.booleans(), st.booleans()), min_size=2, max_size=4),
)
def test_where_nothing_is_drawn_no_draw_changes_who_waits(
    sizes: list[int], wishes: list[tuple[int, bool, bool]]
) -> None:
    nodes = [node(f"n{at}", cpu=str(cpu), labels={"half": str(at % 2)}) for at, cpu in enumerate(sizes)]
    pods = [
        pod(f"p{at}", cpu=str(cpu), ports=[80] * has_port, nodeSelector={"half": "0"} if is_picky else {})
        for at, (cpu, has_port, is_picky) in enumerate(wishes)
    ]
    asked = planner_of(*nodes, *pods)
    keys = [f"default/p{at}" for at in range(len(pods))]
    if asked.plan(keys).is_roomy:
        event("roomy")
        assert not any(Rest.PENDING in counts for counts in asked.odds(keys, runs=30).counts.values())
        assert not any(
            Rest.PENDING in counts
            for counts in asked.odds(Plan(pods=tuple(keys), only_these=True), runs=30).counts.values()
        )
