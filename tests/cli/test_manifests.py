"""Manifests as the command line names them, those without a pod and a workload, and files that hold none."""

import re
from pathlib import Path

import pytest

from tests.cli.commands import folder_of, invoke, refused, written
from tests.cli.test_errors import POD

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


SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {ports: [{port: 80}]}\n"
VALUES = "replicas: 3\n"
KUSTOMIZATION = "resources: [pod.yaml]\npatches: [{path: patches/more.yaml}]\n"
PATCH = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    files = {
        "service.yaml": SERVICE,
        "values.yaml": VALUES,
        "pod.yaml": POD,
        "kustomization.yaml": KUSTOMIZATION,
        "patches/more.yaml": PATCH,
    }
    return folder_of(tmp_path, files)


@pytest.mark.parametrize("command", ["place", "plan", "pods", "diff --against-version 1.34"])
def test_objects_that_run_nothing_are_no_error(folder: Path, command: str) -> None:
    found = invoke(*command.split(), folder / "service.yaml", "--exit-zero" if command == "plan" else "--no-color")
    assert (found.exit_code, "no pod and no workload in" in found.stderr) == (0, True)


@pytest.mark.parametrize("command", ["capacity", "preempt"])
def test_elsewhere_a_workload_is_needed(folder: Path, command: str) -> None:
    assert "no pod and no workload" in refused(command, folder / "service.yaml")
    assert "no pod and no workload" in refused(command, "--skip-others", folder / "values.yaml")


def test_named_files_without_manifests_are_passed_over_where_asked(folder: Path) -> None:
    names = ("values.yaml", "kustomization.yaml", "patches/more.yaml", "service.yaml")
    files = [folder / name for name in names]
    assert "expected" in refused("place", *files) or "missing" in refused("place", *files)
    found = invoke("place", "--skip-others", *files)
    assert (found.exit_code, found.stdout) == (0, "No pod to place\n\nVerdict: passed\n")
    assert "a patch of a kustomization; build it with -k" in found.stderr
    assert invoke("place", "--skip-others", "--quiet", *files, folder / "pod.yaml").stdout.startswith("default/p ->")


def test_what_another_program_builds_is_told_with_how(folder: Path) -> None:
    assert f"build it with -k {folder}" in refused("place", folder / "kustomization.yaml")
    assert f"a patch of a kustomization; build it with -k {folder}" in refused(
        "place", folder / "patches" / "more.yaml"
    )


def test_a_directory_is_read_without_its_patches(folder: Path) -> None:
    assert invoke("place", folder).stdout.startswith("default/p ->")


@pytest.mark.parametrize("command", ["place --max-listed 50", "plan --max-listed 50", "pods -o table"])
def test_no_replica_is_left_out_of_a_count(tmp_path: Path, command: str) -> None:
    spec = "selector: {matchLabels: {a: b}}, template: {metadata: {labels: {a: b}}, spec: {containers: [%s]}}"
    container = "{name: c, image: i, resources: {requests: {cpu: 1}}}"
    head = "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\n"
    (tmp_path / "many.yaml").write_text(f"{head}spec: {{replicas: 60, {spec % container}}}\n")
    found = invoke(*command.split(), tmp_path / "many.yaml").stdout
    assert "60" in found
    assert re.search(r"\b(50|42)\b", found) is None
