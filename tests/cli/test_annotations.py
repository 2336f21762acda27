"""What a pipeline shows: an annotation a workload on its line, a page that sums up, results with a place."""

import json
import re
from pathlib import Path

import pytest

from tests.cli.commands import invoke, told, written

CHART = """\
apiVersion: v1
kind: Service
metadata: {name: front}
spec: {selector: {app: front}, ports: [{port: 80}]}
---
apiVersion: apps/v1
kind: Deployment
metadata:
  labels: {app: front}
  name: front
spec:
  replicas: 3
  selector: {matchLabels: {app: front}}
  template:
    metadata: {labels: {app: front}}
    spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "60"}}}]}
---
apiVersion: v1
kind: Pod
metadata: {name: small}
spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 100m}}}]}
"""
LINE_OF_NAME = 10
LINE_OF_REQUEST = 16
MOST_LINES = 5


@pytest.fixture
def chart(tmp_path: Path) -> Path:
    return written(tmp_path / "my chart.yaml", CHART)


@pytest.mark.parametrize("command", ["place", "plan", "preempt"])
def test_a_bad_deployment_is_one_short_annotation_on_the_line_that_is_at_fault(chart: Path, command: str):
    found = invoke(command, chart, "-o", "github").stdout.splitlines()
    mine = [line for line in found if "default/front" in line and not line.startswith("::notice title=kplan::")]

    assert len(mine) == 1, found
    opening, _, body = mine[0].removeprefix("::").partition("::")
    assert (
        opening == f"error file={chart},line={LINE_OF_REQUEST},title=kplan%3A Deployment default/front (unschedulable)"
    )
    lines = body.split("%0A")
    assert len(lines) <= MOST_LINES
    assert re.fullmatch(r"3 pods: default/front-(\w+-)?\d\.\.default/front-(\w+-)?\d", lines[0])
    assert "it requests 60 cpu" in lines[1]
    assert lines[2].startswith(
        "What would help: add 3 nodes like general-a-1 with 60150m cpu (all 3 pods, the first on "
    )
    assert lines[-1] == f"More: kplan place '{chart}' --explain"
    assert not [line for line in found if "small" in line]


def test_capacity_is_annotated_in_as_few_lines(chart: Path):
    found = invoke("capacity", chart, "--replicas", "2", "-o", "github").stdout.splitlines()
    errors = [line for line in found if line.startswith("::error")]
    assert errors
    assert all(line.count("%0A") < MOST_LINES for line in errors)
    assert any(line.startswith(f"::error file={chart},line={LINE_OF_REQUEST},") for line in errors)


LIMITED = """\
apiVersion: v1
kind: Pod
metadata: {name: gpu}
spec:
  tolerations: [{key: nvidia.com/gpu, operator: Exists}]
  containers:
  - name: c
    image: i
    resources:
      limits:
        cpu: 1
        nvidia.com/gpu: 20
"""


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LIMITED, 12),
        (
            LIMITED.replace("nvidia.com/gpu: 20", "memory: 1Gi").replace(
                "  containers:", "  nodeName: {}\n  containers:"
            ),
            0,
        ),
        ("---\n" + LIMITED.replace("{key: nvidia.com/gpu, operator: Exists}", ""), 13),
    ],
    ids=["a limit that is a request, too", "invalid", "the second line of a stream"],
)
def test_the_line_is_that_of_the_field(tmp_path: Path, text: str, line: int):
    path = written(tmp_path / "gpu.yaml", text)
    found = invoke("place", path, "-o", "github").stdout.splitlines()[0]
    assert f"line={line or 6}," in found


def test_the_line_of_the_object_stands_in_json(chart: Path):
    placements = told("place", chart)["placements"]
    (first,) = (each for each in placements if each["pod"]["name"] == "front-0")
    assert first["pod"]["from"]["line"] == LINE_OF_NAME
    assert first["atFault"] == {"path": "$.spec.containers[0].resources.requests.cpu", "line": LINE_OF_REQUEST}


def test_the_page_of_a_job_gets_the_answer_in_markdown(chart: Path, tmp_path: Path):
    page = written(tmp_path / "summary.md", "before\n")
    invoke("place", chart, "-o", "github", GITHUB_STEP_SUMMARY=str(page))
    text = page.read_text()
    assert text.startswith("before\n")
    assert "it requests 60 cpu" in text
    assert "::error" not in text


def test_a_page_that_cannot_be_written_is_told(chart: Path, tmp_path: Path):
    found = invoke("place", chart, "-o", "github", GITHUB_STEP_SUMMARY=str(tmp_path))
    assert found.exit_code != 0


def test_a_rollout_that_is_stuck_is_helped_for_all_pods_that_wait(tmp_path: Path):
    cart = tmp_path / "cart.yaml"
    text = (Path(__file__).parents[2] / "fixtures" / "cart.yaml").read_text()
    cart.write_text(text.replace("cpu: 500m", "cpu: 7").replace("replicas: 6", "replicas: 7"))
    found = invoke("plan", cart, "-o", "github").stdout.splitlines()
    (mine,) = (line for line in found if "Deployment shop/cart" in line and not line.startswith("::notice"))
    assert mine.startswith(f"::error file={cart},line=")
    helps = r"What would help: add \d nodes like general-a-1 \(all \d pods, the first on general-a-1-added-1\)"
    assert re.search(helps, mine), mine


def test_many_annotations_are_ten_the_most_important_first_and_a_summary(tmp_path: Path) -> None:
    pod = "apiVersion: v1\nkind: Pod\nmetadata: {{name: p{}}}\nspec: {{containers: [{{name: c, image: i{}}}]}}\n"
    job = "jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: i}]}}}}"
    cron = (
        "apiVersion: batch/v1\nkind: CronJob\nmetadata: {{name: c{}}}\nspec: {{schedule: '0 3 * * *', "
        + job.replace("{", "{{").replace("}", "}}")
        + "}}\n"
    )
    large = ", resources: {requests: {cpu: 900}}"
    objects = [cron.format(n) for n in range(5)] + [pod.format(n, large) for n in range(12)]
    (tmp_path / "all.yaml").write_text("---\n".join(objects), encoding="utf-8")

    lines = invoke("place", tmp_path, "-o", "github").stdout.splitlines()
    assert len(lines) == 10
    assert all(line.startswith("::error file=") for line in lines[:-1])
    assert "Not annotated: 3 errors, 1 warning" in lines[-1]

    (tmp_path / "all.yaml").write_text("---\n".join(objects[:6]).replace("cpu: 900", "cpu: 1"), encoding="utf-8")
    [warning, _] = invoke("place", tmp_path, "-o", "github").stdout.splitlines()
    assert f"file={tmp_path}/all.yaml,line=3," in warning
    results = json.loads(invoke("place", tmp_path, "-o", "sarif").stdout)["runs"][0]["results"]
    starts = [result["locations"][0]["physicalLocation"]["region"]["startLine"] for result in results]
    assert starts == [3, 8, 13, 18, 23]
