"""Manifests as the command line names them."""

from pathlib import Path

import pytest

from tests.cli.commands import invoke, refused, written

PODS = """\
apiVersion: v1
kind: Namespace
metadata: {name: anything}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: settings, namespace: ml}
---
apiVersion: v1
kind: Pod
metadata: {name: one}
spec: {containers: [{name: c, image: i}]}
---
apiVersion: v1
kind: Pod
metadata:
  name: two
  namespace: ml
spec: {containers: [{name: c, image: i}]}
"""


@pytest.fixture
def pods(tmp_path: Path) -> Path:
    return written(tmp_path / "pods.yaml", PODS)


@pytest.mark.parametrize("command", ["place", "plan", "preempt", "pods", "capacity"])
def test_objects_of_another_namespace_than_the_one_that_is_named_are_refused(pods: Path, command: str) -> None:
    result = invoke(command, pods, "--namespace", "shop")
    assert (result.exit_code, result.stdout) == (2, "")
    words = " ".join(result.stderr.split())
    mismatch = 'the namespace from the provided object "ml" does not match the namespace "shop"'
    assert words.count(mismatch) == 2
    assert "(document 2, line 7): $.metadata.namespace:" in words
    assert "(document 4, line 18): $.metadata.namespace:" in words
    assert "hint: pass --namespace=ml, or leave --namespace out" in words


def test_objects_go_where_they_say_without_a_namespace_and_with_their_own(pods: Path, tmp_path: Path) -> None:
    own = written(tmp_path / "own.yaml", PODS.rsplit("---", maxsplit=1)[-1])
    assert invoke("pods", pods, "-o", "name").stdout == "pod/default/one\npod/ml/two\n"
    assert invoke("pods", own, "-n", "ml", "-o", "name").stdout == "pod/ml/two\n"


def test_overlays_and_charts_of_a_directory_are_named_with_what_to_type(tmp_path: Path) -> None:
    for overlay in ("dev", "prod"):
        folder = tmp_path / "overlays" / overlay
        folder.mkdir(parents=True)
        (folder / "kustomization.yaml").write_text("resources:\n- ../../base\npatches:\n- path: more.yaml\n")
        (folder / "more.yaml").write_text("apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\n")
    templates = tmp_path / "charts" / "app" / "templates"
    templates.mkdir(parents=True)
    (templates.parent / "Chart.yaml").write_text("apiVersion: v2\nname: app\nversion: 1.0.0\n")
    (templates / "a.yaml").write_text("kind: Deployment\nmetadata: {name: {{ .Release.Name }}}\n")

    said = refused("place", tmp_path)
    ways = f"-k {tmp_path}/overlays/dev or -k {tmp_path}/overlays/prod"
    assert f"there are 2 overlays; build one with {ways}; there is a chart; render it with helm" in said
    assert f"helm template {templates.parent} | kplan place -" in said

    (tmp_path / "pod.yaml").write_text(
        "{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}"
    )
    beside = invoke("place", tmp_path)
    assert beside.exit_code == 0
    assert f"part of an overlay of kustomize; build it with -k {tmp_path}/overlays/prod" in beside.stderr
