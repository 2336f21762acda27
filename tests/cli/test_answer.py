"""Every command in every format: the same verdict and sentence, and reports as their readers want them."""

import html
import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from kplan.report.registry import FORMATS
from tests.cli.commands import invoke, printed
from tests.report.schemas import against_junit, against_sarif
from tests.schemas import assert_keeps_to_its_schema

PODS = '{range .placements[*]}{.pod.namespace}/{.pod.name} {.node}{"\\n"}{end}'
FIXTURES = Path(__file__).parents[2] / "fixtures"
WEB, CART, GROUPS = (FIXTURES / name for name in ("web.yaml", "cart.yaml", "node-groups.yaml"))
#: Command -> its exit code, and what it tells in every format that names more than numbers and failures
QUESTIONS: dict[tuple[str | Path, ...], tuple[int, str]] = {
    ("place", "shop/voucher-api"): (0, "shop/voucher-api"),
    ("place", "ml/llm-eval"): (1, "ml/llm-eval"),
    ("place", "ml/llm-eval", "--fail-on", "none"): (0, "ml/llm-eval"),
    ("place", "ml/llm-eval", "--runs", "3"): (1, "ml/llm-eval"),
    ("explain", "ml/llm-eval"): (0, "ml/llm-eval"),
    ("preempt",): (1, "ml/llm-eval"),
    ("plan",): (1, "ml/llm-eval"),
    ("plan", "--explain"): (1, "ml/llm-eval"),
    ("plan", "--queue"): (0, "ml/llm-eval"),
    ("plan", CART): (0, "shop/cart"),
    ("plan", WEB, "--timeline"): (1, "shop/web"),
    ("remedy", "ml/train", "--snapshot", FIXTURES / "fragmented.yaml"): (0, "ml"),
    ("place", WEB, "--timeline", "--start", "4s", "--until", "10m"): (0, "shop/web"),
    ("capacity", WEB, "--replicas", "900"): (1, "shop/web"),
    ("capacity", WEB, "--preempt", "--explain"): (0, "shop/web"),
    ("capacity", "--headroom", WEB, "--replicas", "900"): (1, "shop/web"),
    ("capacity", "--shrink", "--add-nodes", "2=general-a-1"): (0, "spot-b-1"),
    ("drain", "general-b-2"): (1, "shop/checkout"),
    ("drain", "general-a-1", "--timeline", "--timeout", "2m"): (1, "shop/search"),
    ("drain", "general-a-1", "--runs", "3"): (1, "shop/search"),
    ("drain", "general-a-1", "--runbook"): (0, "general-a-1"),
    ("drain", "general-*", "--each"): (1, "general-c-1"),
    ("drain", "--by", "zone"): (1, "eu-west-1a"),
    ("diff", "shop/voucher-api", "--cordon", "*", "--fail-on", "regression"): (1, "shop/voucher-api"),
    ("diff", "shop/voucher-api", "--cordon", "*"): (0, "shop/voucher-api"),
    ("nodes", "--node-groups", GROUPS): (0, "gpu-b-new-1"),
    ("check",): (1, "every node drains alone"),
}
#: These tell what went wrong, in numbers or in a sentence.
SELECTIVE = {"github", "sarif", "codequality", "openmetrics", "short"}


def flat(text: str) -> str:
    return " ".join(html.unescape(text).replace("\\", "").split())


@pytest.mark.parametrize(("args", "expected"), QUESTIONS.items(), ids=lambda part: " ".join(map(str, part)))
def test_every_format_tells_the_same_answer(
    args: tuple[str | Path, ...], expected: tuple[int, str], tmp_path: Path
) -> None:
    code, name = expected
    reports = [word for output in FORMATS for word in ("--report", f"{output}={tmp_path / output}")]
    result = invoke(*args, *reports, GITHUB_WORKSPACE=str(tmp_path))
    texts = {output: (tmp_path / output).read_text("utf-8") for output in FORMATS}
    document = json.loads(texts["json"])

    assert_keeps_to_its_schema(document)
    assert (result.exit_code, document["verdict"]["exitCode"], document["verdict"]["failed"]) == (code, code, code == 1)
    assert result.stdout == texts["table"]
    assert yaml.safe_load(texts["yaml"]) == document
    assert texts["short"] == f"{document['sentence']}\n"
    for output in ("table", "wide", "markdown", "html"):
        assert flat(document["sentence"]) in flat(texts[output])
    assert {output for output in FORMATS if name not in texts[output]} <= SELECTIVE
    assert f'kplan_failed{{kind="{document["kind"]}"}} {code}\n' in texts["openmetrics"]
    assert texts["github"].splitlines()[-1].startswith("::notice title=kplan::")
    check_junit(texts["junit"])
    check_sarif(texts["sarif"])


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


@pytest.mark.parametrize("output", FORMATS)
def test_a_format_that_is_printed_is_the_one_that_is_written(output: str, tmp_path: Path) -> None:
    result = invoke("place", "ml/llm-eval", "-o", output, "--report", f"{output}={tmp_path / 'report'}")

    assert (result.exit_code, result.stdout) == (1, (tmp_path / "report").read_text("utf-8"))


def test_a_template_picks_what_it_names() -> None:
    found = printed("place", "shop/voucher-api", "ml/llm-eval", "-o", f"jsonpath={PODS}", code=1)
    assert found == "shop/voucher-api general-a-2\nml/llm-eval null\n"


@pytest.mark.parametrize(
    ("args", "template"),
    [
        (("plan",), "{.summary.placed}"),
        (("preempt",), "{.summary.pods}"),
        (("explain", "ml/llm-eval"), "{.placements[0].outcome}"),
        (("drain", "general-a-1"), "{.summary.moved}"),
        (("snapshot", "show", "demo"), "{.nodes.total}"),
        (("snapshot", "check", "demo"), "{.valid}"),
        (("snapshot", "rbac"), "{.kind}"),
        (("config", "show"), "{.kubernetesVersion}"),
    ],
)
def test_it_says_what_stands_in_the_json_document(args: tuple[str, ...], template: str) -> None:
    value = json.loads(invoke(*args, "-o", "json").stdout)
    for key in template.strip("{}.").replace("[0]", ".0").split("."):
        value = value[int(key) if key.isdigit() else key]
    written = value if isinstance(value, str) else json.dumps(value)

    assert invoke(*args, "-o", f"jsonpath={template}").stdout == written


def test_formats_may_follow_an_equals_sign_as_kubectl_has_it() -> None:
    assert json.loads(invoke("snapshot", "show", "demo", "-o=json").stdout)["kind"] == "SnapshotOverview"
    assert invoke("snapshot", "show", "demo", "-o=jsonpath={.kind}").stdout == "SnapshotOverview"
    assert invoke("snapshot", "show", "demo", "-o=xml").exit_code == 2
