import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kplan.commands.config import app
from kplan.config import load_scheduler_config
from kplan.config.releases import reference
from kplan.errors import UsageError
from tests.cli.commands import invoke, told, written

GOOD = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
percentageOfNodesToScore: 30
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint:
      enabled: [{name: TaintToleration, weight: 9}, {name: Coscheduling}]
    filter:
      disabled: [{name: NodePorts}]
      enabled: [{name: NodeName}]
    score:
      disabled: [{name: ImageLocality}]
      enabled: [{name: NodeResourcesFit, weight: 7}]
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 3}]}
- schedulerName: batch
  percentageOfNodesToScore: 100
extenders:
- {urlPrefix: "https://extender.example", filterVerb: filter, prioritizeVerb: prioritize, weight: 2}
"""

BAD = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: 0
profiles:
- pluginConfig:
  - {name: InterPodAffinity, args: {hardPodAffinityWeight: 500}}
"""


@pytest.fixture
def good(tmp_path: Path) -> str:
    path = written(tmp_path / "good.yaml", GOOD)
    return str(path)


@pytest.fixture
def bad(tmp_path: Path) -> str:
    path = written(tmp_path / "bad.yaml", BAD)
    return str(path)


def test_show_without_a_file_is_the_default_with_no_mark() -> None:
    result = CliRunner().invoke(app, ["show"])
    assert result.exit_code == 0
    assert result.stdout.startswith(
        f"Effective scheduler configuration: the default of kube-scheduler v{reference().minor}\n"
        "  no difference from the default\n"
    )
    assert "  postFilter       DynamicResources, DefaultPreemption\n" in result.stdout
    assert "*" not in result.stdout
    assert result.stderr == ""


def test_show_marks_what_differs_and_says_what_the_default_is(good: str) -> None:
    result = CliRunner(env={"COLUMNS": "120"}).invoke(app, ["show", good])

    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "* percentageOfNodesToScore 30 0" in lines
    assert lines[lines.index("Profile batch") + 1] == "* percentageOfNodesToScore 100 in place of 30"
    assert "* scoringStrategy.type MostAllocated LeastAllocated" in lines
    assert "* scoringStrategy.resources cpu:3 cpu:1 memory:1" in lines
    assert "*~NodeResourcesFit 7 (default 1), *TaintToleration 9 (default 3)" in " ".join(result.stdout.split())
    assert "-ImageLocality" in result.stdout
    assert "~NodeName, NodeUnschedulable, TaintToleration" in result.stdout
    assert "-NodePorts" in result.stdout
    assert any(line.startswith("+ https://extender.example filter prioritize 2") for line in lines)
    assert max(map(len, result.stdout.splitlines())) <= 120


def test_as_few_plugins_as_possible_are_marked_as_moved(tmp_path: Path) -> None:
    score = (
        "{disabled: [{name: '*'}], enabled: [{name: NodeResourcesFit}, {name: ImageLocality}, {name: NodeAffinity}]}"
    )
    config = written(
        tmp_path / "config.yaml", f"{BAD.partition('parallelism')[0]}profiles:\n- plugins: {{score: {score}}}\n"
    )
    shown = " ".join(CliRunner().invoke(app, ["show", str(config)]).stdout.split())
    assert " score NodeResourcesFit 1, ImageLocality 1, *~NodeAffinity 1 (default 2), -" in shown


def test_show_json_holds_a_configuration_that_loads_the_differences_and_the_warnings(good: str) -> None:
    result = CliRunner().invoke(app, ["show", "--scheduler-config", good, "--output", "json"])

    document = json.loads(result.stdout)
    assert (document["apiVersion"], document["kind"], document["formatVersion"]) == (
        "kplan/v1",
        "SchedulerConfigReport",
        "1.0",
    )
    again = load_scheduler_config(document["configuration"])
    assert again.profiles == load_scheduler_config(good).profiles
    assert {"path": "percentageOfNodesToScore", "default": 0, "effective": 30} in document["differences"]
    assert [warning["code"] for warning in document["warnings"]] == ["UnknownPlugin"]


