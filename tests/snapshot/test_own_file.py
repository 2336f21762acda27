import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from kplan.api.kinds import kind_of
from kplan.errors import SnapshotError, UsageError
from kplan.rules.resources import pod_requests
from kplan.snapshot import MissingKind, build_snapshot, load_snapshot
from kplan.snapshot.model import Snapshot
from kplan.snapshot.own_file import DECIDING_ANNOTATIONS, encode_snapshot, lean, save_snapshot
from kplan.snapshot.redact import KEPT_ANNOTATIONS
from tests.cli.commands import written
from tests.objects import head


def test_a_broken_own_file_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    objects = {
        "nodes": [{"metadata": {"name": "n"}}],
        "pods": [{"spec": {"priority": "high"}}, {"spec": 5}],
        "stars": [],
        "controllerRevisions": [{"data": {"spec": {"template": 5}}}],
    }
    path.write_text(json.dumps({"apiVersion": "kplan/v1", "kind": "Snapshot", "objects": objects}))
    with pytest.raises(SnapshotError) as caught:
        load_snapshot(path)
    assert [problem.json_path for problem in caught.value.problems] == [
        "$.objects.pods[0].spec.priority",
        "$.objects.pods[1].spec",
        "$.objects.controllerRevisions[0].data.spec.template",
    ]


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"objects": []}, "$.objects", "expected an object, got a list"),
        ({"objects": {"nodes": {}}}, "$.objects.nodes", "expected a list"),
        ({"objects": {"nodes": None}}, "$.objects.nodes", "expected a list"),
        ({"objects": {"nodes": [7]}}, "$.objects.nodes[0]", "expected an object, got 7"),
        ({"metadata": {"missing": [[]]}}, "$.metadata.missing[0]", "expected an object, got a list"),
        ({"metadata": {"takenAt": "noon"}}, "$.metadata.takenAt", "'noon' is not a time"),
        ({"formatVersion": "2.0"}, "$.formatVersion", "format version '2.0' is not 1.x"),
    ],
)
@pytest.mark.parametrize("form", [json.dumps, yaml.safe_dump], ids=["JSON", "YAML"])
def test_wrong_shapes_in_an_own_file_are_told_with_their_place(
    tmp_path: Path, form: Callable[[Any], str], change: dict[str, Any], path: str, message: str
) -> None:
    document = {"apiVersion": "kplan/v1", "kind": "Snapshot", "objects": {"nodes": [{"metadata": {"name": "n"}}]}}
    file = written(tmp_path / "own.yaml", form(document | change))
    with pytest.raises(SnapshotError) as caught:
        load_snapshot(file)
    (problem,) = caught.value.problems
    assert (problem.json_path, problem.message) == (path, message)
    assert problem.line is not None


# --- saving ----------------------------------------------------------------------------------------------------------

FORMS = ["cluster.json", "cluster.yaml", "cluster.yml", "cluster.json.gz", "cluster.YAML.GZ"]


@pytest.fixture(scope="module")
def demo() -> Snapshot:
    return load_snapshot("demo")


@pytest.mark.parametrize("name", FORMS)
def test_what_is_saved_is_loaded_again(demo: Snapshot, tmp_path: Path, name: str) -> None:
    budgets = MissingKind("poddisruptionbudgets", "forbidden", ("DefaultPreemption",))
    missing = (budgets, MissingKind("services", "forbidden in shop", (), ("shop",)))
    about = {"taken_at": "2026-03-01T10:00:00Z", "server_version": "v1.36.2", "missing": missing}
    taken = build_snapshot(demo, source="live:prod", skipped={"Secret": 3}, **about)
    size = save_snapshot(taken, tmp_path / name)
    loaded = load_snapshot(tmp_path / name)
    assert loaded.digest == taken.digest == demo.digest
    assert loaded.pods == demo.pods
    assert {key: getattr(loaded, key) for key in about} == about
    assert (loaded.skipped, loaded.source) == ({"Secret": 3}, str(tmp_path / name))
    assert (tmp_path / name).stat().st_size == size


def test_what_was_written_by_hand_gets_the_defaults_of_an_api_server(tmp_path: Path) -> None:
    container = {"name": "c", "resources": {"limits": {"cpu": "1"}}, "ports": [{"containerPort": 80}]}
    pods = [{"metadata": {"name": "p"}, "spec": {"containers": [container]}}]
    objects = {"nodes": [{"metadata": {"name": "n"}}], "pods": pods}
    document = {"apiVersion": "kplan/v1", "kind": "Snapshot", "objects": objects}
    path = written(tmp_path / "s.json", json.dumps(document))
    [pod] = load_snapshot(path).pods
    assert (pod.metadata.namespace, pod.spec.scheduler_name) == ("default", "default-scheduler")
    assert pod.spec.containers[0].resources.requests == {"cpu": "1"}
    assert pod.spec.containers[0].ports[0].protocol == "TCP"


