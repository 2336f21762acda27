"""A plain answer tells what depends on draws, and pays nothing where none can matter."""

import pytest

import kplan
import kplan.odds.luck
from kplan.questions.preempt.question import Preempt
from tests.preemption.scenes import node, pod
from tests.scenarios import planner as of_scenario
from tests.scenarios import scenarios

HOSTNAME = "kubernetes.io/hostname"


def planner(*objects: dict, **options: object) -> kplan.Planner:
    return kplan.Planner(kplan.load_snapshot(list(objects)), **options)


#: The second pod needs all of n2, which the first takes in about half of all draws.
TIGHT = (node("n1"), node("n2"), pod("a", cpu="2"), pod("b", cpu="4", nodeSelector={HOSTNAME: "n2"}, priority=-1))


def test_a_queue_tells_which_pod_waits_in_how_many_draws() -> None:
    luck = planner(*TIGHT).plan_queue().to_dict()["luck"]

    assert [*luck["pending"]] == ["default/b"]
    assert 3 < luck["pending"]["default/b"] < 17
    assert luck["fails"] == luck["pending"]["default/b"]
    assert (luck["runs"], luck["evicted"]) == (20, {})


def test_pods_in_order_tell_it_too_and_with_the_order_it_may_not_matter() -> None:
    assert [*planner(*TIGHT).plan(["default/a", "default/b"]).to_dict()["luck"]["pending"]] == ["default/b"]
    assert "luck" not in planner(*TIGHT).plan(["default/b", "default/a"]).to_dict()


def test_preemption_tells_who_is_evicted_by_chance() -> None:
    running = [pod(f"low-{name}", on=name, cpu="3", start=1) for name in ("n1", "n2")]
    report = planner(node("n1"), node("n2"), *running, pod("high", cpu="3", priority=10)).ask(Preempt()).to_dict()

    assert {*report["luck"]["evicted"]} == {"default/low-n1", "default/low-n2"}
    assert sum(report["luck"]["evicted"].values()) == report["luck"]["runs"]


def test_an_answer_that_hardly_any_draw_gives_says_so() -> None:
    objects = [*(node(f"n{number:02}") for number in range(40)), pod("a", cpu="2")]
    first = planner(*objects).place("default/a").node
    pinned = pod("b", cpu="4", nodeSelector={HOSTNAME: first}, priority=-1)
    luck = planner(*objects, pinned).plan_queue().to_dict()["luck"]

    assert luck["pending"] == {"default/b": 0}
    assert luck["fails"] == 0


def test_where_more_nodes_fit_than_there_are_pods_nothing_is_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(*_: object, **__: object) -> None:
        raise AssertionError("no draw can matter here")

    monkeypatch.setattr(kplan.odds.luck, "odds_of", drawn)
    pods = [pod(f"p{number}", cpu="3") for number in range(3)]

    assert "luck" not in planner(*map(node, "abcde"), *pods).plan_queue().to_dict()
    with pytest.raises(AssertionError):
        planner(*map(node, "ab"), *pods).plan_queue().to_dict()


def test_a_long_answer_gets_fewer_draws() -> None:
    many = [pod(f"p{number:03}", cpu="1m", nodeSelector={HOSTNAME: "n3"}) for number in range(90)]
    luck = planner(*TIGHT, node("n3"), *many).plan_queue().to_dict()["luck"]

    assert luck["runs"] == 800 // 92


@pytest.mark.parametrize("area", ["resources", "taints", "ports", "mixed"])
def test_where_nothing_is_drawn_no_draw_changes_who_waits(area: str) -> None:
    roomy = 0
    for scenario in scenarios(area)[:60]:
        asked = of_scenario(scenario)
        plan = asked.plan(scenario["pods"])
        if plan.is_roomy and len(scenario["pods"]) > 1:
            roomy += 1
            odds = asked.odds(scenario["pods"], runs=30)
            assert not any("pending" in counts for counts in odds.counts.values())
    assert roomy
