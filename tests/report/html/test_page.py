"""The first thing that the page says: passed or failed, and of what failed why, and what would help."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec import structs

import kplan
from kplan.documents.nodes import ClusterMap
from kplan.documents.placement import Origin
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.cli.commands import invoke
from tests.report.documents import coming_from, demo_document, node, placed, pod


def box(text: str) -> str:
    match_ = re.search(r'<div class="verdict.*?</div>', text, re.DOTALL)
    assert match_
    return match_[0]


def test_each_workload_that_failed_says_why_and_what_would_help_once():
    document = placed([node("n", cpu="1"), pod("p", cpu="2"), pod("q", cpu="2")], ["default/p", "default/q"])
    document = coming_from(document, Origin("deploy/<web>.yaml", 1, "Deployment", "web", 7))
    box_text = box(render(document, "html", ReportOptions()))
    assert box_text.count("<li>") == 1
    assert "<strong>Deployment default/web</strong>" in box_text
    assert '<span class="dim">2 pods: default/p, default/q, deploy/&lt;web&gt;.yaml:7</span>' in box_text
    assert "No node is large enough, even empty: it requests 2 cpu" in box_text
    assert "What would help: add 1 node like n with 2 cpu -&gt; n-added-1" in box_text


def test_only_so_many_are_told_and_the_others_counted():
    waiting = [pod(f"p{number}", cpu=f"{number + 2}") for number in range(8)]
    keys = [f"default/p{number}" for number in range(8)]
    box_text = box(render(placed([node("n", cpu="1"), *waiting], keys), "html", ReportOptions()))
    assert box_text.count("<li>") == 6
    assert "<li>and 3 more</li>" in box_text


def test_a_failure_that_is_about_no_pod_says_its_reason():
    document = demo_document("place")
    verdict = structs.replace(document.verdict, because=("14 of 500 replicas fit",), counted=())
    box_text = box(render(structs.replace(document, verdict=verdict, placements=()), "html", ReportOptions()))
    assert "<li>14 of 500 replicas fit</li>" in box_text


def test_replicas_that_are_counted_are_drawn_where_they_go_each_under_a_name_of_its_own():
    planner = kplan.Planner(kplan.load_snapshot([node("a", cpu="2"), node("b", cpu="4"), pod("x", node="b")]))
    report = planner.capacity([pod("p")]).report(before=planner.session.cluster)
    assert isinstance(report.cluster, ClusterMap)
    coming = [name for node in report.cluster.nodes for name in node.arriving]
    assert [len(node.arriving) for node in report.cluster.nodes] == [2, 3]
    assert len(set(coming)) == 5
    text = render(report, "html", ReportOptions())
    assert '<figure class="cluster">' in text
    assert "&quot;cluster&quot;" not in text


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("plan", "plan moved.yaml -s moving.yaml --timeline --run 30s"),
        ("drain", "drain n1 -s clockwork.yaml --timeline --force --run 6m"),
        ("nodes", "nodes -s shop.yaml --node-groups groups.yaml --timeline --until 30m"),
    ],
)
def test_pages_stay_as_they_were_looked_at(
    golden: Callable[[str, str], None], monkeypatch: pytest.MonkeyPatch, name: str, command: str
) -> None:
    monkeypatch.chdir(Path(__file__).parents[2] / "answers" / "inputs")
    page = invoke(*command.split(), "-o", "html").stdout
    told = page[page.index("<main") : page.index("<h2>About this report")]
    golden(f"report/{name}.page.html", told.replace("><", ">\n<") + "\n")
