"""Drains in turn: the command that looks into one of them, and when all is as it was."""

from types import SimpleNamespace

import pytest

from kplan.api.labels import ZONE
from kplan.questions.drain import InTurn
from kplan.questions.drain.in_turn import _restored
from kplan.questions.drain.view import VIEW
from kplan.report.options import ReportOptions
from tests.objects import node, planner_of, pod


def test_a_case_in_trouble_has_the_command_for_its_nodes_unless_they_are_many() -> None:
    nodes = [node(f"{zone}{n}", labels={ZONE: zone}) for zone, most in (("a", 5), ("b", 6)) for n in range(most)]
    report = planner_of(nodes, pod("x", "a0"), pod("y", "b0")).ask(InTurn(by="zone"))
    assert {case.name: case.more for case in VIEW.cases(report, ReportOptions())} == {
        "a": "kplan drain a0 a1 a2 a3 a4",
        "b": "",
    }


@pytest.mark.parametrize(
    ("ready", "restored"),
    [([(0, 3), (5, 1), (9, 2), (30, 3)], 9), ([(0, 3), (5, 2)], 0), ([(0, 3), (5, 1)], None)],
    ids=["as soon as so many are ready as it wants", "it never has fewer", "never"],
)
def test_a_workload_is_restored_when_it_has_the_pods_that_it_wants(
    ready: list[tuple[float, int]], restored: float | None
) -> None:
    lowest = min(number for _, number in ready)
    web = SimpleNamespace(wanted=2, ready_before=3, lowest_ready=lowest, ready_over_time=ready)
    assert _restored(SimpleNamespace(workloads={"Deployment/default/web": web})) == restored
