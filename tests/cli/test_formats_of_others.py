"""Every command's SARIF and JUnit, held against the schemas of those who read them."""

import json
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.cli.commands import invoke, refused, written
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


WRONG = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: web
spec:
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: c
        image: i
        imagePullPolcy: Always
        resources:
          requests:
            cpu: two
"""
LINE_OF_POLICY, LINE_OF_WRONG_CPU = 13, 16
WRONG_CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: -3
"""
CHECKS = {
    "pods": (["pods", str(HERE / "fixtures" / "web.yaml")], 0),
    "pods that are refused": (["pods", "WRONG"], 2),
    "snapshot": (["snapshot", "check", "demo"], 0),
    "snapshot that cannot be read": (["snapshot", "check", "WRONG"], 2),
    "configuration": (["config", "check", "CONFIGURATION"], 2),
}


@pytest.mark.parametrize(("command", "exit_code"), CHECKS.values(), ids=CHECKS)
def test_checks_are_valid(tmp_path: Path, command: list[str], exit_code: int):
    files = {"WRONG": tmp_path / "wrong.yaml", "CONFIGURATION": tmp_path / "scheduler.yaml"}
    files["WRONG"].write_text(WRONG)
    files["CONFIGURATION"].write_text(WRONG_CONFIGURATION)
    words = [str(files.get(each, each)) for each in command]
    sarif, junit, github = (invoke(*words, "-o", output) for output in ("sarif", "junit", "github"))

    assert {sarif.exit_code, junit.exit_code, github.exit_code} == {exit_code}, sarif.stderr
    assert against_sarif(sarif.stdout) == []
    assert against_junit(junit.stdout) == []
    assert ET.fromstring(junit.stdout).findall("testsuite/testcase")
    assert github.stdout.splitlines()[-1].startswith("::notice title=kplan::kplan")


@pytest.mark.parametrize("command", ["place", "plan", "capacity"])
def test_what_the_api_server_refuses_is_annotated_on_its_line(tmp_path: Path, command: str):
    wrong, page, sarif = tmp_path / "wrong.yaml", tmp_path / "page.md", tmp_path / "kplan.sarif"
    wrong.write_text(WRONG)
    environment = {"GITHUB_STEP_SUMMARY": str(page), "GITHUB_WORKSPACE": str(tmp_path)}
    found = invoke(command, wrong, "-o", "github", "--report", f"sarif={sarif}", **environment)
    annotations = found.stdout.splitlines()

    assert found.exit_code == 2
    assert len(annotations) == 3
    lines = {f"::error file={wrong},line={line}" for line in (LINE_OF_POLICY, LINE_OF_WRONG_CPU)}
    assert {",".join(each.split(",")[:2]) for each in annotations[:-1]} == lines
    assert any("%0AHint: did you mean imagePullPolicy?" in each for each in annotations)
    assert f"{wrong.name}:{LINE_OF_WRONG_CPU} " in page.read_text()
    (run,) = json.loads(sarif.read_text())["runs"]
    assert [run["invocations"][0]["executionSuccessful"], len(run["results"])] == [False, 2]


def test_a_page_that_cannot_be_written_hides_no_problem(tmp_path: Path):
    wrong = written(tmp_path / "wrong.yaml", WRONG)
    said = refused("place", wrong, "-o", "github", GITHUB_STEP_SUMMARY=str(tmp_path))
    assert "imagePullPolcy" in said
    assert "error: GITHUB_STEP_SUMMARY: cannot write to" in said
    assert "Traceback" not in said


def test_a_refused_update_is_annotated_where_its_workload_stands(tmp_path: Path):
    cart = written(
        tmp_path / "cart.yaml",
        WRONG.replace("name: web", "name: cart\n  namespace: shop").replace("imagePullPolcy: Always", "tty: true"),
    )
    cart.write_text(cart.read_text().replace("cpu: two", "cpu: 2"))
    found = invoke("plan", cart, "-o", "github")
    (first,) = (each for each in found.stdout.splitlines() if "(refused)" in each)
    assert first.startswith(f"::error file={cart},line=4,title=kplan%3A Deployment shop/cart (refused)::")
    assert "field is immutable" in first


def test_alike_warnings_about_manifests_are_counted_as_objects(tmp_path: Path):
    documents = "\n---\n".join(
        WRONG.replace("cpu: two", "cpu: 2").replace("name: web", f"name: {name}") for name in "ab"
    )
    found = invoke("pods", written(tmp_path / "two.yaml", documents), "--validate", "warn", "-o", "github").stdout
    assert "::2 objects: Deployment/default/a, Deployment/default/b%0A" in found


def test_a_drain_annotates_pods_that_may_not_go_and_says_what_it_takes():
    found = invoke("drain", "general-a-1", "-o", "github").stdout.splitlines()

    errors = [line.partition("::")[2] for line in found if line.startswith("::error")]
    titles = [error.removeprefix("error title=kplan%3A ").partition("::")[0] for error in errors]
    assert titles == [
        "batch/report-hourly-tklxq (pdb violation)",
        "batch/archive-kkjlc (unschedulable)",
        "batch/archive-t7gfs (unschedulable)",
        "Deployment shop/search (blocked)",
    ]
    blocked = errors[-1]
    assert blocked.partition("::")[2].startswith("shop/search-")
    assert "cannot be evicted from general-a-1: budget shop/search requires 3 healthy pods and has 3" in blocked
    assert (
        "budget shop/search requires 3 healthy pods and has 3%0AHint: first run 4 replicas of Deployment shop/search"
        in blocked
    )
    assert "first run 4 replicas of Deployment shop/search instead of 3" in blocked
    assert all(each.count("%0A") < 5 for each in found)


def test_of_drains_one_by_one_each_node_is_annotated_once_with_the_command_that_tells_more():
    found = invoke("drain", "--each", "-o", "github").stdout.splitlines()
    errors = [each for each in found if each.startswith("::error")]
    assert len({each.split("::")[1] for each in errors}) == len(errors) == 9  # ten lines, the summary among them
    assert "Not annotated: 4 errors: " in found[-1]
    assert any(each.endswith("%0AMore: kplan drain general-c-1") for each in errors)
    assert all(each.count("%0A") < 5 for each in found)


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
    assert found.stdout.startswith("::error title=kplan%3A Pod default/huge (unschedulable)::")
    assert found.stdout.splitlines()[0].endswith("More: kplan place - --explain")


@pytest.mark.parametrize("broken", ["{}", '{"version": "2.1.0", "runs": [{"tool": {}}]}'])
def test_the_schema_refuses_what_is_no_sarif(broken: str):
    assert against_sarif(broken)


@pytest.mark.parametrize("broken", ["<testsuites skipped='1'/>", "<testsuite name='x'/>", "<report/>"])
def test_the_schema_refuses_what_jenkins_does_not_read(broken: str):
    assert against_junit(broken)
