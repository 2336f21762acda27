"""Plans in words; and whole queues and capacities of the conformance scenarios in every format."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from kplan.capacity.counting import Template
from kplan.course.asking import Showing
from kplan.course.clock import Clock
from kplan.diagnosis.explanation import Shown
from kplan.documents.base import Report, with_sentence
from kplan.documents.plan import PlanReport
from kplan.questions import Plan
from kplan.questions.plan.view import VIEW, attempts_in_full
from kplan.report.options import ReportOptions
from kplan.report.registry import FORMATS, render
from kplan.rules.pod_info import PodInfo
from tests.cli.commands import invoke
from tests.objects import deployment, planner_of
from tests.recorded import sample
from tests.report.documents import node, pod
from tests.scenarios import key, pending, scenarios
from tests.scenarios import planner as planner_for
from tests.schemas import assert_keeps_to_its_schema


def document(*objects: dict[str, Any], in_full: bool = True) -> PlanReport:
    return Plan().answer(planner_of(objects), Showing(nodes=Shown() if in_full else UNSET))


def text(report: PlanReport, **options: Any) -> str:
    output = "wide" if options.get("is_wide") else "table"
    return render(report, output, ReportOptions(width=160, **options))


def owned(name: str, **more: Any) -> dict[str, Any]:
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web", "controller": True}
    return pod(name, metadata={"ownerReferences": [owner]}, **more)


def test_an_idle_queue_is_said_in_one_sentence() -> None:
    assert text(document(node("n"), pod("p", node="n"))).startswith(
        "Nothing to do: no pod is pending, and every workload has what it wants\n"
    )


def test_what_no_pod_can_get_any_more_is_told_too() -> None:
    shown = text(document(node("n", cpu="4", pods="1"), pod("p")), is_wide=True)
    assert "  cpu            4      0  -                  0\n" in shown


def test_pods_of_one_workload_with_one_fate_share_a_line() -> None:
    shown = text(document(node("n"), *(owned(f"web-{i}") for i in range(3)), pod("alone")))
    assert "  +  ReplicaSet default/web     3/3  n (3)\n" in shown
    assert "  +  default/alone              1/1  n\n" in shown


def test_a_workload_is_told_in_one_line_whatever_becomes_of_its_pods() -> None:
    shown = text(document(node("n", cpu="2"), *(owned(f"web-{i}") for i in range(3))))
    assert "  !  ReplicaSet default/web     2/3  n (2)  fits nowhere\n" in shown
    assert "default/web-2 fits nowhere" in shown
    stuck = Plan(manifests=(deployment("web", 9),)).answer(planner_of(node("n", cpu="4")))
    assert '<span class="bad">stuck</span>' in render(stuck, "html", ReportOptions())


def test_so_many_reasons_are_told_in_full_and_the_others_by_their_message() -> None:
    selectors = [{"nodeSelector": {"disk": f"kind-{i}"}, "cpu": f"{i + 5}"} for i in range(7)]
    report = document(node("n"), *(pod(f"p{i}", **selector) for i, selector in enumerate(selectors)))

    assert len(attempts_in_full(report.changes)) == 1
    assert text(report, explain=True).count("Why nodes reject it") == 1

    reasons = [f"extra.example.com/kind-{i}" for i in range(7)]
    asks = [[{"name": "c", "image": "i", "resources": {"requests": {name: "1"}}}] for name in reasons]
    report = document(node("n"), *(pod(f"p{i}", containers=selector) for i, selector in enumerate(asks)))
    assert len(attempts_in_full(report.changes)) == 5
    assert text(report, explain=True).count("Why nodes reject it") == 5
    assert text(report).count("What would help") == 5
    assert text(report).count("kube-scheduler writes") == 2


def test_pods_without_an_owner_share_a_diagnosis_only_if_they_say_the_same() -> None:
    report = document(node("n"), *(pod(name, nodeSelector={key: "x"}) for name, key in ("pa", "qb", "rb")))
    decisions = [decision for change in report.changes if (decision := report.decision(change)) is not None]
    assert [one.diagnosis for one in decisions] == [f"No node has {key}=x: no node has label {key}." for key in "abb"]
    assert "  - default/q, default/r: No node has b=x" in text(report)
    report = document(node("n"), *(pod(f"p{key}", nodeSelector={key: "x"}) for key in "abcdefgh"))
    assert "  - and 2 more\n" in text(report)
    assert "  - default/ph: " in text(report, explain=True)
    report = document(node("n"), *(pod(f"p{i:02}", cpu=f"{9 + i}") for i in range(70)))
    assert sum("requests 9 cpu" in report.why_pending(change) for change in report.changes) == 1


def test_resources_that_fill_up_are_told_by_where_and_wide_tells_every_node() -> None:
    zones = [node(f"n{i}", labels={"topology.kubernetes.io/zone": f"z{i % 2}", "pool": "a"}) for i in range(4)]
    report = document(*zones, pod("p", cpu="3"))

    shown, wide = text(report), text(report, is_wide=True)
    assert "Utilisation, before -> after: cpu 0% -> 19%, memory 0%, pods 0% (-o wide shows more)" in shown
    assert "z0" not in shown
    assert "  cluster      4  0% -> 19% (3 of 16)" in wide
    assert "  zone z0      2   0% -> 38% (3 of 8)" in wide
    assert "  n0           1   0% -> 75% (3 of 4)" in wide
    assert "  pool a       4" in wide
    assert "pools: label pool" in wide
    assert "pools: label pool" not in render(report, "markdown", ReportOptions())


def test_cases_carry_what_counts() -> None:
    report = document(node("n"), pod("huge", cpu="9"), pod("fits"))
    cases = {case.name: case for case in VIEW.cases(report, ReportOptions())}
    assert (cases["default/fits"].state, cases["default/fits"].message) == ("passed", "placed on n")
    assert (cases["default/huge"].state, cases["default/huge"].rule) == ("failed", "Unschedulable")
    assert "requests 9 cpu, 3 of 4 free: 6 short" in cases["default/huge"].detail


def test_the_verdict_names_pods_that_were_evicted_as_the_table_does() -> None:
    low = owned("low", cpu="2", node="n", priority=-10)
    report = document(node("n", cpu="2"), low, pod("high", cpu="2"))
    shown = text(report)
    assert report.verdict.counted[0].object == "default/low"
    assert shown.splitlines()[-1].endswith("): unschedulable: default/low")


def test_without_manifests_a_plan_in_time_tells_what_becomes_of_the_pods_that_wait() -> None:
    shown = invoke("plan", "--timeline", "--snapshot", "demo").stdout
    # A node of the demo does not answer, and its pod is evicted.
    sentence = " ".join(shown.split("\n\n", maxsplit=1)[0].split())
    assert sentence.startswith("ml/llm-eval stays pending (and 1 other pod too): none of 13 nodes is large enough")
    assert "; 8 pods: 3 placed, 3 moved, 2 stay pending; at present node spot-b-1 " in sentence


def test_a_plan_in_time_of_a_cluster_in_which_no_pod_waits_has_nothing_to_do() -> None:
    report = planner_of(node("n")).ask(Plan(timeline=Clock()))
    assert text(report).startswith("Nothing to do: no pod is pending, and every workload has what it wants\n")


AREAS = ("mixed", "volumes", "dra", "preemption", "settle", "gates", "podaffinity")
OPTIONS = (ReportOptions(), ReportOptions(None, explain=True, is_wide=True), ReportOptions(has_colour=True))


def check_formats(document: Report) -> None:
    """Hold a document against its schema, and write it in all formats."""
    written = document.to_dict()
    assert_keeps_to_its_schema(written)
    assert msgspec.convert(written, type(document)) == with_sentence(document)
    for output in FORMATS:
        for options in OPTIONS:
            assert render(document, output, options).endswith("\n")


@pytest.mark.parametrize("area", sample(AREAS, 4))
@pytest.mark.parametrize("number", range(2))
def test_queues(area: str, number: int) -> None:
    scenario = scenarios(area)[number]
    check_formats(planner_for(scenario).plan_queue().report())


@pytest.mark.parametrize("area", sample(AREAS, 4, 1))
def test_capacities(area: str) -> None:
    scenario = scenarios(area)[1]
    for preempt in (False, True):
        asking = planner_for(scenario)
        pod = asking.objects.pod_by_key[key(pending(scenario)[0])]
        fit = asking.capacity([Template("replicas", (PodInfo(pod),))], wanted=40, limit=60, preempt=preempt)
        check_formats(fit.report(nodes=Shown()))
