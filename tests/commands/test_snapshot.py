import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner, Result

from kplan.commands.snapshot import app
from kplan.live import cluster_role
from kplan.snapshot import load_snapshot
from tests.cli.commands import written
from tests.objects import head

NODE = head("Node", name="n1", labels={"kubernetes.io/hostname": "n1"}) | {
    "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}}
}
NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}}
POD = head("Pod", name="p", namespace="default") | {
    "spec": {
        "nodeName": "n1",
        "containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}}],
    }
}


@pytest.fixture(autouse=True)
def _no_surroundings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("KPLAN_SNAPSHOT", "KUBECONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)


def run(*arguments: str) -> Result:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def cluster(directory: Path, *objects: dict[str, object]) -> str:
    path = written(directory / "cluster.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
    return str(path)


def test_save_writes_the_file_and_says_so_on_standard_error(tmp_path: Path) -> None:
    result = run("save", "out.json.gz", "-s", "demo")
    assert result.exit_code == 0
    assert result.stdout == ""
    demo = load_snapshot("demo")
    assert f"saved out.json.gz: {len(demo.nodes)} nodes, {len(demo.pods)} pods" in result.stderr
    assert load_snapshot(tmp_path / "out.json.gz").digest == demo.digest


def test_save_to_standard_output_prints_the_document_only() -> None:
    result = run("save", "-", "-s", "demo", "--quiet")
    assert json.loads(result.stdout)["kind"] == "Snapshot"
    assert result.stderr == ""


def test_a_redacted_file_says_what_it_is_and_no_names(tmp_path: Path) -> None:
    run("save", "out.json", "-s", "demo", "--redact", "-q")
    snapshot = load_snapshot(tmp_path / "out.json")
    assert all(node.metadata.name.startswith("node-") for node in snapshot.nodes)
    assert json.loads((tmp_path / "out.json").read_text())["metadata"]["source"] == "redacted"


def test_show_adds_up_what_is_there(tmp_path: Path) -> None:
    result = run("show", cluster(tmp_path, NAMESPACE, NODE, POD), "-o", "json")

    document = json.loads(result.stdout)
    assert document["kind"] == "SnapshotOverview"
    assert document["counts"] == {"nodes": 1, "pods": 1, "namespaces": 1}
    assert document["resources"] == [
        {"name": "cpu", "allocatable": 4, "requested": 1.5},
        {"name": "memory", "allocatable": 8 << 30, "requested": 1 << 30},
        {"name": "pods", "allocatable": 10, "requested": 1},
    ]
    assert document["pods"]["running"] == 1


def test_show_as_text_reads_like_a_summary(tmp_path: Path) -> None:
    result = run("show", cluster(tmp_path, NAMESPACE, NODE, POD))
    assert "Nodes: 1 in all, 1 ready" in result.stdout
    assert "Pods: 1 in all, 1 running" in result.stdout
    assert "cpu" in result.stdout
    assert "38 %" in result.stdout


def test_show_names_what_is_missing(tmp_path: Path) -> None:
    run("save", "full.json", "-s", "demo", "-q")
    document = json.loads((tmp_path / "full.json").read_text())
    document["metadata"]["missing"] = [
        {"resource": "poddisruptionbudgets", "reason": "forbidden", "blinds": ["DefaultPreemption"]}
    ]
    (tmp_path / "partial.json").write_text(json.dumps(document))
    result = run("show", "partial.json")
    assert "poddisruptionbudgets: forbidden; DefaultPreemption decides without it" in result.stdout


def test_the_environment_names_the_snapshot_and_an_argument_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KPLAN_SNAPSHOT", "demo")
    path = cluster(tmp_path, NODE)
    assert json.loads(run("show", "-o", "json").stdout)["snapshot"]["source"] == "demo"
    assert json.loads(run("show", path, "-o", "json").stdout)["snapshot"]["source"] == path


def test_check_names_problems_and_exits_with_one(tmp_path: Path) -> None:
    stray = POD | {"metadata": {"name": "q", "namespace": "default"}, "spec": POD["spec"] | {"nodeName": "gone"}}
    result = run("check", cluster(tmp_path, NAMESPACE, NODE, stray))
    assert result.exit_code == 1
    assert "1 problem (1 node, 1 pod)" in result.stdout
    assert "Node/gone: not in the snapshot" in result.stdout


def test_check_tells_what_is_only_worth_knowing_without_failing(tmp_path: Path) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s", "namespace": "default"}}
    result = run("check", cluster(tmp_path, NAMESPACE, NODE, secret), "-o", "json")
    document = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (document["valid"], document["findings"]) == (True, [])
    assert [note["object"] for note in document["notes"]] == ["Secret"]


def test_rbac_prints_the_role(tmp_path: Path) -> None:
    assert yaml.safe_load(run("rbac").stdout) == cluster_role()
    assert json.loads(run("rbac", "--name", "reader", "-o", "json").stdout) == cluster_role("reader")
