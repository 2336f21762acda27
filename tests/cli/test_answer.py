"""Every command in every format: the same verdict and sentence, and reports as their readers want them."""

import html
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec
import pytest
import yaml

import kplan
from kplan.changes.values import DrainOptions
from kplan.course.clock import Clock
from kplan.facts import ClusterChange
from kplan.questions import (
    Capacity,
    Checks,
    Diff,
    Drain,
    Explain,
    Headroom,
    InTurn,
    ManyRuns,
    Place,
    Plan,
    Preempt,
    Queue,
    Remedy,
    Runbook,
    Shapes,
    WhatIf,
)
from kplan.questions.base import Question
from kplan.report.registry import FORMATS
from kplan.report.view import change_text
from tests.cli.commands import invoke, printed, told
from tests.recorded import sample
from tests.report.schemas import against_junit, against_sarif
from tests.schemas import assert_keeps_to_its_schema

PODS = '{range .placements[*]}{.pod.namespace}/{.pod.name} {.node}{"\\n"}{end}'
FIXTURES = Path(__file__).parents[2] / "fixtures"
WEB, GROUPS = (str(FIXTURES / name) for name in ("web.yaml", "node-groups.yaml"))
#: A question, the command that asks the same, its exit code, and what it tells in every format that names more than
#: numbers and failures.
SAME: list[tuple[Question | None, tuple[str, ...], int, str]] = [
    (Place(manifests=(WEB,)), ("place", WEB), 0, "shop/web"),
    (Place(pods=("shop/voucher-api",)), ("place", "shop/voucher-api"), 0, "shop/voucher-api"),
    (Place(pods=("ml/llm-eval",)), ("place", "ml/llm-eval"), 1, "ml/llm-eval"),
    (None, ("place", "ml/llm-eval", "--fail-on", "none"), 0, "ml/llm-eval"),
    (Place(manifests=(WEB,), timeline=Clock()), ("place", WEB, "--timeline"), 0, "shop/web"),
    (ManyRuns(question=Place(manifests=(WEB,)), runs=5, seed=3), ("place", WEB, "--runs", "5", "--seed", "3"), 0,
     "shop/web"),
    (Explain(("deploy/shop/cart",)), ("explain", "deploy/shop/cart"), 0, "shop/cart"),
    (Explain(("ml/llm-eval",)), ("explain", "ml/llm-eval"), 0, "ml/llm-eval"),
    (Preempt(), ("preempt", "--follow"), 1, "ml/llm-eval"),
    (Plan(), ("plan",), 1, "ml/llm-eval"),
    (Plan(), ("plan", "--explain"), 1, "ml/llm-eval"),
    (Plan(manifests=(WEB,), only_these=True), ("plan", WEB, "--only-given"), 0, "shop/web"),
    (Queue(), ("plan", "--queue"), 0, "ml/llm-eval"),
    (ManyRuns(question=Plan(timeline=Clock()), runs=3), ("plan", "--runs", "3", "--timeline"), 1, "ml/llm-eval"),
    (Plan(manifests=(WEB,), timeline=Clock(runs_for=60.0)), ("plan", WEB, "--for", "60s"), 1, "shop/web"),
    (WhatIf(question=Plan(), add_nodes=("2=general-a-1",)), ("plan", "--add-nodes", "2=general-a-1"), 1, "ml/llm-eval"),
    (Remedy(only=("nodes",)), ("remedy", "--only", "nodes"), 1, "gpu-a-1"),
    (Capacity((WEB,), replicas=900), ("capacity", WEB, "--replicas", "900"), 1, "shop/web"),
    (None, ("capacity", WEB, "--preempt", "--explain"), 0, "shop/web"),
    (Capacity((WEB,), workloads=("Deployment/shop/cart",), mix=(2, 1), limit=9),
     ("capacity", WEB, "deploy/shop/cart", "--mix", "2:1", "--max", "9"), 0, "shop/web"),
    (Shapes((WEB,), replicas=30, shapes=str(FIXTURES / "shapes.yaml")),
     ("capacity", WEB, "--replicas", "30", "--shapes", str(FIXTURES / "shapes.yaml")), 1, "shop/web"),
    (Headroom(workloads=("Deployment/shop/cart",)), ("capacity", "--headroom", "deploy/shop/cart"), 0, "shop/cart"),
    (Headroom(limit=20), ("capacity", "--headroom", "--max", "20"), 0, "shop/cart"),
    (None, ("capacity", "--shrink", "--add-nodes", "2=general-a-1"), 0, "spot-b-1"),
    (Drain(("general-b-2",)), ("drain", "general-b-2"), 1, "shop/checkout"),
    (Drain(("general-a-1",), how="lost"), ("drain", "general-a-1", "--lost"), 1, "batch/report-daily"),
    (Drain(("general-a-1",), how="one-by-one", options=DrainOptions(force=True)),
     ("drain", "general-a-1", "--one-by-one", "--force"), 1, "shop/search"),
    (Drain(("general-b-1",), timeline=Clock(start={"*": 20.0}, until=3600.0, min_ready="50%")),
     ("drain", "general-b-1", "--timeline", "--start", "20s", "--until", "1h", "--min-ready", "50%"), 1, "general-b-1"),
    (Drain(("spot-a-1", "spot-b-1"), how="replace", timeline=Clock(node_start={"*": 30.0}), profile="aks"),
     ("drain", "spot-a-1", "spot-b-1", "--replace", "--timeline", "--profile", "aks", "--node-start", "30s"), 1,
     "spot-b-1"),
    (Drain(("general-a-1",), how="lost", timeline=Clock()), ("drain", "general-a-1", "--lost", "--timeline"), 1,
     "batch/report-daily"),
    (ManyRuns(question=Drain(("spot-a-1",), timeline=Clock()), runs=3),
     ("drain", "spot-a-1", "--runs", "3", "--timeline"), 1, ""),
    (Runbook(("spot-a-1",), timeline=Clock()), ("drain", "spot-a-1", "--runbook", "--timeline"), 0, "spot-a-1"),
    (InTurn(question=Drain(("spot-a-1", "gpu-a-1"), timeline=Clock())),
     ("drain", "spot-a-1", "gpu-a-1", "--each", "--timeline"), 1, "gpu-a-1"),
    (InTurn(by="zone"), ("drain", "--by", "zone"), 1, "eu-west-1a"),
    (Diff(Plan(), WhatIf(question=Plan(), add_nodes=("2=general-a-1",))), ("diff", "--add-nodes", "2=general-a-1"), 0,
     "shop/voucher-api"),
    (None, ("diff", "shop/voucher-api", "--cordon", "*", "--fail-on", "regression"), 1, "shop/voucher-api"),
    (None, ("nodes", "--node-groups", GROUPS), 0, "gpu-b-new-1"),
    (Checks(), ("check",), 1, "every node drains alone"),
]  # fmt: skip
#: The one in C takes a tenth of the time, where there is one.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
#: These tell what went wrong, in numbers or in a sentence.
SELECTIVE = {"github", "sarif", "codequality", "openmetrics", "short"}
COMPARED = (
    "summary", "verdict", "steps", "timeline", "after", "workloads", "drains", "queue", "replicas", "nodes", "removed",
)  # fmt: skip


