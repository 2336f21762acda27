"""A DaemonSet's pods are told as one."""

from typing import Any

from msgspec.structs import replace

from kplan.documents.placement import Origin, PlacementReport
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.report.documents import coming_from, node, placed, pod


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
