from pathlib import Path

import pytest

import kplan
from kplan.errors import ManifestError, SnapshotError, UsageError
from kplan.snapshot.load import decode_pod


@pytest.mark.parametrize(
    ("obj", "path"),
    [
        ({"kind": "Node", "apiVersion": "v1"}, "$.kind"),
        ({"spec": {"priority": "x"}}, "$.spec.priority"),
        ({"spec": {"containers": [{"name": "c"}], "overhead": {"cpu": "x"}}}, "$.spec.overhead.cpu"),
        ({"kind": "Pod", "apiVersion": "v1", "metadata": {"name": "p"}}, "$.spec.containers"),
        ({"spec": {"containers": []}}, "$.spec.containers"),
    ],
)
def test_what_is_no_pod_is_refused(obj: dict[str, object], path: str) -> None:
    with pytest.raises(ManifestError) as caught:
        decode_pod(obj)
    assert [problem.json_path for problem in caught.value.problems] == [path]


def test_what_is_no_snapshot_is_an_error_of_kplan() -> None:
    with pytest.raises(UsageError, match="expected a snapshot, got int"):
        kplan.Planner(5)
    with pytest.raises(SnapshotError, match="no such file"):
        kplan.Planner(Path("nowhere.yaml"))


def test_a_snapshot_is_shown_in_a_line() -> None:
    shown = repr(kplan.load_snapshot("demo"))
    assert shown.startswith("<Snapshot demo: 13 nodes, 90 pods, ")
    assert len(shown) < 500
    assert repr(kplan.load_snapshot([])) == "<Snapshot objects: empty>"
