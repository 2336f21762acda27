"""Every command's SARIF and JUnit, held against the schemas of those who read them."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.commands import invoke
from tests.report.schemas import against_junit, against_sarif

HERE = Path(__file__).parents[2]
TOO_LARGE = """\
apiVersion: v1
kind: Pod
metadata: {name: "huge"}
spec:
  containers:
  - name: "c"
    image: i
    resources:
      requests:
        memory: 1Gi
        cpu: "60"
"""
LINE_OF_CPU = 11
COMMANDS = {
    "place": ["place", "MANIFEST"],
    "place again and again": ["place", "MANIFEST", "--runs", "3"],
    "preempt": ["preempt"],
    "plan": ["plan", "MANIFEST"],
    "plan's queue": ["plan", "--queue"],
    "a rollout": ["plan", str(HERE / "fixtures" / "cart.yaml")],
    "explain": ["explain", "ml/llm-eval"],
    "capacity": ["capacity", "MANIFEST", "--replicas", "2"],
    "drain": ["drain", "general-a-1"],
    "drain each": ["drain", "--each"],
    "diff": ["diff", "--cordon", "general-a-1"],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_reports_are_valid(tmp_path: Path, command: list[str]):
    manifest = tmp_path / "deploy" / "huge pod.yaml"
    manifest.parent.mkdir()
    manifest.write_text(TOO_LARGE)
    sarif, junit = tmp_path / "kplan.sarif", tmp_path / "kplan.xml"
    words = [str(manifest) if each == "MANIFEST" else each for each in command]
    found = invoke(*words, "--report", f"sarif={sarif}", "--report", f"junit={junit}", GITHUB_WORKSPACE=str(tmp_path))

    assert found.exit_code in (0, 1), found.stderr
    assert against_sarif(sarif.read_text()) == []
    assert against_junit(junit.read_text()) == []
    suites = ET.parse(junit).getroot()
    assert suites.findall("testsuite/testcase")
    assert int(suites.attrib["tests"]) == len(suites.findall("testsuite/testcase"))
    (run,) = json.loads(sarif.read_text())["runs"]
    ids = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert all(ids[result["ruleIndex"]] == result["ruleId"] for result in run["results"])
    assert all(rule["help"]["text"] for rule in run["tool"]["driver"]["rules"])
    assert all(result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in run["results"])
    prints = [(result["partialFingerprints"]["kplanCase/v1"], result["message"]["text"]) for result in run["results"]]
    assert len(set(prints)) == len(prints)


def test_a_file_of_the_repository_is_named_as_the_repository_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    below = tmp_path / "apps" / "shop"
    below.mkdir(parents=True)
    (below / "huge pod.yaml").write_text(TOO_LARGE)
    monkeypatch.chdir(below)
    args = ["place", "./huge pod.yaml", "--report", "sarif=kplan.sarif", "--report", "junit=kplan.xml", "-o", "github"]
    found = invoke(*args, CI_PROJECT_DIR=str(tmp_path))

    assert found.stdout.startswith(f"::error file=apps/shop/huge pod.yaml,line={LINE_OF_CPU},title=")
    assert "%0AMore: kplan place 'huge pod.yaml' --explain" in found.stdout
    (run,) = json.loads((below / "kplan.sarif").read_text())["runs"]
    place = run["results"][0]["locations"][0]["physicalLocation"]
    assert place["artifactLocation"] == {"uri": "apps/shop/huge%20pod.yaml", "uriBaseId": "%SRCROOT%"}
    assert place["region"] == {"startLine": LINE_OF_CPU}
    suite = ET.parse(below / "kplan.xml").getroot().find("testsuite")
    assert suite is not None
    assert suite.attrib["file"] == "apps/shop/huge pod.yaml"
    assert (suite.findtext("testcase/failure") or "").startswith(f"apps/shop/huge pod.yaml:{LINE_OF_CPU}\n")


def test_what_comes_through_a_pipe_is_in_no_file():
    found = invoke("place", "-", "-o", "github", stdin=TOO_LARGE)

    assert found.stdout.startswith("::error title=kplan%3A Pod default/huge (Unschedulable)::")
    assert found.stdout.splitlines()[0].endswith("More: kplan place - --explain")


@pytest.mark.parametrize("broken", ["{}", '{"version": "2.1.0", "runs": [{"tool": {}}]}'])
def test_the_schema_refuses_what_is_no_sarif(broken: str):
    assert against_sarif(broken)


@pytest.mark.parametrize("broken", ["<testsuites skipped='1'/>", "<testsuite name='x'/>", "<report/>"])
def test_the_schema_refuses_what_jenkins_does_not_read(broken: str):
    assert against_junit(broken)
