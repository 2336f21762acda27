"""Many workloads are told in a line each, those that need attention first and in brief; and so is a DaemonSet."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from kplan.documents.placement import Origin, PlacementReport
from kplan.framework.results import Outcome
from kplan.report.options import ReportOptions
from kplan.report.overview import common_suffix, overview_blocks, row_of
from kplan.report.registry import render
from kplan.report.text import render_plain
from tests.report.documents import coming_from, node, placed, pod

LONG = "ip-10-100-100-{}.eu-central-1.compute.internal"


def chart(n_workloads: int, failing: tuple[int, ...] = (), *, names: str = "n{}") -> PlacementReport:
    """Return the report on so many Deployments of two replicas each, some of which ask for too much."""
    pods = [pod(f"svc-{i:02}-{k}", cpu="90" if i in failing else "10m") for i in range(n_workloads) for k in range(2)]
    report = placed([node(names.format(i)) for i in range(100, 104)], pods)
    placed_pods = []
    for index, placement in enumerate(report.placements):
        origin = Origin("chart.yaml", index // 2 + 1, "Deployment", f"svc-{index // 2:02}", index // 2 * 7 + 4)
        placed_pods.append(replace(placement, pod=replace(placement.pod, origin=origin)))
    return replace(report, placements=tuple(placed_pods))


def lines_of(report: PlacementReport, width: int = 80, **options: bool) -> list[str]:
    return render(report, "table", ReportOptions(width=width, **options)).splitlines()


def test_a_chart_of_fifty_workloads_of_which_two_fail_is_told_in_a_line_each_and_details_of_those() -> None:
    lines = lines_of(chart(50, (17, 31)))
    assert " ".join(lines[:2]).startswith(
        "Deployment default/svc-17, Deployment default/svc-31: 4 of 100 pods of 50   workloads fit nowhere: none of 4"
    )
    rows = [line for line in lines if line.startswith("  Deployment default/svc-")]
    assert len(rows) == 50
    assert [row.split()[1] for row in rows[:3]] == ["default/svc-17", "default/svc-31", "default/svc-00"]
    assert lines[-2].startswith("Verdict: failed (exit code 1): unschedulable: ")
    assert len(lines) < 80


def test_workloads_that_end_for_one_reason_are_told_together() -> None:
    lines = lines_of(chart(9, (2, 3, 7)))
    start = lines.index("Deployment default/svc-02, Deployment default/svc-03 and 1 more: none of them")
    assert lines[start + 1 : start + 3] == ["  fits", "  from chart.yaml, document 3, line 18"]


@pytest.mark.parametrize("explain", [False, True])
def test_long_names_of_nodes_fit_eighty_columns(explain: bool) -> None:
    lines = lines_of(chart(12, (3,), names=LONG), explain=explain)
    assert max(map(len, lines)) <= 80
    assert any(".eu-central-1.compute.internal" in line and "without" in line for line in lines)


@given(st.lists(st.text("ab.", min_size=1, max_size=20), min_size=2, max_size=5, unique=True))
def test_what_is_left_out_of_names_is_a_domain_that_all_end_with(names: list[str]) -> None:
    suffix = common_suffix(names)
    assert all(name.endswith(suffix) and name != suffix[1:] for name in names)
    assert not suffix or suffix.startswith(".")


def test_pods_that_are_not_listed_one_by_one_count() -> None:
    members = chart(1).placements
    row = row_of(members, {"n100": 40}, 40)
    assert (row.placed, row.wanted, row.state, row.needs_attention) == (42, 42, "scheduled", False)
    assert row_of(members, {"n100": 39}, 40).needs_attention


def test_a_workload_says_all_that_happened_to_its_pods() -> None:
    first, second = chart(1, (0,)).placements
    row = row_of([first, replace(second, outcome=Outcome.GATED)], {}, 0)
    assert row.state == "fits nowhere, gated"
    assert "0/2" in render_plain(overview_blocks([row], ReportOptions()), 80)


def test_of_pods_alike_the_first_evicts_whether_or_not_the_others_are_told_in_full() -> None:
    nodes = [node("n1", cpu="2")]
    low = pod("low", cpu="2", node="n1", priority=-10)
    report = placed([*nodes, low], [pod(f"web-{i}", cpu="2") for i in range(3)])
    members = [
        replace(placement, pod=replace(placement.pod, origin=Origin("", 1, "Deployment", "web")))
        for placement in report.placements
    ]
    outlined = [members[0], *(replace(member, preemption=None) for member in members[1:])]

    assert row_of(members, {}, 0).state == "the first of 3 fits by evicting 1 pod"
    assert row_of(outlined, {}, 0).state == row_of(members, {}, 0).state
    assert row_of(members[:1], {}, 0).state == "fits by evicting 1 pod"


def daemon(name: str, cpu: str = "2") -> dict[str, Any]:
    field = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [field]}}
    return pod(f"agent-{name}", cpu, affinity={"nodeAffinity": required})


def report(n_small: int = 1) -> PlacementReport:
    nodes = [*(node(f"big-{i}") for i in range(3)), *(node(f"small-{i}", cpu="1") for i in range(n_small))]
    placement_report = placed(nodes, [daemon(node["metadata"]["name"]) for node in nodes])
    return coming_from(placement_report, Origin("agent.yaml", 1, "DaemonSet", "agent", 4))


def test_it_has_so_many_of_its_nodes_and_of_each_other_node_why_not() -> None:
    text = render(report(), "table", ReportOptions())
    assert text.startswith("DaemonSet default/agent: has a place on 3 of 4 nodes\n")
    assert "  small-0  requests 2 cpu, 1 of 1 free: 1 short  lower the cpu request of container c from 2" in text
    assert text.count("kube-scheduler writes") == 1
    assert "agent-big" not in text


def test_an_annotation_is_about_the_whole_set() -> None:
    lines = render(report(), "github", ReportOptions()).splitlines()
    assert lines[0].startswith(
        "::error file=agent.yaml,line=4,title=kplan%3A DaemonSet default/agent (unschedulable)::"
    )
    assert "3 of 4 nodes; small-0: requests 2 cpu, 1 of 1 free: 1 short" in lines[0]


def test_a_node_that_no_reason_names_is_told_by_its_pod() -> None:
    placement_report = report()
    bare = [replace(placement, rejections={}, rejection_summary=()) for placement in placement_report.placements]
    text = render(replace(placement_report, placements=tuple(bare)), "table", ReportOptions(width=160))
    assert "agent-small-0  It can run on small-0 only" in text
