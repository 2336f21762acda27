"""A comment that holds foreign names calls nobody and leads nowhere."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kplan.report.blocks import Heading, Line, Preformatted, Span, Table, line
from kplan.report.markdown import MOST_BYTES, escape_markdown, render_markdown
from tests.cli.commands import invoke, listed
from tests.objects import node, pod
from tests.recorded import sample
from tests.report.github import calls, tags

CALLING = [
    "@team", "@org/team", "x@y.example", "#123", "GH-123", "gh-7", "owner/repo#1", "deadbeef",
    "a1b2c3d4e5f60718293a4b5c6d7e8f9012345678", "owner/repo@deadbeef", "https://evil.example/x", "ftp://evil.example",
    "www.evil.example", "&#64;team", "&commat;team", "&#35;123", "[x](https://evil.example)",
    "![x](//evil.example/i.png)", "<https://evil.example>", "<a href=//evil.example>x</a>", "<img src=x>",
    "</summary><b>", "`@team`@team", "``@team`", "\\@team", "a|@team|b", "**@team**", "_@team_", "[^1]: @team",
    "$\\href{https://evil.example}{x}$", ":tada:", "(@team)", "web-7d4b9c6f5d-x2x9z",
]  # fmt: skip
#: What a report consists of.
TAGS = set(re.findall(r"\w+", "h1 h2 h3 p strong ul ol li table thead tbody tr th td details summary code pre"))


def test_the_reader_sees_what_calls() -> None:
    for text in CALLING[:13]:
        assert calls(text), text
    assert calls("\\@team") == ["@team"]
    assert calls("`@team` and\n\n```\n#12\n```\n") == []


@pytest.mark.parametrize("text", CALLING)
def test_no_name_calls_wherever_it_stands(text: str) -> None:
    for around in ("%s", "pod %s fits", "(%s)", "x%s", "%s.", "'%s', \"%s\"", "%s%s", "`%s", "%s`", "a `b %s c` d"):
        escaped = escape_markdown(around.replace("%s", text))
        for page in (escaped, f"## {escaped}", f"- {escaped}", f"| a |\n|---|\n| **{escaped}** |", f"**x**{escaped}"):
            assert calls(page) == [], page
            assert tags(page) <= TAGS, page


@pytest.mark.parametrize(
    "name",
    [
        "web-1", "shop/flash-sale", "node.kubernetes.io/instance-type", "general-a-1", "50%", "nginx:1.27", "3 of 7",
        "a, b",
    ],
)  # fmt: skip
def test_ordinary_names_stay_as_they_are(name: str) -> None:
    assert escape_markdown(name) == name


def test_an_endless_word_is_escaped_in_a_single_pass() -> None:
    assert escape_markdown(")" * 200_000 + "@x") == "`" + ")" * 200_000 + "@x`"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cluster in which names, labels, taints and gates call, one way each."""
    items: list[dict[str, Any]] = []
    for index, text in enumerate(CALLING):
        hostile = node(f"{text}")
        hostile["metadata"] |= {"uid": f"n{index}"}
        hostile["metadata"]["labels"] |= {"zone": text, f"l{text}": "x"}
        hostile["spec"]["taints"] = [{"key": f"k{text}", "value": text, "effect": "NoSchedule"}] if index % 3 else []
        running = pod(f"running {text}", cpu="1", priority=-5, on=text)
        waiting = pod(text, cpu="1", priority=index, nodeSelector={"zone": text}, schedulingGates=[])
        waiting["metadata"] |= {"uid": f"w{index}", "namespace": text if index % 2 else "default"}
        if index % 5 == 0:
            waiting["spec"]["schedulingGates"] = [{"name": text}]
        if index % 5 == 1:
            waiting["spec"]["containers"][0]["resources"] = {"requests": {text: "1", "cpu": "1000"}}
        if index % 5 == 2:
            waiting["spec"]["volumes"] = [{"name": text, "persistentVolumeClaim": {"claimName": text}}]
        if index % 5 == 3:
            waiting["spec"]["containers"][0]["image"] = text
        items += [hostile, running, waiting]
    for text in ("gh-7", "@team", "deadbeef"):
        template = {"metadata": {"labels": {"app": text}}, "spec": pod(text, cpu="1")["spec"]}
        template["spec"] |= {"nodeSelector": {"zone": text}}
        spec = {"replicas": 3, "selector": {"matchLabels": {"app": text}}, "template": template}
        metadata = {"name": text, "namespace": "default", "uid": f"d{text}"}
        items.append({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec})
    return listed(tmp_path_factory.mktemp("calls") / "cluster.json", *items)


def check(page: str) -> None:
    assert page
    assert calls(page) == []
    assert tags(page) <= TAGS


@pytest.mark.parametrize(
    "question",
    sample([
        ["plan"],
        ["plan", "--explain"],
        ["plan", "--queue"],
        ["place", "gh-7/gh-7", "deadbeef/deadbeef", "--explain", "--all-nodes"],
        ["preempt"],
        ["explain", "-A", "--explain"],
        ["capacity", "--headroom"],
        ["capacity", "deploy/default/gh-7", "--replicas", "9"],
        ["drain", "@team", "#123"],
        ["drain", "*", "--rolling"],
        ["diff", "--cordon", "@team"],
    ], 2),
    ids=" ".join,
)  # fmt: skip
def test_no_report_calls(question: list[str], cluster: Path) -> None:
    answer = invoke(*question, "-s", cluster, "-o", "markdown")
    assert answer.exit_code in (0, 1), answer.stderr
    check(answer.stdout)


def test_what_a_task_says_to_type_stands_below_it() -> None:
    task = [Line((Span("Step 1"),), is_task=True), Preformatted("", "kubectl drain a")]
    text = render_markdown([line("Runbook"), line("First"), *task, Preformatted("", "all"), line("Last")], "Answer")
    assert "First\n\n- [ ] Step 1\n\n  ```sh\n  kubectl drain a\n  ```\n\n  ```sh\n  all\n  ```\n\nLast\n" in text


@pytest.mark.parametrize("text", CALLING[::4])
def test_no_refusal_calls(text: str, tmp_path: Path) -> None:
    broken = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": text}, "spec": {"containers": [{"image": text}]}}
    broken["spec"] |= {text: 1, "priority": text}
    manifest = tmp_path / f"{re.sub('[^#@a-z.]', '', text)}.json"
    manifest.write_text(json.dumps(broken))
    page = tmp_path / "summary.md"
    refused = invoke("place", manifest, "-o", "github", GITHUB_STEP_SUMMARY=str(page), GITHUB_ACTIONS="true")
    assert refused.exit_code == 2
    check(page.read_text())


def test_a_long_report_keeps_its_verdict_and_ends_within_no_fence_section_or_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = tuple((f"shop/web-{number}", "ä" * 40) for number in range(2000))
    folded = [Heading(("All of them",)), Preformatted("kube-scheduler writes", "x" * 70_000)]
    blocks = [Heading(("Answer",), 0), Table(("POD", "WHY"), rows, "<<"), *folded, Heading(("Verdict: failed",), 0)]
    text = render_markdown(blocks, "Answer")
    assert 50_000 < len(text.encode()) <= MOST_BYTES
    assert text.count("```") % 2 == 0
    assert text.count("<details>") == text.count("</details>") == 0
    assert all(line.endswith(" |") for line in text.splitlines() if line.startswith("|"))
    assert text.endswith("sections are left out.\n\n**Verdict: failed**\n")
