from pathlib import Path

import pytest

import kplan
from kplan.errors import ManifestError, SnapshotError, UsageError
from kplan.snapshot.load import as_snapshot, decode_pod


def test_a_dict_becomes_a_completed_pod() -> None:
    pod = decode_pod({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c"}]}})
    assert (pod.metadata.namespace, pod.spec.scheduler_name) == ("default", "default-scheduler")


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


def test_a_snapshot_may_be_named_where_one_is_expected() -> None:
    loaded = kplan.load_snapshot("demo")

    assert as_snapshot(loaded) is loaded
    assert kplan.Planner("demo").place("shop/voucher-api").node == "general-a-2"


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