def flat(text: str) -> str:
    return " ".join(html.unescape(text).replace("\\", "").split())


def comparable(document: dict[str, Any]) -> dict[str, Any]:
    """Return what does not depend on the options of the command line, which show the nodes of tables only."""
    chosen = {name: document[name] for name in COMPARED if name in document and "what" not in document[name]}
    if document["kind"] == "HeadroomReport":
        chosen["workloads"] = [(workload["workload"], workload["fits"]) for workload in document["workloads"]]
    if document["kind"] == "DiffReport":
        chosen["workloads"] = [(workload["workload"], workload["difference"]) for workload in document["workloads"]]
    pods = [(pod["pod"], pod.get("node"), pod["outcome"]) for pod in document.get("placements", ())]
    return {**chosen, "kind": document["kind"], "pods": pods}


CHOSEN = sample(SAME, 20)


@pytest.mark.parametrize(("question", "command", "code", "name"), CHOSEN, ids=[" ".join(row[1]) for row in CHOSEN])
def test_a_question_has_the_answer_of_its_command_and_every_format_tells_it(
    demo: kplan.Planner, question: Question | None, command: tuple[str, ...], code: int, name: str, tmp_path: Path
) -> None:
    reports = [word for output in FORMATS for word in ("--report", f"{output}={tmp_path / output}")]
    result = invoke(*command, *reports, GITHUB_WORKSPACE=str(tmp_path))
    assert (tmp_path / "json").exists(), result.stderr
    texts = {output: (tmp_path / output).read_text("utf-8") for output in FORMATS}
    document = json.loads(texts["json"])

    assert_keeps_to_its_schema(document)
    if question is not None:
        assert comparable(demo.ask(question).to_dict()) == comparable(document)
    assert (result.exit_code, document["verdict"]["exitCode"], document["verdict"]["failed"]) == (code, code, code == 1)
    assert result.stdout == texts["table"]
    assert printed("show", tmp_path / "json", *(["--explain"] * ("--explain" in command))) == result.stdout
    assert yaml.load(texts["yaml"], LOADER) == document
    assert all(f"What if: {text}" in texts["table"] for text in map(change_text, changes_of(document)))
    for placement in document.get("placements", ()):
        if placement["outcome"] == "Scheduled":
            assert placement["node"] in {*placement["ties"]} & {*placement["feasibleNodes"]}
            assert bool(placement["scores"]) == (placement["feasibleCount"] > 1)
    assert texts["short"] == f"{document['sentence']}\n"
    for output in ("table", "wide", "markdown", "html"):
        assert flat(document["sentence"]) in flat(texts[output])
    assert {output for output in FORMATS if name not in texts[output]} <= SELECTIVE
    assert f'kplan_failed{{kind="{document["kind"]}"}} {code}\n' in texts["openmetrics"]
    assert texts["github"].splitlines()[-1].startswith("::notice title=kplan::")
    check_junit(texts["junit"])
    check_sarif(texts["sarif"])


