"""Manifests held against a cluster, and what comes of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import kplan
from kplan.snapshot.save import save_snapshot
from tests.simulation.clusters import deployment, node, running, template

NODES = ["n1", "n2"]


def job(**spec: Any) -> dict[str, Any]:
    made = {**template("batch"), "metadata": {"labels": {"app": "batch"}}}
    made["spec"] = {**made["spec"], "restartPolicy": "Never"}
    metadata = {"name": "batch", "namespace": "default"}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": {"template": made, **spec}}


def labels_of(change: Any) -> list[dict[str, str]]:
    infos = change.simulation.session.cluster.pods.infos
    return [dict(infos[row].labels) for row, pod in change.simulation.pods.items() if pod.is_new]


def test_pods_of_a_new_job_carry_its_name() -> None:
    planner = kplan.Planner(kplan.load_snapshot([node("n1")]))

    found = labels_of(planner.roll_out([job(parallelism=2, completions=2)]))

    name = {"job-name": "batch", "batch.kubernetes.io/job-name": "batch"}
    assert found == [{"app": "batch", **name}] * 2


def test_a_job_that_selects_its_pods_itself_has_only_its_own_labels() -> None:
    planner = kplan.Planner(kplan.load_snapshot([node("n1")]))
    own = job(manualSelector=True, selector={"matchLabels": {"app": "batch"}})

    assert labels_of(planner.roll_out([own])) == [{"app": "batch"}]


def lean_snapshot(tmp_path: Path) -> kplan.Planner:
    """Return a planner for a file that holds only what scheduling reads."""
    path = tmp_path / "lean.json"
    objects = [*map(node, NODES), *running(deployment("web", 2), NODES)]
    save_snapshot(kplan.load_snapshot(json.loads(json.dumps(objects))), path)
    return kplan.Planner(kplan.load_snapshot(path))


@pytest.mark.parametrize(
    ("rollout", "change", "n_made"), [("auto", "none", 0), ("always", "rollout", 2), ("never", "none", 0)]
)
def test_of_a_lean_snapshot_what_cannot_be_seen_is_rolled_only_when_asked(
    tmp_path: Path, rollout: Any, change: str, n_made: int
) -> None:
    written = deployment("web", 2)
    written["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "COLOUR", "value": "blue"}]

    found = lean_snapshot(tmp_path).roll_out([written], rollout=rollout)

    (workload,) = found.workloads
    assert workload.change == change
    assert any("env" in path for path in workload.unseen)
    assert sum(step.event == "created" for step in found.steps) == n_made


def test_a_lean_snapshot_shows_what_scheduling_reads(tmp_path: Path) -> None:
    written = deployment("web", 2)
    written["spec"]["template"]["spec"]["nodeSelector"] = {"kubernetes.io/hostname": "n1"}

    found = lean_snapshot(tmp_path).roll_out([written])

    assert [workload.change for workload in found.workloads] == ["rollout"]
    assert {pod.node for pod in found.after} == {"n1"}


def test_rolling_never_still_makes_the_replicas_that_are_missing(tmp_path: Path) -> None:
    found = lean_snapshot(tmp_path).roll_out([deployment("web", 3, image="app:2")], rollout="never")

    assert [workload.change for workload in found.workloads] == ["scale"]
    assert sum(step.event == "created" for step in found.steps) == 1
    assert not any(step.event == "deleted" for step in found.steps)
