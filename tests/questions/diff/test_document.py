"""Two answers compared: laws, and what is told to tip it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import kplan
from kplan.capacity.counting import Template
from kplan.course.queue_course import queue_report
from kplan.course.report import change_report
from kplan.documents.base import Report
from kplan.documents.diff import Difference, DiffReport
from kplan.documents.kinds import REPORTS
from kplan.errors import UsageError
from kplan.planner.planner import Planner
from kplan.questions.capacity import Capacity
from kplan.questions.check import Budgets, Check, Checks, Surge
from kplan.questions.diff.document import COMPARED, ComparedAnswer, _both, diff_report
from kplan.questions.diff.facts import _of_capacity
from kplan.questions.drain import Runbook
from kplan.questions.place.view import clusters_report
from kplan.questions.preempt import Preempt
from kplan.questions.preempt.document import preemption_report
from kplan.questions.remedy import Remedy
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from kplan.rules.pod_info import PodInfo
from tests.course.test_what_if import SET, node, pod, replica_set, some_cluster
from tests.objects import deployment, planner_of
from tests.recorded import sample


def answer(planner: Planner, pods: list[Any], what: str = "answer") -> ComparedAnswer:
    return ComparedAnswer(what, planner.plan(pods).report(fail_on=()), frozenset(planner.objects.node_by_name))


def between(*reports: Report) -> DiffReport:
    return diff_report(*(ComparedAnswer(str(n), report) for n, report in enumerate(reports)), fail_on=("regression",))


def compared(before: Planner, after: Planner, pods: list[Any], **options: Any) -> DiffReport:
    return diff_report(answer(before, pods, "before"), answer(after, pods, "after"), **options)


@pytest.mark.parametrize("seed", range(3))
def test_an_answer_does_not_differ_from_itself(seed: int) -> None:
    planner = planner_of(some_cluster(seed))
    pods = [pod("x"), pod("y", cpu="3"), pod("z", cpu="64")]
    found = compared(planner, planner, pods, fail_on=("regression",))
    assert found.pods == found.victims_added == found.victims_removed == found.utilisation == found.capacity == ()
    assert found.summary.same == 3
    assert not found.verdict.failed


@pytest.mark.parametrize("seed", range(3))
def test_the_other_way_round_everything_is_the_opposite(seed: int) -> None:
    planner = planner_of(some_cluster(seed))
    other = planner.changed(cordon=["n1", "n2", "n3", "n4", "n5"])
    pods = [pod(name, cpu="1500m") for name in "uvwxyz"]
    opposite = {
        Difference.MOVED: Difference.MOVED,
        Difference.NEWLY_PENDING: Difference.NEWLY_PLACED,
        Difference.NEWLY_PLACED: Difference.NEWLY_PENDING,
        Difference.STILL_PENDING: Difference.STILL_PENDING,
    }

    there, back = compared(planner, other, pods), compared(other, planner, pods)

    assert there.pods
    assert {change.pod: opposite[change.difference] for change in there.pods} == {
        change.pod: change.difference for change in back.pods
    }
    assert [(change.before, change.after) for change in there.pods] == [
        (change.after, change.before) for change in back.pods
    ]


def test_a_pod_moves_since_its_node_takes_no_more_pods() -> None:
    planner = planner_of(node("n1", cpu="8"), node("n2"))
    [found] = compared(planner, planner.changed(cordon=["n1"]), [pod("x")]).pods
    assert (found.difference, found.before.node, found.after.node) == (Difference.MOVED, "n1", "n2")
    [cause] = found.why
    assert (cause.kind, cause.node, cause.plugin) == ("rejects", "n1", "NodeUnschedulable")
    assert cause.reasons == ("node(s) were unschedulable",)


def test_a_pod_moves_since_a_plugin_scores_the_nodes_otherwise() -> None:
    planner = planner_of(node("n1"), node("n2"), pod("other", "n2", cpu="1", app="b"))
    fuller = [pod(f"more-{index}", "n1", cpu="1", app="b") for index in range(3)]
    [found] = compared(planner, planner.changed(with_=fuller), [pod("x")]).pods
    assert (found.before.node, found.after.node) == ("n1", "n2")
    assert {cause.kind for cause in found.why} == {"score"}
    assert "NodeResourcesFit" in {cause.plugin for cause in found.why}
    assert all(cause.after > cause.before for cause in found.why)


def test_a_newly_pending_pod_is_a_regression_and_a_newly_placed_one_is_none() -> None:
    planner = planner_of(node("n1"))
    other = planner.changed(cordon=["n1"])

    worse = compared(planner, other, [pod("x")], fail_on=("regression",))
    better = compared(other, planner, [pod("x")], fail_on=("regression",))

    assert (worse.summary.newly_pending, worse.verdict.exit_code) == (1, 1)
    assert [counted.rule for counted in worse.verdict.counted] == ["NewlyPending"]
    assert (better.summary.newly_placed, better.verdict.exit_code) == (1, 0)
    assert compared(planner, other, [pod("x")]).verdict.exit_code == 0


def test_new_victims_are_told_and_count() -> None:
    low = pod("low", "n1", cpu="3")
    low["spec"]["priority"] = 0
    high = pod("high", cpu="3")
    high["spec"]["priority"] = 10
    planner = planner_of(node("n1"), node("n2"), low)

    found = compared(planner, planner.changed(without=["node/n2"]), [high], fail_on=("regression",))

    assert found.victims_added == ("default/low",)
    assert {counted.rule for counted in found.verdict.counted} == {"NewlyPending", "NewVictim"}
    [difference] = found.pods
    assert difference.after.nominated_node == "n1"


def test_queues_are_compared_with_their_utilisation() -> None:
    planner = planner_of(node("n1", cpu="1"), pod("a", cpu="700m"), pod("b", cpu="700m"))
    other = planner.changed(add_nodes=["3=n1"])
    before, after = (asking.plan_queue().report() for asking in (planner, other))
    found, back = between(before, after), between(after, before)
    assert [(change.pod, change.difference) for change in found.pods] == [("default/b", Difference.NEWLY_PLACED)]
    assert [(usage.resource, usage.before, usage.after) for usage in found.utilisation][:1] == [("cpu", 70.0, 35.0)]
    assert [(counted.object, counted.rule) for counted in back.verdict.counted] == [("default/b", "NewlyPending")]


def test_a_pod_that_is_pending_in_place_of_another_of_its_workload_is_no_regression() -> None:
    pods = [pod(f"web-{name}", owner=SET, app="web") for name in "ab"]
    for name, one in zip("ab", pods, strict=True):
        one["spec"]["nodeSelector"] = {"side": name}
    planners = [planner_of(node("n1", side=name), replica_set(2), *pods) for name in "ab"]
    found = between(*(planner.plan_queue().report() for planner in planners))
    assert (found.summary.newly_pending, found.summary.newly_placed, found.workloads) == (1, 1, ())
    assert not found.verdict.failed


def demo(**options: Any) -> Planner:
    return Planner("demo", **options)


def odds(planner: Planner, seed: int = 7) -> Report:
    return planner.odds(["shop/voucher-api", "ml/llm-eval"], runs=60, seed=seed).report()


def queue(planner: Planner) -> Report:
    return queue_report(planner, planner.queue_of(None))


def preemption(planner: Planner) -> Report:
    plan = planner.plan(["ml/fine-tune", "ml/llm-eval"])
    return preemption_report(plan, plan.placements)


def templates(planner: Planner) -> list[Template]:
    return [Template("shop/web", (PodInfo(planner.objects.pod_by_key["shop/voucher-api"]),))]


KINDS: dict[str, Callable[[Planner], Report]] = {
    "PlacementReport": lambda planner: planner.plan(["shop/voucher-api", "ml/llm-eval"]).report(with_map=True),
    "PreemptionReport": preemption,
    "PlanReport": lambda planner: change_report(planner.drain(["general-b-2"])),
    "QueueReport": queue,
    "CapacityReport": lambda planner: planner.capacity(templates(planner)).report(),
    "HeadroomReport": lambda planner: planner.headroom([deployment("web", 1)], limit=3),
    "ShrinkReport": lambda planner: planner.changed(without=["node/gpu-*", "node/database-*"]).shrink(),
    "DrainsReport": lambda planner: planner.drain_in_turn(["general-b-2", "spot-b-1"]),
    "OddsReport": odds,
    "NodesReport": lambda _: Planner("demo", autoscaler=kplan.Karpenter()).nodes(),
    "ChecksReport": lambda planner: planner.ask(Checks((Check("surge", Surge()), Check("budgets", Budgets())))),
    "BudgetsReport": lambda planner: planner.ask(Budgets()),
    "RemedyReport": lambda planner: planner.ask(Remedy(only=("uncordon",))),
    "RunbookReport": lambda planner: planner.ask(Runbook(("spot-b-1",))),
}


def test_every_answer_can_be_compared_but_those_of_several_answers() -> None:
    assert {*COMPARED} == REPORTS.keys() - {"DiffReport", "ClustersReport"}


@pytest.mark.parametrize("kind", sample([*COMPARED], 4))
def test_nothing_of_any_kind_differs_from_itself(kind: str) -> None:
    planner = demo()
    one, other = KINDS[kind](planner), KINDS[kind](planner)  # a second answer does not depend on the first
    found = between(one, other)
    assert one.kind == kind
    assert not any((found.pods, found.victims_added, found.victims_removed, found.utilisation))
    assert not any((found.capacity, found.facts, found.verdict.failed))


@pytest.mark.parametrize(
    ("kind", "rules"),
    [
        ("PlanReport", {"StateWorse", "NewlyPending"}),
        ("CapacityReport", {"LessFits"}),
        ("HeadroomReport", {"LessFits"}),
        ("DrainsReport", {"PendingWorse"}),
        ("OddsReport", {"PlacedWorse", "PendingWorse", "AllPlacedWorse"}),
    ],
)
def test_what_is_worse_in_a_fuller_cluster_is_a_regression(kind: str, rules: set[str]) -> None:
    planner = demo()
    worse = planner.changed(cordon=["*"])
    before, after = (KINDS[kind](asking) for asking in (planner, worse))
    found, back = between(before, after), between(after, before)

    assert {counted.rule for counted in found.verdict.counted} >= rules
    assert not {*found.verdict.counted} & {*back.verdict.counted}
    assert {(fact.about, fact.fact, fact.before) for fact in found.facts} == {
        (fact.about, fact.fact, fact.after) for fact in back.facts
    }


def test_a_node_that_may_not_go_any_more_is_a_regression() -> None:
    planner = planner_of(node("n1"), node("n2"), replica_set(1), pod("web-a", "n1", owner=SET, app="web"))
    bare = planner.changed(with_=[pod("alone", "n2")])
    found = between(planner.shrink(), bare.shrink())
    assert {(fact.about, fact.after, fact.worse) for fact in found.facts} == {("n1", True, False), ("n2", False, True)}
    assert [(counted.object, counted.rule) for counted in found.verdict.counted] == [("n2", "MayGoWorse")]


def test_one_more_pod_in_a_queue_is_no_difference_about_those_behind_it() -> None:
    first = pod("urgent")
    first["spec"]["priority"] = 5
    objects = [node("n1"), pod("a"), pod("b"), pod("c")]
    short, long = (planner_of(held) for held in (objects, [*objects, first]))
    found = between(queue(short), queue(long))
    assert [(fact.about, fact.fact, fact.after) for fact in found.facts] == [("default/urgent", "place", "Active")]
    first["metadata"]["name"] = "c"
    hurried = planner_of([*objects[:3], first])
    found = between(queue(short), queue(hurried))
    assert {fact.about: fact.after for fact in found.facts} == {"default/a": 2, "default/b": 3, "default/c": 1}


def test_shares_that_chance_alone_may_make_differ_do_not() -> None:
    objects = [node("n1"), node("n2"), pod("a")]
    planner = planner_of(objects)
    one, other = (planner.odds(["default/a"], runs=100, seed=seed).report() for seed in (1, 2))

    assert one.pods != other.pods
    assert between(one, other).facts == ()
    alone = planner_of(objects[1:]).odds(["default/a"], runs=100).report()
    assert {(fact.about, fact.fact) for fact in between(one, alone).facts} == {
        ("default/a", "nodes.n1"),
        ("default/a", "nodes.n2"),
    }


def test_saved_placements_with_a_map_tell_how_full_the_cluster_is() -> None:
    planner = demo()
    with_map = planner.plan(["shop/voucher-api"]).report(with_map=True)
    nothing = planner.plan([]).report(with_map=True)
    found = between(nothing, with_map)
    assert found.cluster
    assert "cpu" in {usage.resource for usage in found.utilisation}
    assert all(usage.after > usage.before for usage in found.utilisation)
    assert between(planner.plan([]).report(), with_map).utilisation == ()


def test_a_difference_and_answers_to_different_questions_cannot_be_compared() -> None:
    planner = planner_of(node("n1"))
    drawn = ComparedAnswer("odds.json", planner.odds([pod("x")], runs=1).report(fail_on=()))
    plain = answer(planner, [pod("x")], "place.json")

    with pytest.raises(UsageError, match=r"odds.json is a OddsReport, place.json a PlacementReport"):
        diff_report(drawn, plain)
    with pytest.raises(UsageError, match=r"d.json: a DiffReport cannot be compared"):
        diff_report(ComparedAnswer("d.json", diff_report(plain, plain)), plain)
    clusters = ComparedAnswer("c.json", clusters_report([("a", plain.report), ("b", plain.report)]))
    with pytest.raises(UsageError, match=r"c.json: a report about several clusters holds an answer for each") as caught:
        diff_report(clusters, clusters)
    assert "kplan place FILE -s CLUSTER" in caught.value.hint


def nodes_of(*, labels: dict[str, str] | None = None, without: Sequence[str] = ()) -> ComparedAnswer:
    """Return what Karpenter does with its example cluster, whose pool may give its nodes labels."""
    fixtures = Path(__file__).parents[3] / "fixtures/karpenter"
    autoscaler = kplan.Karpenter(instance_types=fixtures / "instance-types.yaml")
    planner = Planner(fixtures / "cluster.yaml", autoscaler=autoscaler, now="2026-01-15T12:00:00Z")
    (pool,) = (obj for obj in yaml.safe_load_all((fixtures / "cluster.yaml").read_text()) if obj["kind"] == "NodePool")
    pool["spec"]["template"]["metadata"] = {"labels": labels or {}}
    return ComparedAnswer("one", planner.changed(with_=[pool] if labels else [], without=without).nodes())


def test_so_many_whole_sets_of_a_mix_are_a_fact_of_a_capacity_and_nothing_is_where_none_was_asked_for() -> None:
    planner, manifests = planner_of(node("n1")), (deployment("a", 1, cpu="1"), deployment("b", 1, cpu="1"))
    mixed, single = (Capacity(manifests=manifests[:n], mix=(1,) * n).answer(planner) for n in (2, 1))
    assert [*_of_capacity(mixed)] == [(("default/a, default/b", "sets"), 2)]
    assert [*_of_capacity(single)] == []


def test_a_node_at_the_end_of_two_answers_has_what_the_second_brings_besides() -> None:
    planner = planner_of(node("n1"))
    first, second = (
        planner.plan(pods).report(with_map=True).cluster.nodes[0] for pods in ([pod("x")], [pod("x"), pod("y")])
    )
    assert (_both(first, second).arriving, _both(second, first).leaving) == (("default/y",), ("default/y",))
    assert _both(first, first).arriving == _both(first, first).leaving == ()


def test_nodes_that_drift_because_of_a_changed_pool_are_told() -> None:
    report = diff_report(nodes_of(), nodes_of(labels={"team": "shop"}), fail_on=("regression",))
    drifting = [fact.about for fact in report.facts if str(fact.after).startswith("NodePoolDrifted")]
    assert drifting == ["general-4f2lq.eu-west-1", "general-8xk2p.eu-west-1"]
    assert {fact.fact for fact in report.facts} == {"node"}
    assert not report.verdict.failed
    text = render(report, "table", ReportOptions())
    assert "The autoscaler treats 4 nodes differently" in text


def test_nodes_that_are_added_are_compared_by_what_they_are_and_cost() -> None:
    fewer = nodes_of(without=["pod/shop/report-6d-2", "pod/shop/report-6d-3", "pod/shop/train-6d-1"])

    report = diff_report(fewer, nodes_of(), fail_on=("regression",))

    facts = {(fact.about, fact.fact): (fact.before, fact.after) for fact in report.facts}
    assert facts["general m7i.2xlarge spot eu-west-1b", "added"] == (None, 1)
    assert facts["all nodes", "price"][1] == pytest.approx(1.1309)
    assert [(event.object, event.rule) for event in report.verdict.counted] == [("shop/train-6d-1", "UnhelpedWorse")]
    text = render(report, "table", ReportOptions())
    assert "1 more node added; 1 pod newly without help; price" in " ".join(text.split())


def test_a_pod_that_needs_no_eviction_any_more_is_newly_placed() -> None:
    before, after = (planner_of(node("n1", cpu=cpu), pod("p", cpu="4")) for cpu in ("2", "4"))
    sides = [ComparedAnswer(cluster, planner.ask(Preempt())) for cluster, planner in (("a", before), ("b", after))]
    (difference,) = diff_report(*sides).pods
    assert (difference.difference, difference.after and difference.after.node) == (Difference.NEWLY_PLACED, "n1")
