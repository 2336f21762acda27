"""Which part of a change causes that a workload waits."""

import json
from pathlib import Path

from tests.cli.commands import printed
from tests.questions.remedy.test_report import deployment, node


def written(directory: Path, **cpus: str) -> str:
    directory.mkdir()
    for name, cpu in cpus.items():
        content = deployment(name, cpu, (), replicas=1)[0]
        del content["metadata"]["uid"]
        (directory / f"{name}.json").write_text(json.dumps(content))
    return str(directory)


def compared(tmp_path: Path, before: dict[str, str], after: dict[str, str], output: str) -> str:
    cluster = tmp_path / "cluster.json"
    zone = {"topology.kubernetes.io/zone": "c"}
    nodes = [node("c-1", "8", **zone), node("tiny", "1", **{"topology.kubernetes.io/zone": "a"})]
    cluster.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes}))
    manifests = written(tmp_path / "before", **before), written(tmp_path / "after", **after)
    return printed("diff", *manifests, "--snapshot", str(cluster), "-o", output)


def test_what_took_the_room_is_named(tmp_path: Path) -> None:
    document = json.loads(compared(tmp_path, {"worker": "4"}, {"shopfront": "8", "worker": "4"}, "json"))
    rows = {row["workload"]: row["because"] for row in document["workloads"]}
    assert rows["Deployment/default/worker"] == [
        {"workload": "Deployment/default/shopfront", "pods": 1, "nodes": ["c-1"], "zone": "c", "took": {"cpu": "8"}}
    ]


def test_the_table_and_the_comment_say_so(tmp_path: Path) -> None:
    text = compared(tmp_path, {"worker": "4"}, {"shopfront": "8", "worker": "4"}, "markdown")
    assert "took 8 cpu on c-1 in zone c" in text


def test_what_takes_no_part_in_it_is_not_named(tmp_path: Path) -> None:
    manifests = {"shopfront": "8", "tiny": "500m", "worker": "4"}
    document = json.loads(compared(tmp_path, {"worker": "4"}, manifests, "json"))
    rows = {row["workload"]: [blame["workload"] for blame in row["because"]] for row in document["workloads"]}
    assert rows["Deployment/default/worker"] == ["Deployment/default/shopfront"]


def test_a_workload_is_not_the_cause_of_its_own_waiting(tmp_path: Path) -> None:
    document = json.loads(compared(tmp_path, {"worker": "4"}, {"worker": "9"}, "json"))
    assert [row["because"] for row in document["workloads"]] == [[]]
