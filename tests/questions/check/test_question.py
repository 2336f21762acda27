"""Checks: each promise of the standard set is broken by one cluster and kept by another."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

import kplan
from kplan.changes.remedy import AddNodes
from kplan.cluster.base import Base
from kplan.course.clock import Clock
from kplan.documents.checks import CheckOutcome
from kplan.questions import Check, Checks, Drain, Expect, InTurn, Plan
from kplan.questions.base import Question
from kplan.questions.check import STANDARD, AtMaximum, Budgets, PoolRoom, Surge, checks_of, outcomes_of
from kplan.questions.check.expectations import Least
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests import objects
from tests.cli.commands import invoke, refused, written
from tests.objects import Object, budget, deployment, head, planner_of, quota, running
from tests.objects import pod as waiting
from tests.schemas import assert_keeps_to_its_schema

POOL = "cloud.google.com/gke-nodepool"
KEY = "Deployment/default"


def node(name: str, cpu: str = "4", zone: str = "z1", pool: str = "main") -> Object:
    return objects.node(name, cpu, pods="20", labels={"topology.kubernetes.io/zone": zone, POOL: pool})


def outcome_of(check: Check, planner: kplan.Planner) -> CheckOutcome:
    return next(outcomes_of([check], planner))


def workload(name: str, nodes: list[str], cpu: str = "1", surge: int | str = 1) -> list[Object]:
    """Return a Deployment with its ReplicaSet and a pod on each of these nodes."""
    return running(deployment(name, len(nodes), cpu=cpu, maxSurge=surge, maxUnavailable=1), nodes)


def scaler(name: str, most: int) -> Object:
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": name}
    return head("HorizontalPodAutoscaler", namespace="default", name=name) | {
        "spec": {"scaleTargetRef": target, "minReplicas": 1, "maxReplicas": most}
    }


def outcome(check: Check, *objects: Object) -> tuple[str, list[str]]:
    found = outcome_of(check, planner_of(objects))
    return found.state, [finding.name for finding in found.findings]


def standard(part: str) -> Check:
    (check,) = [check for check in STANDARD if part in check.name]
    return check


TWO = [node("n1"), node("n2", zone="z2")]

WEB = workload("web", ["n1", "n2"])


@pytest.mark.parametrize(
    ("part", "kept", "broken", "names"),
    [
        ("node drains", WEB, [*WEB, budget("web", minAvailable=2)], ["n1", "n2"]),
        ("zone may be lost", WEB, workload("web", ["n1", "n2"], cpu="3"), ["z1", "z2"]),
        ("surge", workload("web", ["n1", "n2"], cpu="2"), workload("web", ["n1", "n2"], cpu="3"), [f"{KEY}/web"]),
        ("budget", [*WEB, budget("web", minAvailable=1)], [*WEB, budget("web", minAvailable="100%")], ["default/web"]),
        ("one change", [], [waiting("p", cpu="6")], ["default/p"]),
    ],
)
def test_a_promise_is_kept_in_one_cluster_and_broken_in_another(
    part: str, kept: list[Object], broken: list[Object], names: list[str]
) -> None:
    assert outcome(standard(part), *TWO, *kept) == ("passed", [])
    assert outcome(standard(part), *TWO, *broken) == ("failed", names)


def test_the_nodes_of_a_check_are_drained_side_by_side_where_asked_for() -> None:
    asked: list[int] = []

    def ask_all(base: Base, questions: Sequence[Callable[[Base], Any]], **_: object) -> list[Any]:
        asked.append(len(questions))
        return [question(base) for question in questions]

    (found,) = outcomes_of([standard("node drains")], planner_of([*TWO, *WEB]), ask_all)
    assert (found.state, asked) == ("passed", [2])


def test_a_cluster_without_zones_is_not_asked_about_them() -> None:
    alone = node("n1")
    del alone["metadata"]["labels"]["topology.kubernetes.io/zone"]
    assert outcome(standard("zone may be lost"), alone) == ("unasked", [])


def test_autoscalers_reach_their_maximum_alone_but_not_together() -> None:
    objects = [*TWO, *workload("a", ["n1"]), *workload("b", ["n2"]), scaler("a", 5), scaler("b", 4)]
    assert outcome(standard("maximum alone"), *objects) == ("passed", [])
    together = outcome_of(standard("maximum together"), planner_of(objects))
    [finding] = together.findings  # eight cpu, and nine pods of one
    assert (together.state, finding.message) == ("failed", "Both nodes lack cpu (requests 1, none free)")
    more = [*objects, *workload("c", ["n1"], cpu="2"), scaler("c", 2)]
    smaller, larger = outcome_of(standard("maximum together"), planner_of(more)).findings[-2:]
    assert ("requests 1," in smaller.message, "requests 2," in larger.message) == (True, True)
    assert outcome(standard("maximum alone"), *objects, *workload("c", ["n1"]), scaler("c", 9))[0] == "failed"
    assert outcome(standard("maximum alone"), *TWO, *workload("a", ["n1"]), scaler("a", 1))[0] == "unasked"


def test_a_workload_at_its_maximum_whose_pods_wait_does_not_fit() -> None:
    full = [*TWO, *workload("a", ["n1", ""], cpu="3"), *workload("b", ["n2"], cpu="3"), scaler("a", 2)]
    assert outcome(standard("maximum alone"), *full) == ("failed", ["Deployment/default/a"])
    assert outcome(standard("maximum together"), *full)[0] == "failed"


@pytest.mark.parametrize("most", range(3, 8))
def test_the_maximum_together_is_the_same_whether_or_not_nodes_are_chosen(most: int) -> None:
    objects = [*TWO, *workload("web", ["n1"]), *workload("db", ["n2"], "500m"), scaler("web", most), scaler("db", most)]
    planner = planner_of(objects)
    quick = outcome_of(standard("maximum together"), planner)
    summary = AtMaximum(how="together").answer(planner).summary
    assert (quick.of, len(quick.findings) + quick.more) == (summary.pods, summary.pods - summary.scheduled)


def test_a_quota_keeps_autoscalers_from_their_maximum_together() -> None:
    objects = [*TWO, *workload("a", ["n1"]), *workload("b", ["n2"]), scaler("a", 3), scaler("b", 3)]
    few = quota("few", "2", pods="4")
    assert outcome(standard("maximum together"), *objects) == ("passed", [])
    assert outcome(standard("maximum alone"), *objects, few) == ("passed", [])
    state, names = outcome(standard("maximum together"), *objects, few)
    assert (state, len(names)) == ("failed", 2)


@pytest.mark.parametrize("part", ["maximum alone", "maximum together", "surge"])
def test_nodes_that_an_autoscaler_adds_count(part: str) -> None:
    objects = [*TWO, *workload("a", ["n1", "n2"], cpu="3"), scaler("a", 3)]
    assert outcome(standard(part), *objects)[0] == "failed"
    growing = planner_of(objects, autoscaler=kplan.ClusterAutoscaler())
    assert outcome_of(standard(part), growing).state == "passed"


def test_a_cluster_without_autoscalers_is_not_asked_about_their_maximum() -> None:
    answer = outcome_of(standard("maximum together"), planner_of(TWO))
    assert (answer.state, answer.error) == ("unasked", "the cluster has no HorizontalPodAutoscaler")


def test_a_pending_pod_that_one_change_would_place_is_told_with_it() -> None:
    planner = planner_of(*TWO, waiting("p", cpu="6"))
    [finding] = outcome_of(standard("one change"), planner).findings
    assert isinstance(finding.remedy, AddNodes)


def test_a_pool_keeps_room_for_its_largest_pod_whatever_else_binds_that_pod() -> None:
    check = standard("largest pod")
    assert outcome(check, *TWO, *workload("web", ["n1"], cpu="3")) == ("passed", [])
    full = workload("web", ["n1", "n2"], cpu="3")
    state, (name,) = outcome(check, *TWO, *full)
    assert (state, name) == ("failed", "main")
    for pod in (obj for obj in full if obj["kind"] == "Pod"):
        pod["spec"]["nodeSelector"] = {"no": "such"}
    assert outcome(check, *TWO, node("n3"), *full) == ("passed", [])


def test_the_questions_of_promises_have_documents_that_match_their_schemas() -> None:
    objects = [*TWO, *workload("web", ["n1", "n2"]), budget("web", minAvailable=1), scaler("web", 4)]
    planner = planner_of(objects)
    for question in (Surge(), AtMaximum(), AtMaximum(how="together"), Budgets(), PoolRoom(), Checks()):
        document = planner.ask(question).to_dict()
        assert_keeps_to_its_schema(document)


@pytest.mark.parametrize(("n", "ends"), [(5, "n4: default/w4"), (6, "and 1 more"), (7, "and 2 more")])
def test_five_reasons_of_a_broken_promise_are_told_and_the_others_counted(n: int, ends: str) -> None:
    parts = [(node(f"n{i}"), *workload(f"w{i}", [f"n{i}"]), budget(f"w{i}", maxUnavailable=0)) for i in range(n)]
    text = render(planner_of(*parts).ask(Checks((standard("node drains"),))), "table", ReportOptions())
    assert [line for line in text.splitlines() if line.startswith("  - ")][-1].startswith(f"  - {ends}")


def test_expectations_bound_what_an_answer_may_say() -> None:
    objects = [*TWO, *workload("web", ["n1", "n2"], cpu="3")]
    lost, drain = InTurn(question=Drain((), how="lost"), by="zone"), Drain(("n1",))
    for question, expect, state, names in (
        (lost, Expect(pending=1), "passed", []),
        (lost, Expect(blocked=0), "passed", []),
        (lost, Expect(), "failed", ["z1", "z2"]),
        (drain, Expect(ready=Least(min="50%")), "passed", []),
        (drain, Expect(ready=Least(min="80%")), "failed", [f"{KEY}/web"]),
        (drain, Expect(ready=Least(min=2)), "failed", [f"{KEY}/web"]),
        (Plan(), Expect(within="5m"), "unasked", []),
    ):
        assert outcome(Check("a", question, expect), *objects) == (state, names), expect
    assert outcome(Check("a", lost, Expect(ready=Least())), *objects) == ("unasked", [])
    assert outcome(Check("a", Plan()), *TWO, waiting("big", cpu="6"))[0] == "failed"  # by the question's verdict


@pytest.mark.parametrize(
    ("question", "objects", "field", "number"),
    [
        (Plan(manifests=tuple(workload("new", [""] * 5, cpu="4")[:1])), TWO, "pending", 3),
        (Drain(("n1", "n2")), [*TWO, *workload("web", ["n1", "n2"]), budget("web", minAvailable=2)], "blocked", 1),
        (
            InTurn(question=Drain(())),
            [*TWO, *workload("web", ["n1", "n1"]), budget("web", minAvailable=2)],
            "blocked",
            2,
        ),
        (Plan(), [*TWO, waiting("big", cpu="6")], "remediable", 1),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_as_many_as_are_expected_at_most_pass_and_one_more_fails(
    question: Question, objects: list[Object], field: str, number: int
) -> None:
    planner = planner_of(objects)
    assert outcome_of(Check("a", question, Expect(**{field: number})), planner).state == "passed"
    failed = outcome_of(Check("a", question, Expect(**{field: number - 1})), planner)
    assert failed.state == "failed"
    assert all(finding.name for finding in failed.findings)


def test_a_check_names_what_does_not_go_together_as_its_document_does() -> None:
    drain = Drain(("n1",), how="rolling", max_unavailable=1)
    assert outcome_of(Check("a", drain), planner_of(TWO)).error == "maxUnavailable needs timeline"
    late = outcome_of(Check("a", Drain(("n1",), timeline=Clock()), Expect(within="5 minutes")), planner_of(TWO))
    assert late.error == "within: not a duration: '5 minutes'"


def test_a_file_may_write_questions_in_short() -> None:
    text = """
    apiVersion: kplan/v1
    kind: Checks
    checks:
      - {name: a, drain: {each: pool, how: one-by-one}, expect: {blocked: 0}}
      - {lose: {zones: 1}}
      - {name: c, autoscalersAtMax: together}
      - {name: d, surge: all}
      - {name: e, question: {kind: PlanQuestion}, expect: {ready: {min: 80%}}}
    """
    checks, problems = checks_of(yaml.safe_load(text))
    assert problems == []
    assert [check.name for check in checks] == ["a", "check 2", "c", "d", "e"]
    assert [check.question for check in checks] == [
        InTurn(question=Drain((), how="one-by-one"), by="pool"),
        InTurn(question=Drain((), how="lost"), by="zone"),
        AtMaximum(how="together"),
        Surge(),
        Plan(),
    ]


def test_the_command_fails_where_a_check_fails_and_compares_with_an_earlier_report(tmp_path: Path) -> None:
    first = invoke("check", "--snapshot", "demo", "-o", "json")
    assert first.exit_code == 1
    document = json.loads(first.stdout)
    assert document["summary"]["failed"] == sum(check["state"] == "failed" for check in document["checks"])
    saved = written(tmp_path / "last.json", first.stdout)
    passed = invoke("check", "--snapshot", "demo", "--since", saved, "--fail-on", "none", "-o", "json")
    assert passed.exit_code == 0
    again = json.loads(passed.stdout)
    assert [check["before"] for check in again["checks"]] == [check["state"] for check in document["checks"]]
    assert again["since"] == document["generatedAt"]
    assert invoke("check", "--snapshot", "demo", "--fail-on", "pending").exit_code == 2


def test_a_report_of_something_else_cannot_be_compared(tmp_path: Path) -> None:
    saved = written(tmp_path / "plan.json", invoke("plan", "--snapshot", "demo", "-o", "json").stdout)
    assert "is no report of kplan check" in refused("check", "--snapshot", "demo", "--since", saved)
