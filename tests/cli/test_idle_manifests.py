"""Manifests without a pod and without a workload, and files that hold no manifests."""

import re
from pathlib import Path

import pytest

from tests.cli.commands import folder_of, invoke, refused
from tests.cli.test_errors import POD

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
