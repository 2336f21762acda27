"""What Python gets is what the command prints."""

from typing import Any

import pytest

import kplan
from tests.incidents.asking import answer, cluster, manifest


def plain(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document without its time, its file, places in files, and how many pods a command lists."""
    placements = [
        {
            **{key: value for key, value in placement.items() if key != "atFault"},
            "pod": {key: value for key, value in placement["pod"].items() if key != "from"},
        }
        for placement in document["placements"]
    ]
    workloads = [{key: value for key, value in workload.items() if key != "from"} for workload in document["workloads"]]
    rest = {key: value for key, value in document.items() if key not in ("generatedAt", "snapshot", "maxListed")}
    return {**rest, "placements": placements, "workloads": workloads}


@pytest.mark.parametrize(
    ("name", "node"),
    [("drain-needs-force", "a-1"), ("crash-loop", "w-0"), ("tie-decides", "a-0"), ("image-bump", "general-a-1")],
)
def test_a_drain_is_the_document_of_the_command(name: str, node: str) -> None:
    asked = kplan.Planner(kplan.load_snapshot(cluster(name))).drain([node]).to_dict()
    assert plain(asked) == plain(answer(name, "drain", node))


def test_a_roll_out_is_the_document_of_the_command() -> None:
    planner = kplan.Planner(kplan.load_snapshot(cluster("no-room-to-surge")))
    asked = planner.roll_out([manifest("surge")]).to_dict()
    assert plain(asked) == plain(answer("no-room-to-surge", "plan", manifest("surge")))


def test_a_queue_is_the_document_of_the_command() -> None:
    planner = kplan.Planner(kplan.load_snapshot(cluster("quota")))
    assert plain(planner.plan_queue().to_dict()) == plain(answer("quota", "plan"))
