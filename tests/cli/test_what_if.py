"""Changes on paper, on the command line."""

import json
from pathlib import Path

import pytest

from tests.cli.commands import invoke, refused, told, written


def changes(*args: str) -> list[tuple[str, str]]:
    report = told("place", "shop/voucher-api", *args, "--exit-zero")
    return [(each["change"], each["what"]) for each in report["snapshot"]["changes"]]


def test_changes_are_applied_in_the_order_given_across_options() -> None:
    given = "--cordon general-a-* --add-nodes 1=general-a-1 --uncordon=general-a-1 --cordon general-b-1"
    assert changes(*given.split()) == [
        ("cordon", "general-a-*"),
        ("add-nodes", "1=general-a-1"),
        ("uncordon", "general-a-1"),
        ("cordon", "general-b-1"),
    ]
    assert changes("--uncordon", "general-a-1", "--cordon", "general-a-1") == [
        ("uncordon", "general-a-1"),
        ("cordon", "general-a-1"),
    ]


def test_an_order_makes_a_difference() -> None:
    added = ("--add-nodes", "1=general-a-1")
    removed = ("--without", "node/general-a-1*")
    assert invoke("place", "shop/voucher-api", *added, *removed, "--exit-zero").exit_code == 0
    assert "the snapshot has no node general-a-1" in refused("place", "shop/voucher-api", *removed, *added)


@pytest.mark.parametrize("command", ["plan", "preempt"])
def test_settling_comes_last_wherever_it_stands(command: str) -> None:
    report = told(command, "--settle", "--cordon", "general-a-1", "--exit-zero")
    assert [each["change"] for each in report["snapshot"]["changes"]] == ["cordon", "settle"]


def test_a_file_of_objects_is_there_besides(tmp_path: Path) -> None:
    path = written(
        tmp_path / "node.yaml",
        "apiVersion: v1\nkind: Node\nmetadata: {name: extra, annotations: {kplan/like: general-a-1}}\n",
    )
    report = told("place", "shop/voucher-api", "--cordon", "*", "--with", str(path), "--exit-zero")
    assert report["placements"][0]["node"] == "extra"
    assert report["snapshot"]["nodes"] == 14


def test_a_file_that_cannot_be_read_is_told_with_its_place(tmp_path: Path) -> None:
    path = written(tmp_path / "node.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: 7}\n")
    assert f"{path} (document 1, line 3)" in refused("place", "shop/voucher-api", "--with", str(path))
    said = refused("place", "shop/voucher-api", "--with", str(tmp_path / "none.yaml"))
    assert "no such file" in said.lower()


def test_pods_follow_a_changed_cluster(tmp_path: Path) -> None:
    limits = written(
        tmp_path / "limits.yaml",
        "apiVersion: v1\nkind: Namespace\nmetadata: {name: fresh}\n---\n"
        "apiVersion: v1\nkind: LimitRange\nmetadata: {name: l, namespace: fresh}\n"
        "spec: {limits: [{type: Container, defaultRequest: {cpu: 123m}}]}\n",
    )
    manifest = written(
        tmp_path / "pod.yaml",
        "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: fresh}\nspec: {containers: [{name: c, image: i}]}\n",
    )

    assert "123m" in invoke("pods", str(manifest), "--with", str(limits)).stdout


@pytest.mark.parametrize("command", ["show", "check"])
def test_a_snapshot_is_looked_into_as_it_would_be(command: str) -> None:
    table = invoke("snapshot", command, "demo", "--add-nodes", "2=general-a-1")
    document = told("snapshot", command, "demo", "--cordon", "gpu-a-1", "--settle")
    assert "What if: add 2 nodes like general-a-1\n" in table.stdout
    assert "15 nodes" in table.stdout.replace("Nodes: 15", "15 nodes")
    assert [each["change"] for each in document["snapshot"]["changes"]] == ["cordon", "settle"]
    assert "changes" not in told("snapshot", command, "demo")["snapshot"]


def test_a_changed_cluster_is_saved_with_its_changes_unless_names_are_hidden(tmp_path: Path) -> None:
    changed, hidden = tmp_path / "changed.json", tmp_path / "hidden.json"
    flags = ("-s", "demo", "--without", "node/gpu-a-1", "--cordon", "general-a-1")

    assert invoke("snapshot", "save", changed, *flags).exit_code == 0
    assert invoke("snapshot", "save", hidden, *flags, "--redact").exit_code == 0

    asked = ("place", "shop/voucher-api", "--exit-zero", "-o", "json")
    direct = json.loads(invoke(*asked, *flags[2:]).stdout)
    saved = json.loads(invoke(*asked, "-s", changed).stdout)
    assert saved["placements"] == direct["placements"]
    assert saved["snapshot"]["changes"] == direct["snapshot"]["changes"]
    assert "gpu-a-1" not in hidden.read_text()
    strange = json.loads(changed.read_text())
    strange["metadata"]["changes"].append({"change": "painted", "count": -1})
    changed.write_text(json.dumps(strange))
    assert json.loads(invoke(*asked, "-s", changed).stdout)["snapshot"]["changes"] == direct["snapshot"]["changes"]
