from typing import Any

import pytest

import kplan
from kplan.errors import ManifestError, SnapshotError

Obj = dict[str, Any]


def an_object(kind: str, version: str = "v1", **fields: Any) -> Obj:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "x", **fields.pop("metadata", {})}, **fields}


WRONG = {
    "created": (an_object("Node", metadata={"creationTimestamp": "yesterday"}), "$.metadata.creationTimestamp"),
    "empty": (an_object("Node", metadata={"creationTimestamp": ""}), "$.metadata.creationTimestamp"),
    "deleted": (an_object("Pod", metadata={"deletionTimestamp": "2026-13-01"}), "$.metadata.deletionTimestamp"),
    "started": (an_object("Pod", status={"startTime": "12:00"}), "$.status.startTime"),
    "condition": (
        an_object("Pod", status={"conditions": [{"type": "Ready"}, {"type": "A", "lastTransitionTime": "2026-03-01"}]}),
        "$.status.conditions[1].lastTransitionTime",
    ),
    "taint": (
        an_object("Node", spec={"taints": [{"key": "a", "effect": "NoExecute", "timeAdded": "never"}]}),
        "$.spec.taints[0].timeAdded",
    ),
    "job": (
        an_object("Job", "batch/v1", status={"completionTime": "9999-12-31T23:59:59-10:00"}),
        "$.status.completionTime",
    ),
    "claim": (
        an_object("ResourceClaim", "resource.k8s.io/v1", status={"allocation": {"allocationTimestamp": "x"}}),
        "$.status.allocation.allocationTimestamp",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("obj", "path"), WRONG.values(), ids=WRONG)
def test_times_that_are_none_are_problems_with_their_path(obj: Obj, path: str) -> None:
    with pytest.raises(SnapshotError) as caught:
        kplan.load_snapshot([obj])
    (problem,) = caught.value.problems
    assert problem.json_path == f"$[0]{path[1:]}"
    assert problem.message.endswith("is not a time")


@pytest.mark.parametrize("time", ["2026-03-01T10:00:00Z", "2026-03-01T10:00:00.123456Z", "2026-03-01T10:00:00+05:30"])
def test_times_as_api_servers_write_them_are_taken(time: str) -> None:
    snapshot = kplan.load_snapshot([an_object("Node", metadata={"creationTimestamp": time})])
    assert snapshot.nodes[0].metadata.creation_timestamp == time


def test_a_pod_that_is_asked_about_is_held_to_the_same() -> None:
    planner = kplan.Planner(kplan.load_snapshot("demo"))
    pod = an_object("Pod", metadata={"creationTimestamp": "soon"}, spec={"containers": [{"name": "c", "image": "i"}]})
    with pytest.raises(ManifestError, match="'soon' is not a time"):
        planner.place(pod)