def test_only_what_scheduling_reads_is_written() -> None:
    container = {"name": "c", "image": "i", "env": [{"name": "A", "value": "tell-nobody"}], "args": ["tell-nobody"]}
    metadata = {"name": "p", "namespace": "n", "annotations": {"a": "tell-nobody"}}
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"pods": "1"}}}
    volume = {"name": "v", "secret": {"secretName": "named", "items": [{"key": "tell-nobody", "path": "x"}]}}
    pod = head("Pod", **metadata) | {"spec": {"containers": [container], "volumes": [volume]}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"k": "tell-nobody"}}
    written = encode_snapshot(load_snapshot([node, pod, secret]), "x.json")
    assert b"tell-nobody" not in written


@pytest.mark.parametrize("name", ["cluster", "cluster.txt", "cluster.gz", "cluster.json.zip"])
def test_a_name_that_says_no_form_is_refused(demo: Snapshot, tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="has no known extension") as caught:
        save_snapshot(demo, tmp_path / name)
    assert ".json.gz" in caught.value.hint
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", FORMS[:4])
def test_the_same_snapshot_gives_the_same_bytes(demo: Snapshot, name: str) -> None:
    assert encode_snapshot(demo, name) == encode_snapshot(demo, name)


def test_a_directory_that_is_not_there_is_named(demo: Snapshot, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"cannot write .*absent/cluster\.json"):
        save_snapshot(demo, tmp_path / "absent" / "cluster.json")


def test_a_new_file_is_for_its_owner_only(demo: Snapshot, tmp_path: Path) -> None:
    save_snapshot(demo, tmp_path / "cluster.json")
    assert stat.S_IMODE((tmp_path / "cluster.json").stat().st_mode) == 0o600


def decode(api_version: str, kind: str, **content: Any) -> Any:
    found = kind_of(api_version, kind)
    assert found is not None
    return msgspec.convert(content, found.type)


def pod(status: dict[str, Any] | None = None, **spec: Any) -> Any:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    return decode("v1", "Pod", metadata={"name": "p"}, spec={"containers": containers} | spec, status=status or {})


def test_names_that_a_server_made_up_need_no_prefix() -> None:
    made = decode("v1", "Pod", metadata={"name": "p-x", "generateName": "p-", "resourceVersion": "7"})
    to_be_made = decode("v1", "Pod", metadata={"generateName": "p-"})
    assert (lean(made).metadata.generate_name, lean(made).metadata.resource_version) == ("", "")
    assert lean(to_be_made) is to_be_made


def test_annotations_stay_when_they_decide() -> None:
    annotations = {"volume.kubernetes.io/selected-node": "n", "kubectl.kubernetes.io/last-applied-configuration": "{}"}
    claim = decode("v1", "PersistentVolumeClaim", metadata={"name": "c", "annotations": annotations})
    assert lean(claim).metadata.annotations == {"volume.kubernetes.io/selected-node": "n"}


def test_every_deciding_annotation_is_known_to_the_redactor_or_dropped_by_it_on_purpose() -> None:
    dropped = {"volume.alpha.kubernetes.io/node-affinity"}
    assert DECIDING_ANNOTATIONS - KEPT_ANNOTATIONS.keys() == dropped
    assert KEPT_ANNOTATIONS.keys() <= DECIDING_ANNOTATIONS


def test_volumes_without_a_known_source_go() -> None:
    found = lean(pod(volumes=[{"name": "token"}, {"name": "data", "persistentVolumeClaim": {"claimName": "d"}}]))
    assert [volume.name for volume in found.spec.volumes] == ["data"]


def running(requests: dict[str, str] | None, allocated: dict[str, str] | None = None) -> dict[str, Any]:
    status: dict[str, Any] = {"name": "c"}
    if requests is not None:
        status["resources"] = {"requests": requests}
    if allocated is not None:
        status["allocatedResources"] = allocated
    return status


@pytest.mark.parametrize(
    ("status", "stays"),
    [
        (running(None), False),
        (running({"cpu": "1"}), False),
        (running({"cpu": "1"}, {"cpu": "1"}), False),
        (running({"cpu": "2"}, {"cpu": "1"}), True),
        (running({"cpu": "1"}, {"cpu": "2"}), True),
        (running({"cpu": "500m"}, {"cpu": "500m"}), True),
    ],
)
@pytest.mark.parametrize("infeasible", [False, True])
def test_container_statuses_go_when_they_repeat_the_spec(status: dict[str, Any], stays: bool, infeasible: bool) -> None:
    """Whatever goes, the requests that count stay the same, those of an infeasible resize too."""
    conditions = [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}] if infeasible else []
    whole = pod({"containerStatuses": [status], "conditions": conditions})
    found = lean(whole)
    assert bool(found.status.container_statuses) is stays
    assert pod_requests(found, use_status=True) == pod_requests(whole, use_status=True)


def test_nodes_keep_readiness_and_troubles() -> None:
    conditions = [
        {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
        {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure", "message": "full"},
        {"type": "Ready", "status": "False", "reason": "KubeletNotReady", "message": "no network" * 100},
    ]
    node = decode("v1", "Node", metadata={"name": "n"}, status={"conditions": conditions})

    assert [(each.type, each.status, len(each.message)) for each in lean(node).status.conditions] == [
        ("DiskPressure", "True", 0),
        ("Ready", "False", 240),
    ]


def test_leaning_twice_changes_nothing_more() -> None:
    for obj in load_snapshot("demo"):
        assert lean(obj) is obj