def changes_of(document: dict[str, Any]) -> tuple[ClusterChange, ...]:
    """Return what was changed on paper; the two answers of a difference are about two clusters."""
    changes = () if document["kind"] == "DiffReport" else document["snapshot"].get("changes", ())
    return msgspec.convert(changes, tuple[ClusterChange, ...])


def check_junit(text: str) -> None:
    assert against_junit(text) == []
    suites = ET.fromstring(text)
    assert int(suites.attrib["tests"]) == len(suites.findall("testsuite/testcase")) > 0


def check_sarif(text: str) -> None:
    assert against_sarif(text) == []
    (run,) = json.loads(text)["runs"]
    rules, results = run["tool"]["driver"]["rules"], run["results"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in results)
    assert all(rule["help"]["text"] for rule in rules)
    assert all(result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in results)
    prints = [(result["partialFingerprints"]["kplanCase/v1"], result["message"]["text"]) for result in results]
    assert len(set(prints)) == len(prints)


def test_a_template_picks_what_it_names() -> None:
    found = printed("place", "shop/voucher-api", "ml/llm-eval", "-o", f"jsonpath={PODS}", code=1)
    assert found == "shop/voucher-api general-a-2\nml/llm-eval null\n"


@pytest.mark.parametrize(
    ("args", "template"),
    sample([
        (("plan",), "{.summary.placed}"),
        (("preempt",), "{.summary.pods}"),
        (("explain", "ml/llm-eval"), "{.placements[0].outcome}"),
        (("drain", "general-a-1"), "{.summary.moved}"),
        (("snapshot", "show", "demo"), "{.nodes.total}"),
        (("snapshot", "check", "demo"), "{.valid}"),
        (("snapshot", "rbac"), "{.kind}"),
        (("config", "show"), "{.kubernetesVersion}"),
    ], 2, 1),
)  # fmt: skip
def test_it_says_what_stands_in_the_json_document(args: tuple[str, ...], template: str) -> None:
    value = told(*args)
    for key in template.strip("{}.").replace("[0]", ".0").split("."):
        value = value[int(key) if key.isdigit() else key]
    written = value if isinstance(value, str) else json.dumps(value)
    assert invoke(*args, "-o", f"jsonpath={template}").stdout == written


def test_values_of_short_options_may_follow_an_equals_sign_as_kubectl_has_it() -> None:
    assert json.loads(invoke("snapshot", "show", "demo", "-o=json").stdout)["kind"] == "SnapshotOverview"
    assert invoke("plan", "-s=demo", "-o=jsonpath={.kind}").stdout == "PlanReport"
    assert invoke("snapshot", "show", "demo", "-o=xml").exit_code == 2
