"""Replicas beyond all bounds: made as far as they can matter, and counted from there on."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

import kplan
from kplan.questions.place import Place
from kplan.questions.plan import Plan
from kplan.workloads import expansion
from kplan.workloads.manifests import ReadOptions, load_manifests
from tests.cli.commands import invoke, refused, reports, written
from tests.objects import head, node, template
from tests.recorded import sample

MOST = 2**31 - 1


def workload(kind: str, n: int, **spec: Any) -> dict[str, Any]:
    pods, labels = template("w", cpu="1m"), {"app": "w"}
    pods["spec"] |= spec
    selector = labels if kind == "ReplicationController" else {"matchLabels": labels}
    body: dict[str, Any] = {"replicas": n, "selector": selector, "template": pods}
    if kind in ("Job", "CronJob"):
        pods["spec"]["restartPolicy"] = "Never"
        body = {"parallelism": n, "completions": n, "template": pods}
    if kind == "CronJob":
        body = {"schedule": "* * * * *", "jobTemplate": {"spec": body}}
    return head(kind, name="w", namespace="default") | {"spec": body}


KINDS = ["Deployment", "ReplicaSet", "ReplicationController", "StatefulSet", "Job"]


@pytest.mark.parametrize("kind", [*KINDS, "CronJob"])
def test_no_more_replicas_are_made_than_can_matter(kind: str) -> None:
    snapshot = kplan.load_snapshot([node("a"), node("b")])
    found = load_manifests([workload(kind, MOST)], ReadOptions(snapshot=snapshot))
    assert len(found.pods) == 1000
    assert [pod.more for pod in found.pods[:-1]] == [0] * 999
    assert found.pods[-1].more == MOST - 1000


def test_large_clusters_get_as_many_replicas_as_fit_and_one_more(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [node(f"n{index}", cpu="4") for index in range(20)]
    for large in nodes:
        large["status"]["allocatable"]["pods"] = "200"
    snapshot = kplan.load_snapshot(nodes)
    assert len(load_manifests([workload("Deployment", MOST)], ReadOptions(snapshot=snapshot)).pods) == 20 * 200 + 1
    monkeypatch.setattr(expansion, "MAX_REPLICAS", 1500)
    assert len(load_manifests([workload("Deployment", MOST)], ReadOptions(snapshot=snapshot)).pods) == 1500


@pytest.mark.parametrize(
    ("kind", "field", "command"),
    [
        *((kind, "replicas", "plan") for kind in KINDS[:4]),
        ("Job", "parallelism", "place"),
        (KINDS[0], "replicas", "capacity"),
    ],
)
def test_negative_numbers_are_refused_as_the_api_server_does(
    kind: str, field: str, command: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "w.yaml", yaml.safe_dump(workload(kind, -1)))
    assert f"spec.{field}: Invalid value: -1: must be greater than or equal to 0" in refused(command, path)


def report(*arguments: str | Path) -> dict[str, Any]:
    found = invoke(*arguments, "-o", "json", "-q")
    assert found.exit_code in (0, 1), found.stderr
    document: dict[str, Any] = json.loads(found.stdout)
    return document


@pytest.mark.parametrize("command", sample(["plan", "place"], 2))
def test_counting_gives_what_looking_at_each_would_give(command: str, tmp_path: Path) -> None:
    """So few that all are made, held against so many that most are not."""
    few, many, cluster = (tmp_path / name for name in ("few.yaml", "many.yaml", "cluster.json"))
    few.write_text(yaml.safe_dump(workload("Deployment", 150)))
    many.write_text(yaml.safe_dump(workload("Deployment", MOST)))
    nodes = [node(f"n{number}", pods="10") for number in range(12)]
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))

    fewer, more = (report(command, asked, "--snapshot", cluster, "--max-listed", "50") for asked in (few, many))

    assert fewer["summary"]["scheduled"] == more["summary"]["scheduled"] > 100
    assert more["summary"]["pods"] - fewer["summary"]["pods"] == MOST - 150
    assert more["summary"]["unschedulable"] - fewer["summary"]["unschedulable"] == MOST - 150
    assert {group["message"] for group in more["unlisted"] if group["workload"] == "Deployment/default/w"} == {
        group["message"] for group in fewer["unlisted"] if group["workload"] == "Deployment/default/w"
    }
    question = {"place": Place, "plan": Plan}[command](manifests=(str(many),))
    verdict = kplan.Planner(kplan.load_snapshot(cluster)).ask(question).verdict  # where all that was tried is listed
    assert len(verdict.because) + verdict.more == more["summary"]["unschedulable"]


@pytest.mark.parametrize("command", sample(["plan", "place"], 2, 1))
def test_what_is_listed_has_a_bound_and_the_rest_is_counted(command: str, tmp_path: Path) -> None:
    path = written(tmp_path / "w.yaml", yaml.safe_dump(workload("Deployment", 60)))

    whole, cut = report(command, path), report(command, path, "--max-listed", "25")

    assert "unlisted" in whole
    assert whole["unlisted"] == []
    assert (whole["maxListed"], cut["maxListed"]) == (1000, 25)
    assert cut["summary"] == whole["summary"]
    listed = cut["placements"] if command == "place" else cut["changes"]
    assert len(listed) == 25
    assert sum(group["pods"] for group in cut["unlisted"]) == cut["summary"]["pods"] - 25
    assert len(cut["verdict"]["because"]) + cut["verdict"]["more"] == len(whole["verdict"]["because"])
    assert cut["verdict"]["exitCode"] == whole["verdict"]["exitCode"]
    if command == "place":
        where = {placement["node"] for placement in whole["placements"][25:]}
        assert set(cut["unlisted"][0]["nodes"]) == where


FORMATS = ("table", "wide", "markdown", "name", "junit", "github", "sarif", "html", "yaml")


@pytest.mark.parametrize("command", sample(["plan", "place"], 2, 1))
def test_every_format_tells_what_is_not_listed(command: str, tmp_path: Path) -> None:
    path = written(tmp_path / "w.yaml", yaml.safe_dump(workload("Deployment", 60, nodeSelector={"no": "such"})))
    shown = reports(tmp_path, command, path, "--max-listed", "25", formats=FORMATS, code=1)
    assert [name for name, text in shown.items() if not re.search(r"Deployment[/ ]default/w\b", text)] == []


def test_two_thousand_million_replicas_are_answered_in_seconds_and_in_little_memory(tmp_path: Path) -> None:
    path = written(tmp_path / "w.yaml", yaml.safe_dump(workload("Deployment", MOST)))
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_CPU, (20, 20)); sys.argv[0] = 'kplan'\n"
        "from kplan.program.main import app\n"
        "try: app()\n"
        "finally: print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10, file=sys.stderr)"
    )
    for command in sample(("plan", "place"), 2):
        arguments = [command, str(path), "-s", "demo", "-q"]
        done = subprocess.run(
            [sys.executable, "-c", program, *arguments], capture_output=True, check=False, text=True, timeout=120
        )

        assert done.returncode == 1, done.stderr
        assert "2,147,48" in done.stdout
        assert int(done.stderr.split()[-1]) < 1024


def test_capacity_of_a_daemon_set_that_no_node_takes_ends(tmp_path: Path) -> None:
    path = tmp_path / "ds.yaml"
    daemon_set = workload("DaemonSet", 1, nodeSelector={"no": "such"})
    del daemon_set["spec"]["replicas"]
    path.write_text(yaml.safe_dump(daemon_set))
    assert "the manifests create no pod in this cluster" in refused("capacity", path)


@pytest.mark.parametrize("n", [-1, MOST + 1])
def test_a_number_of_replicas_that_no_api_server_stores_is_refused(n: int, tmp_path: Path) -> None:
    path = written(tmp_path / "w.json", json.dumps(workload("Deployment", 3)))
    assert "replicas" in refused("place", path, "--snapshot", "demo", "--replicas", str(n))
    with pytest.raises(kplan.KplanError, match=f"{n} replicas|replicas: expected an integer from 0 up, got {n}"):
        kplan.Planner("demo").ask(Place(manifests=(str(path),), replicas=n))
