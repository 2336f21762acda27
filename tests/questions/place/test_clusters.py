"""One question about several clusters is that about each of them."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.commands import invoke
from tests.objects import deployment
from tests.schemas import assert_keeps_to_its_schema

MORE_NODES = ("--add-nodes", "3=general-a-1")


@pytest.fixture
def web(tmp_path: Path) -> Path:
    path = tmp_path / "web.yaml"
    workload = deployment("web", 3)
    workload["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    path.write_text(json.dumps(workload))
    return path


@pytest.fixture
def clusters(tmp_path: Path) -> list[Path]:
    """Write the demo, one with more nodes, and one without any that takes a pod."""
    (tmp_path / "clusters").mkdir()
    changes = {"a.json": (), "b.yaml.gz": MORE_NODES, "c.json": ("--cordon", "*")}
    paths = [tmp_path / "clusters" / name for name in changes]
    for path, words in zip(paths, changes.values(), strict=True):
        assert invoke("snapshot", "save", path, *words).exit_code == 0
    return paths


def snapshots(paths: list[Path]) -> list[str]:
    return [word for path in paths for word in ("-s", str(path))]


def timeless(document: dict[str, Any]) -> dict[str, Any]:
    return {**document, "generatedAt": ""}


@pytest.mark.parametrize("more", [(), ("--replicas", "40"), ("--explain",), ("--timeline",), MORE_NODES])
def test_the_answer_of_each_cluster_is_that_to_the_question_about_it_alone(
    web: Path, clusters: list[Path], more: tuple[str, ...]
) -> None:
    document = json.loads(invoke("place", web, *snapshots(clusters), *more, "-o", "json").stdout)
    assert_keeps_to_its_schema(document)
    for cluster, path in zip(document["clusters"], clusters, strict=True):
        alone = invoke("place", web, "-s", path, *more, "-o", "json")
        assert timeless(cluster["report"]) == timeless(json.loads(alone.stdout))
        assert cluster["hasRoom"] == (alone.exit_code == 0)
    assert document["verdict"]["failed"] == (not any(cluster["hasRoom"] for cluster in document["clusters"]))


def test_a_directory_of_snapshots_is_a_row_for_each_and_one_of_objects_a_cluster(
    web: Path, clusters: list[Path], tmp_path: Path
) -> None:
    sentence = invoke("place", web, "-s", clusters[0].parent, "-o", "short")
    (tmp_path / "objects").mkdir()
    for kind in ("nodes", "pods"):
        objects = json.loads(clusters[0].read_text())["objects"][kind]
        items = [{"apiVersion": "v1", "kind": kind[:-1].title(), **obj} for obj in objects]
        (tmp_path / "objects" / f"{kind}.json").write_text(
            json.dumps({"kind": "List", "apiVersion": "v1", "items": items})
        )

    assert (sentence.exit_code, sentence.stdout) == (0, f"1 of 3 clusters has room: {clusters[1]}\n")
    assert "clusters" not in invoke("place", web, "-s", tmp_path / "objects").stdout.splitlines()[0]


def test_where_no_cluster_has_room_it_fails_in_every_format(web: Path, clusters: list[Path], tmp_path: Path) -> None:
    formats = ("junit", "github", "sarif", "markdown", "html", "openmetrics")
    reports = [word for name in formats for word in ("--report", f"{name}={tmp_path}/{name}")]

    shown = invoke("place", web, *snapshots(clusters[::2]), *reports)

    assert shown.exit_code == 1
    assert shown.stdout.startswith("None of 2 clusters has room\n")
    assert shown.stdout.rstrip().endswith("Verdict: failed (exit code 1): no cluster has room")
    assert {name for name in formats if "a.json" not in (tmp_path / name).read_text()} == set()
    assert invoke("place", web, *snapshots(clusters), "-o", "name").stdout == f"{clusters[1]}\n"


@pytest.mark.parametrize("name", ["a" * 5000, f"{'a' * 5000}.tgz", "\x01"])
def test_names_that_no_file_has_are_refused(web: Path, name: str) -> None:
    for command in (("place", web), ("plan",)):
        refused = invoke(*command, "-s", name)
        assert refused.exit_code == 2
        assert "internal error" not in refused.stderr


def test_what_is_for_one_cluster_is_refused_for_several(web: Path, clusters: list[Path]) -> None:
    for words, message in ((("--runs", "3", web), "--runs is for one cluster"), (("-",), "standard input is for one")):
        refused = invoke("place", *words, *snapshots(clusters))
        assert refused.exit_code == 2
        assert message in refused.stderr
