"""What controllers create in place of single pods that are lost."""

from __future__ import annotations

from typing import Any

import kplan
from kplan.effects.watching import begin
from kplan.simulation.nodes import is_replaced, replacement
from tests.objects import head
from tests.simulation.clusters import deployment, node, running
from tests.simulation.test_jobs import job, pods_of


def replaced(*objects: dict[str, Any]) -> dict[str, str | None]:
    """Return by name the pod that comes in the place of each pod, None where none does."""
    base = kplan.Planner(kplan.load_snapshot([node("n0"), node("n1"), *objects]))
    simulation = begin(base)
    rows = {pod.name: pod.row for pod in simulation.pods.values()}
    return {
        name: replacement(simulation, row).name if is_replaced(simulation, row) else None for name, row in rows.items()
    }


def test_a_replica_set_creates_a_pod_of_its_own_name_from_its_template() -> None:
    web = deployment("web", 2)
    names = replaced(*running(web, ["n0", "n1"]))

    assert len(names) == len(set(names.values())) == 2
    assert not set(names) & set(names.values())
    assert all(name is not None and name.startswith("web-") for name in names.values())


def test_a_job_creates_none_once_it_has_failed_too_often() -> None:
    patient, done = job(backoffLimit=1), job(backoffLimit=0)

    assert set(replaced(patient, *pods_of(patient, "n0")).values()) == {"work-1"}
    assert set(replaced(done, *pods_of(done, "n0")).values()) == {None}


def test_a_pod_without_a_controller_is_gone() -> None:
    bare = head("Pod", name="bare", namespace="default", uid="bare") | {
        "spec": {"nodeName": "n0", "containers": [{"name": "c", "image": "app"}]},
        "status": {"phase": "Running"},
    }

    assert replaced(bare) == {"bare": None}
