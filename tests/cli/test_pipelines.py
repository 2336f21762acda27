"""The ready jobs for pipelines: the script does what they rely on, and they call it and kplan as they are."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
import yaml

from kplan.report.options import OutputFormat
from tests.cli.commands import committed, invoke, written

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
    kplan.parent.mkdir(exist_ok=True)
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
    huge = written(tmp_path / "huge.yaml", TOO_LARGE)
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


def act(tmp_path: Path, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run the script of the action as its second step does."""
    action = yaml.safe_load((HERE / "action.yml").read_text())
    (step,) = [step for step in action["runs"]["steps"] if step.get("id") == "kplan"]
    known = {name: given.get("default", "") for name, given in action["inputs"].items()} | inputs
    environment = {**programs(tmp_path), "GITHUB_ACTIONS": "true", "GITHUB_OUTPUT": str(tmp_path / "output")}
    for name, text in step["env"].items():
        value = re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: known[match[1]], text)
        environment[name] = value.replace("${{ runner.temp }}", str(tmp_path))
    script = re.sub(r"^PATH=\S+ ", "", step["run"]).replace("$GITHUB_ACTION_PATH", str(HERE))
    command = ["bash", "-eo", "pipefail", "-c", script]
    return subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)


def test_the_action_annotates_what_fits_nowhere_and_leaves_failing_to_its_last_step(tmp_path: Path):
    (tmp_path / "huge.yaml").write_text(TOO_LARGE)
    found = act(tmp_path, snapshot="demo", manifests=f"{FITS}\n\n./huge.yaml\n")

    assert found.returncode == 0, found.stderr
    assert "::error file=huge.yaml,line=4,title=kplan%3A Pod default/huge (unschedulable)::" in found.stdout
    told = outputs(tmp_path)
    assert (told.pop("code"), told.pop("failed")) == ("1", "true")
    declared = yaml.safe_load((HERE / "action.yml").read_text())["outputs"].values()
    assert {f"${{{{ steps.kplan.outputs.{name} }}}}" for name in (*told, "failed")} == {
        one["value"] for one in declared
    }
    assert [path for path in told.values() if not Path(path).is_file()] == []


def outputs(tmp_path: Path) -> dict[str, str]:
    """Return what the script of the action says to later steps."""
    return dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())


def test_the_action_says_that_there_is_no_answer_and_leaves_no_older_one(tmp_path: Path):
    act(tmp_path, snapshot="demo", manifests=str(FITS))
    (tmp_path / "output").unlink()
    (tmp_path / "bad.yaml").write_text("kind: Pod\n# ```\n")
    act(tmp_path, snapshot="demo", manifests="bad.yaml")

    assert (outputs(tmp_path)["code"], outputs(tmp_path)["failed"]) == ("2", "true")
    comment = Path(outputs(tmp_path)["markdown"]).read_text()
    assert comment.startswith("## kplan: no answer\n")
    assert "    error: bad.yaml" in comment
    assert sorted(path.name for path in (tmp_path / "kplan").iterdir()) == sorted(
        Path(path).name for name, path in outputs(tmp_path).items() if name not in {"code", "failed"}
    )


def test_no_name_of_a_file_is_an_option_of_the_action(tmp_path: Path):
    (tmp_path / "--save=stolen.yaml").write_text(TOO_LARGE)
    act(tmp_path, snapshot="demo", manifests="--save=stolen.yaml")
    assert not (tmp_path / "stolen.yaml").exists()
    assert "huge" in (tmp_path / "kplan" / "kplan.md").read_text()


def test_the_action_builds_kustomizations_and_passes_further_arguments(tmp_path: Path):
    found = act(
        tmp_path, snapshot="demo", manifests=str(FITS), arguments="--kubernetes-version=1.34\n", kustomizations="base"
    )
    assert "-k base: no such directory" in found.stderr


def test_the_action_compares_with_another_revision(tmp_path: Path):
    (tmp_path / "deploy").mkdir()
    manifest = tmp_path / "deploy" / "pod.yaml"
    manifest.write_text(TOO_LARGE.replace('"60"', '"1"'))
    committed(tmp_path)
    manifest.write_text(TOO_LARGE)
    found = act(tmp_path, snapshot="demo", manifests="deploy", against="main")
    assert found.returncode == 0, found.stderr
    assert (outputs(tmp_path)["code"], outputs(tmp_path)["failed"]) == ("1", "true")
    assert "huge" in (tmp_path / "kplan" / "kplan.md").read_text()


