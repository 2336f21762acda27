from pathlib import Path

import pytest
import yaml

from tests.cli.commands import invoke, refused, told, written
from tests.report.documents import node, pod


def _cluster(path: Path, *objects: dict[str, object]) -> Path:
    path.write_text(yaml.safe_dump_all(objects))
    return path


def test_a_running_pod_that_would_go_elsewhere(tmp_path: Path) -> None:
    cluster = _cluster(
        tmp_path / "c.yaml", node("full"), node("free"), pod("p", node="full"), pod("q", cpu="3", node="full")
    )
    found = invoke("explain", "default/p", "-s", cluster, "--explain")
    assert "fewer than free: NodeResourcesFit (free resources) +" in " ".join(found.stdout.split())
    current = told("explain", "default/p", "-s", cluster)["placements"][0]["current"]
    assert (current["node"], current["stillFits"], current["stillBest"]) == ("full", True, False)
    assert current["score"] < current["bestScore"]


def test_a_pod_does_not_stand_in_its_own_way(tmp_path: Path) -> None:
    cluster = _cluster(tmp_path / "c.yaml", node("a", cpu="1"), pod("p", node="a"))
    assert "a is the only node that can take it" in invoke("explain", "default/p", "-s", cluster, "--explain").stdout


def test_among_pods_that_run_a_pending_pod_is_told_with_the_node_where_it_would_go(tmp_path: Path) -> None:
    cluster = _cluster(tmp_path / "c.yaml", node("a"), pod("runs", node="a"), pod("waits"))
    lines = invoke("explain", "-A", "-s", cluster, "--explain").stdout.splitlines()
    (row,) = [line.split() for line in lines if line.startswith("  default/waits ")]
    assert (row[1], row[-1]) == ("-", "a")


def test_a_workload_is_told_pod_by_pod_briefly_where_all_is_well() -> None:
    found = invoke("explain", "deploy/cart", "-n", "shop")
    lines = [line for line in found.stdout.splitlines() if line]
    assert found.exit_code == 0
    assert lines[0] == "shop/cart: 6 of 6 pods are ready"
    assert "shop/cart-" not in found.stdout
    assert "6 of 13 nodes" in invoke("explain", "Deployment/shop/cart", "--explain").stdout
    placements = told("explain", "deployment/shop/cart")["placements"]
    assert [each["current"]["stillBest"] for each in placements] == [True] * 6


def test_a_pod_that_has_ended(tmp_path: Path) -> None:
    ended = pod("page", node="a")
    ended["status"]["phase"] = "Succeeded"
    cluster = _cluster(tmp_path / "c.yaml", node("a"), ended)
    found = invoke("explain", "default/page", "-s", cluster)
    assert found.stdout.startswith("default/page has completed on a\n")
    said = refused("explain", "default/pages", "-s", cluster)
    assert "the snapshot has no pod default/pages" in said
    assert "hint: did you mean default/page?" in said


@pytest.mark.parametrize("command", ["place", "preempt"])
def test_a_pod_that_has_ended_is_told_apart_from_one_that_is_not_there(command: str, tmp_path: Path) -> None:
    path = written(
        tmp_path / "cluster.yaml",
        "kind: Node\napiVersion: v1\nmetadata: {name: node}\n---\n"
        "kind: Pod\napiVersion: v1\nmetadata: {name: done}\nspec: {nodeName: node}\nstatus: {phase: Succeeded}\n",
    )
    found = invoke(command, "default/done", "-s", path)
    assert (found.exit_code, found.stdout) == (2, "")
    assert found.stderr.startswith("error: pod default/done has succeeded; it no longer takes up room")


def test_pods_whose_nodes_would_not_take_them_again_are_told_one_by_one() -> None:
    text = invoke("explain", "deployment/shop/storefront", "-s", "demo").stdout
    (row,) = [line for line in text.splitlines() if "storefront-9fmxtzc95-ff2km" in line]
    assert row.split(maxsplit=2)[1:] == ["general-c-2", "ready, but would no longer fit there"]


def test_too_many_pods_are_refused_with_their_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kplan.questions.explain.MOST_VERDICTS", 30)
    assert "more than the 2 that can be explained on 13 nodes" in refused("explain", "-A")
    monkeypatch.setattr("kplan.questions.explain.MOST_EXPLAINED", 1)
    assert "more than the 1 that can be explained" in refused("explain", "-A")


def test_one_pod_that_would_no_longer_fit_has_one_node() -> None:
    text = " ".join(invoke("explain", "job/batch/archive", "-s", "demo").stdout.split())
    assert "batch/archive: 5 of 5 pods are ready 4 other pods are running and ready." in text
