"""Odds in every format."""

from xml.etree import ElementTree as ET

import msgspec
import pytest

from kplan.changes.values import DrainOptions
from kplan.documents.odds import OddsReport
from kplan.questions import Drain
from kplan.report.options import ReportOptions
from kplan.report.registry import FORMATS, render
from tests.objects import deployment, node, planner_of, pod, running


def document(n_nodes: int = 2, runs: int = 200) -> OddsReport:
    replicas = [pod(f"web-{i}", cpu="3", owner="ReplicaSet/owner") for i in range(3)]
    planner = planner_of(*(node(f"n{i}") for i in range(n_nodes)), *replicas)
    return planner.odds([f"default/web-{i}" for i in range(3)], runs=runs).report()


@pytest.mark.parametrize("output", FORMATS)
def test_every_format_tells_who_stays_pending(output: str) -> None:
    assert_tells(render(document(), output, ReportOptions()), output, "default/web-2", "pending")


def assert_tells(text: str, output: str, name: str, state: str) -> None:
    """Monitoring systems are told that something failed; every other format names the pod and its state."""
    words = ('kplan_failed{kind="OddsReport"} 1',) if output == "openmetrics" else (name, state)
    assert [word for word in words if word.lower() not in text.lower()] == []


def test_a_table_tells_shares_with_their_intervals() -> None:
    text = render(document(), "table", ReportOptions())

    assert text.startswith("default/web-2 stays pending in all 200 runs; 2 of 3 pods placed in all 200 runs (seed 7)\n")
    assert "ReplicaSet/default/owner: 3 pods, all placed in 0%" in text
    assert "Nodes: n0 50.0%, n1 50.0%" in text
    assert "200 runs have 2 different results, which only differ in nodes" in text
    assert "- 100%: default/web-2 stays pending" in text
    first = next(row for row in text.splitlines() if "default/web-0" in row)
    assert first.split()[1:3] == ["100%", "0%"]
    assert first.count(" to ") == 2


def test_what_is_certain_is_said_to_be() -> None:
    text = render(document(n_nodes=1), "table", ReportOptions())
    assert "Certain: every pod ends the same way in all 200 runs." in text
    assert "How runs end" not in text


def test_runs_that_end_alike_by_chance_are_not_called_certain() -> None:
    certain = document(n_nodes=1)
    drawn = msgspec.structs.replace(certain, summary=msgspec.structs.replace(certain.summary, distinct=3))
    text = " ".join(render(drawn, "table", ReportOptions()).split())
    assert "200 runs have the same result, though chance decides on the way" in text
    assert "every pod ends the same way" not in text.lower()


@pytest.mark.parametrize(
    ("runs", "sentence"),
    [
        (1, "There is only one run. In so few, an outcome with a probability of up to 79.3% may not show."),
        (5, "Every pod ends the same way in all 5 runs. In so few, an outcome with a probability of up to 43.4%"),
    ],
)
def test_few_runs_make_nothing_certain(runs: int, sentence: str) -> None:
    text = " ".join(render(document(n_nodes=1, runs=runs), "table", ReportOptions()).split())
    assert sentence in text
    assert "Certain" not in text


def test_cases_fail_that_the_verdict_counts() -> None:
    suite = ET.fromstring(render(document(), "junit", ReportOptions())).find("testsuite")
    assert suite is not None
    assert [case.attrib["name"] for case in suite.findall("testcase") if case.find("failure") is not None] == [
        "default/web-2"
    ]


def test_names_are_a_line_for_each_end_of_each_pod() -> None:
    lines = render(document(), "name", ReportOptions()).splitlines()
    assert lines[-1] == "default/web-2 pending 1"
    assert {tuple(row.split()[:2]) for row in lines[:-1]} == {
        (f"default/web-{i}", f"n{j}") for i in (0, 1) for j in (0, 1)
    }


@pytest.mark.parametrize("output", FORMATS)
def test_every_format_tells_of_a_drain_who_may_not_go(output: str) -> None:
    planner = planner_of(node("n0"), node("n1"), pod("alone", cpu="1", on="n0"))
    report = planner.odds(Drain(nodes=("n0",)), runs=5).report()
    assert_tells(render(report, output, ReportOptions()), output, "default/alone", "blocked")


def test_pods_of_which_chance_decides_stand_before_those_that_end_alike_in_all_runs() -> None:
    planner = planner_of(*map(node, ("n0", "n1", "n2")), running(deployment("web", 1), ["n0"]), pod("alone", on="n0"))
    report = planner.odds(Drain(nodes=("n0",), options=DrainOptions(force=True)), runs=40).report()
    rows = [
        line.split() for line in render(report, "table", ReportOptions()).splitlines() if line.startswith("  default/")
    ]
    assert [row[:2] for row in rows] == [["default/web-h1-000", "placed"], ["default/alone", "not"]]
    assert rows[1][2:] == ["replaced", "nowhere"]