def test_a_comment_on_the_pull_request_is_made_once_and_then_kept_up_to_date(tmp_path: Path):
    report, calls = tmp_path / "kplan.md", tmp_path / "calls"
    report.write_text("## kplan\n")
    gh = tmp_path / "bin" / "gh"
    environment = {**programs(tmp_path), "REPOSITORY": "o/r", "NUMBER": "7", "REPORT": str(report)}
    for earlier in ("true", "seq 123 99999"):
        # What it is called with, and the comments that are there.
        told = f'*viewer*) echo "kplan[bot]";; *--paginate*AUTHOR*) {earlier};;'
        lines = f'echo "$AUTHOR $@" >> "{calls}"\ncase "$*" in {told} esac\n'
        gh.write_text(f"#!/usr/bin/env bash\n{lines}")
        gh.chmod(0o755)
        command = ["bash", str(CI / "comment.sh")]
        subprocess.run(command, env=environment, check=True, capture_output=True)

    said = [re.sub(r"body=@\S+", "body=@FILE", line) for line in calls.read_text().splitlines()]
    assert said[2] == "kplan[bot] api repos/o/r/issues/7/comments --field body=@FILE --silent"
    assert said[5] == "kplan[bot] api --method PATCH repos/o/r/issues/comments/123 --field body=@FILE --silent"


def test_the_component_of_gitlab_compares_with_a_branch_that_it_fetches(tmp_path: Path) -> None:
    upstream, clone = tmp_path / "upstream", tmp_path / "clone"
    (upstream / "deploy").mkdir(parents=True)
    (upstream / "deploy" / "web.yaml").write_text(FITS.read_text())
    committed(upstream)
    subprocess.run(["git", "clone", "--quiet", str(upstream), str(clone)], check=True)
    subprocess.run(["git", "update-ref", "-d", "refs/remotes/origin/main"], cwd=clone, check=True)
    (clone / "deploy" / "huge.yaml").write_text(TOO_LARGE)
    header, jobs = yaml.safe_load_all((HERE / "templates" / "kplan.yml").read_text())
    declared = header["spec"]["inputs"]
    inputs = {name: one.get("default", "") for name, one in declared.items()}
    inputs |= {"manifests": "deploy", "snapshot": "demo", "against": "origin/main", "arguments": "--top=3 --exit-zero"}
    environment = programs(tmp_path)
    for name, variable in jobs["kplan"]["variables"].items():
        environment[name] = re.sub(r"\$\[\[ inputs\.([\w-]+) \]\]", lambda match: inputs[match[1]], variable["value"])
    script = "\n".join(jobs["kplan"]["script"])

    command = ["bash", "-eo", "pipefail", "-c", script]
    found = subprocess.run(command, cwd=clone, env=environment, capture_output=True, check=False)

    assert found.returncode == 0, found.stderr
    assert found.stdout.decode().splitlines()[1].startswith("Pending now: default/huge")
    assert b"Verdict: failed" in found.stdout
    [issue] = json.loads((clone / "kplan-codequality.json").read_text())
    assert issue["location"]["path"] == "deploy/huge.yaml"
    assert {*jobs["kplan"]["artifacts"]["reports"].values()} <= {path.name for path in clone.iterdir()}


def test_the_page_about_pipelines_names_every_job():
    page = (HERE / "docs" / "ci.md").read_text()
    assert [each.name for each in CI.iterdir() if f"(../fixtures/ci/{each.name})" not in page] == []


@pytest.mark.parametrize("name", ["argocd-presync.yaml", "github.yaml", "gitlab.yaml", "pre-commit.yaml"])
def test_jobs_are_valid_yaml(name: str):
    assert isinstance(yaml.safe_load((CI / name).read_text()), dict)


def test_the_hook_calls_kplan_with_options_that_it_has(tmp_path: Path):
    (repo,) = yaml.safe_load((CI / "pre-commit.yaml").read_text())["repos"]
    entry = repo["hooks"][0]["entry"].split()
    huge = written(tmp_path / "huge.yaml", TOO_LARGE)
    args = ["demo" if each == "cluster.json.gz" else each for each in entry[1:]]
    assert entry[0] == "kplan"
    assert invoke(*args, FITS).exit_code == 0
    assert invoke(*args, huge).exit_code == 1


@pytest.mark.parametrize("name", ["gitlab.yaml", "Jenkinsfile"])
def test_jobs_call_the_script(name: str):
    assert "check.sh" in (CI / name).read_text()


@pytest.mark.parametrize(
    ("arguments", "words"), [(["values.yaml"], "missing"), (["web.yaml", "--snapshot", "none.json"], "none.json")]
)
def test_without_an_answer_every_report_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], words: str
) -> None:
    (tmp_path / "web.yaml").write_text(Path("fixtures/web.yaml").read_text(encoding="utf-8"), encoding="utf-8")
    (tmp_path / "values.yaml").write_text("replicas: 3\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    reports = [f"--report={output}={output}.out" for output in OutputFormat]
    assert invoke("place", *arguments, *reports).exit_code == 2
    for output in OutputFormat:
        text = (tmp_path / f"{output}.out").read_text(encoding="utf-8")
        assert words.removesuffix(".json") in text, output
    assert json.loads((tmp_path / "json.out").read_text(encoding="utf-8"))["kind"] == "Refusal"
