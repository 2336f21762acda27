"""The ready jobs for pipelines: the script does what they rely on, and they call it and kplan as they are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from tests.cli.commands import invoke

HERE = Path(__file__).parents[2]
CI = HERE / "fixtures" / "ci"
FITS = HERE / "fixtures" / "web.yaml"
TOO_LARGE = """\
apiVersion: v1
kind: Pod
metadata: {name: huge}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "60"}}}]}
"""


def programs(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a job in which `kplan` is this one, and pip installs nothing."""
    kplan, python = tmp_path / "bin" / "kplan", tmp_path / "bin" / "python3"
    kplan.parent.mkdir()
    kplan.write_text(f'#!/bin/sh\nPYTHONPATH="{HERE}" exec "{sys.executable}" -m kplan "$@"\n')
    python.write_text('#!/bin/sh\necho "$@"\n')
    for each in (kplan, python):
        each.chmod(0o755)
    path = f"{kplan.parent}{os.pathsep}{os.environ['PATH']}"
    known = {key: value for key, value in os.environ.items() if not key.startswith(("GITHUB_", "KPLAN_"))}
    return {**known, "PATH": path}


def check(tmp_path: Path, *args: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the script."""
    env = {**programs(tmp_path), "KPLAN_REPORTS": str(tmp_path / "reports"), **environment}
    command = ["bash", str(CI / "check.sh"), *map(str, args)]
    return subprocess.run(command, env=env, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_the_script_fails_annotates_and_reports_what_fits_nowhere(tmp_path: Path):
    huge = tmp_path / "huge.yaml"
    huge.write_text(TOO_LARGE)
    page = tmp_path / "page.md"
    found = check(tmp_path, "demo", huge, GITHUB_ACTIONS="true", GITHUB_STEP_SUMMARY=str(page))

    assert found.returncode == 1, found.stderr
    assert f"::error file={huge.name},line=4,title=kplan%3A Pod default/huge" in found.stdout
    assert "it requests 60 cpu" in page.read_text()
    suite = ET.parse(tmp_path / "reports" / "kplan.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("1", "1")
    (run,) = json.loads((tmp_path / "reports" / "kplan.sarif").read_text())["runs"]
    assert [each["ruleId"] for each in run["results"]] == ["Unschedulable"]
    assert "<h1>" in (tmp_path / "reports" / "placement.html").read_text()


def test_the_script_passes_what_fits(tmp_path: Path):
    found = check(tmp_path, "demo", FITS)

    assert found.returncode == 0, found.stderr
    assert "::" not in found.stdout


def test_the_script_says_how_it_is_used(tmp_path: Path):
    found = check(tmp_path, "demo")

    assert found.returncode == 2
    assert "usage:" in found.stderr


def test_the_action_gives_the_script_what_the_job_says(tmp_path: Path):
    action = yaml.safe_load((CI / "action.yml").read_text())
    assert {each["shell"] for each in action["runs"]["steps"]} == {"bash"}
    (tmp_path / "huge.yaml").write_text(TOO_LARGE)
    inputs = {"snapshot": "demo", "manifests": f"{FITS}\n\n./huge.yaml\n", "package": "kplan"}
    assert {name for name, each in action["inputs"].items() if each["required"]} == set(inputs)
    known = {f"${{{{ inputs.{name} }}}}": value for name, value in inputs.items()}
    env = {**programs(tmp_path), "GITHUB_ACTION_PATH": str(CI), "GITHUB_ACTIONS": "true"}
    for step in action["runs"]["steps"]:
        given = {
            name: known.get(text, text.replace("${{ runner.temp }}", str(tmp_path)))
            for name, text in step["env"].items()
        }
        command = ["bash", "-eo", "pipefail", "-c", step["run"]]
        found = subprocess.run(command, env={**env, **given}, cwd=tmp_path, capture_output=True, text=True, check=False)

    assert found.returncode == 1, found.stderr
    assert found.stdout.startswith("::error file=huge.yaml,line=4,title=kplan%3A Pod default/huge (Unschedulable)::")
    for output in action["outputs"].values():
        assert Path(output["value"].replace("${{ runner.temp }}", str(tmp_path))).is_file()


def test_the_page_about_pipelines_names_every_job():
    page = (HERE / "docs" / "ci.md").read_text()

    assert [each.name for each in CI.iterdir() if f"(../fixtures/ci/{each.name})" not in page] == []


@pytest.mark.parametrize("name", ["action.yml", "github.yaml", "gitlab.yaml", "pre-commit.yaml"])
def test_jobs_are_valid_yaml(name: str):
    assert isinstance(yaml.safe_load((CI / name).read_text()), dict)


def test_the_hook_calls_kplan_with_options_that_it_has(tmp_path: Path):
    (repo,) = yaml.safe_load((CI / "pre-commit.yaml").read_text())["repos"]
    entry = repo["hooks"][0]["entry"].split()
    huge = tmp_path / "huge.yaml"
    huge.write_text(TOO_LARGE)
    args = ["demo" if each == "cluster.json.gz" else each for each in entry[1:]]

    assert entry[0] == "kplan"
    assert invoke(*args, FITS).exit_code == 0
    assert invoke(*args, huge).exit_code == 1


@pytest.mark.parametrize("name", ["action.yml", "gitlab.yaml", "Jenkinsfile"])
def test_jobs_call_the_script(name: str):
    assert "check.sh" in (CI / name).read_text()