def test_check_says_ok(good: str) -> None:
    result = CliRunner().invoke(app, ["check", good])
    assert (result.exit_code, result.stdout) == (0, f"{good}: ok (2 profiles: default-scheduler, batch)\n")
    assert result.stderr.startswith("warning: ")


def test_check_names_every_problem_with_its_line_its_path_and_a_hint(bad: str) -> None:
    result = CliRunner(env={"COLUMNS": "80"}).invoke(app, ["check", bad])

    assert result.exit_code == 2
    assert result.stdout == (
        f"{bad}: 2 problems\n"
        "  - line 3: parallelism: Invalid value: 0: should be an integer value greater\n"
        "    than zero\n"
        "    hint: write 1 or more; the default is 16\n"
        "  - line 6: profiles[0].pluginConfig[0].args.hardPodAffinityWeight: Invalid\n"
        "    value: 500: not in valid range [0, 100]\n"
        "    hint: write a number from 0 to 100; the default is 1\n"
    )


def test_check_json_carries_the_same_verdict(good: str, bad: str) -> None:
    refused = CliRunner().invoke(app, ["check", bad, "-o", "json"])
    accepted = CliRunner().invoke(app, ["check", good, "-o", "json"])

    assert (refused.exit_code, accepted.exit_code) == (2, 0)
    document = json.loads(refused.stdout)
    assert document["kind"] == "SchedulerConfigCheck"
    assert document["valid"] is False
    assert [problem["path"] for problem in document["problems"]] == [
        "parallelism",
        "profiles[0].pluginConfig[0].args.hardPodAffinityWeight",
    ]
    assert [problem["line"] for problem in document["problems"]] == [3, 6]
    assert json.loads(accepted.stdout) | {"warnings": []} == {
        "apiVersion": "kplan/v1",
        "kind": "SchedulerConfigCheck",
        "formatVersion": "1.0",
        "source": good,
        "valid": True,
        "problems": [],
        "warnings": [],
    }


def test_check_of_text_that_is_no_yaml_names_its_line() -> None:
    result = CliRunner().invoke(app, ["check", "-"], input="profiles:\n- a\n b: {\n")
    assert result.exit_code == 2
    assert result.stdout.startswith("standard input: 1 problem\n  - line 3: not valid YAML: ")


@pytest.mark.parametrize("arguments", [["check"], ["show", "a.yaml", "--scheduler-config", "b.yaml"]])
def test_no_file_to_check_and_two_to_choose_from_are_usage_errors(arguments: list[str]) -> None:
    result = CliRunner().invoke(app, arguments)
    assert isinstance(result.exception, UsageError)
    assert result.exception.hint


def test_show_lists_the_gates_of_the_release_and_how_they_are_set() -> None:
    text = invoke("config", "show", "--kubernetes-version", "1.34", "--feature-gates", "PodLevelResources=false").stdout
    document = told("config", "show", "--kubernetes-version", "1.34.1")
    assert "the default of kube-scheduler v1.34\n" in text
    assert "*PodLevelResources" in text
    assert "SchedulerQueueingHints (locked)" in text
    assert document["kubernetesVersion"] == "1.34.1"
    gate = {"on": True, "default": True, "stage": "Beta", "locked": False}
    assert document["featureGates"]["PodLevelResources"] == gate
    assert "NodeDeclaredFeatures" not in document["featureGates"]


@pytest.mark.parametrize(
    ("minor", "text", "message"),
    [
        ("1.35", "plugins: {placementScore: {enabled: []}}", 'unknown field "profiles[0].plugins.placementScore"'),
        ("1.34", "plugins: {multiPoint: {enabled: [{name: NodeDeclaredFeatures}]}}", "does not exist"),
        ("1.35", "pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 5s}}]", "feature gate is disabled"),
        ("1.34", "pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 5s}}]", "unknown field"),
    ],
)
def test_check_reads_a_file_as_the_release_reads_it(tmp_path: Path, minor: str, text: str, message: str) -> None:
    path = written(
        tmp_path / "scheduler.yaml",
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
        f"profiles:\n- schedulerName: default-scheduler\n  {text}\n",
    )
    assert invoke("config", "check", path).exit_code == 0
    found = invoke("config", "check", path, "--kubernetes-version", minor)
    assert found.exit_code == 2
    assert message in found.stdout
