"""What is left out decides nothing; what is kept stays as it is."""

from typing import Any

import msgspec
import pytest

from kplan.api.kinds import KINDS, kind_of
from kplan.rules.resources import pod_requests
from kplan.snapshot import load_snapshot
from kplan.snapshot.own_file import DECIDING_ANNOTATIONS, lean
from kplan.snapshot.redact_rules import KEPT_ANNOTATIONS


def decode(api_version: str, kind: str, **content: Any) -> Any:
    found = kind_of(api_version, kind)
    assert found is not None
    return msgspec.convert(content, found.type)


def pod(status: dict[str, Any] | None = None, **spec: Any) -> Any:
    containers = [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]
    return decode("v1", "Pod", metadata={"name": "p"}, spec={"containers": containers} | spec, status=status or {})


def test_leaning_twice_changes_nothing_more() -> None:
    for obj in load_snapshot("demo"):
        assert lean(obj) is obj


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


def test_conditions_stay_when_somebody_asks_for_them() -> None:
    kinds = ("Initialized", "Ready", "PodScheduled", "DisruptionTarget", "PodResizePending")
    time = "2026-01-01T00:00:00Z"
    conditions = [{"type": kind, "status": "True", "lastTransitionTime": time} for kind in kinds]

    found = lean(pod({"conditions": conditions})).status.conditions

    assert [condition.type for condition in found] == ["Ready", "DisruptionTarget", "PodResizePending"]
    # Since when a pod is ready, or has ended, tells how long such pods take.
    assert [condition.last_transition_time for condition in found] == [time, None, None]


def test_a_pod_that_could_not_be_placed_keeps_what_the_scheduler_said() -> None:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}

    (found,) = lean(pod({"conditions": [condition]})).status.conditions

    assert (found.reason, found.message) == ("Unschedulable", "0/3 nodes")


def test_nodes_keep_readiness_and_troubles() -> None:
    conditions = [
        {"type": "MemoryPressure", "status": "False", "reason": "KubeletHasSufficientMemory"},
        {"type": "DiskPressure", "status": "True", "reason": "KubeletHasDiskPressure"},
        {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"},
    ]
    node = decode("v1", "Node", metadata={"name": "n"}, status={"conditions": conditions})

    assert [(each.type, each.status) for each in lean(node).status.conditions] == [
        ("DiskPressure", "True"),
        ("Ready", "Unknown"),
    ]


def test_every_kind_can_be_leaned() -> None:
    for kind in KINDS:
        empty = kind.type()
        assert lean(empty) == empty
