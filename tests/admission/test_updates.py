from typing import Any

import msgspec
import pytest

import kplan
from kplan.admission.updates import update_errors
from kplan.api.core import PersistentVolume, PersistentVolumeClaim
from kplan.api.kinds import KINDS
from tests.objects import head

MODES, SIZE = ["ReadWriteOnce"], {"requests": {"storage": "2Gi"}}
ON_NODES: dict[str, Any] = {"required": {"nodeSelectorTerms": [{}]}}
BOUND = {"phase": "Bound", "capacity": {"storage": "2Gi"}}
_WORDS = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
IMMUTABLE = f"spec: Forbidden: {_WORDS}"
SMALLER = "spec.resources.requests.storage: Forbidden: field can not be less than status.capacity"


def said(before: Any, after: Any) -> list[str]:
    return [f"{error.field}: {error.body}" for error in update_errors(before, after)]


def claim(spec: dict[str, Any], status: dict[str, Any] | None = None) -> PersistentVolumeClaim:
    written = {"accessModes": MODES, "resources": SIZE, "storageClassName": "fast", **spec}
    return msgspec.convert({"spec": written, "status": status or {}}, PersistentVolumeClaim)


@pytest.mark.parametrize(
    ("status", "spec", "words"),
    [
        (BOUND, {}, []),
        (BOUND, {"storageClassName": None, "accessModes": []}, []),
        (BOUND, {"resources": {"requests": {"storage": "3Gi"}}}, []),
        (BOUND, {"resources": {"requests": {"storage": "1Gi"}}}, [SMALLER]),
        ({}, {"resources": {"requests": {"storage": "3Gi"}}}, [IMMUTABLE]),
        (BOUND, {"storageClassName": "slow"}, [IMMUTABLE]),
        (BOUND, {"accessModes": ["ReadWriteMany"]}, [IMMUTABLE]),
        (BOUND, {"volumeName": "v"}, []),
        (BOUND, {"resources": {**SIZE, "limits": {"storage": "3Gi"}}}, [IMMUTABLE]),
        (BOUND, {"volumeMode": "Block"}, [IMMUTABLE, 'volumeMode: Invalid value: "Block": field is immutable']),
    ],
)
def test_a_claim_may_grow_once_it_is_bound(status: dict[str, Any], spec: dict[str, Any], words: list[str]) -> None:
    assert said(claim({}, status), claim(spec)) == words


def test_a_priority_class_keeps_its_value_for_the_pods_of_the_same_manifests() -> None:
    def priority_class(value: int, policy: str | None = None) -> dict[str, Any]:
        written = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}}
        return {**written, "value": value, **({"preemptionPolicy": policy} if policy else {})}

    pod = head("Pod", name="p") | {"spec": {"priorityClassName": "high", "containers": [{"name": "c", "image": "i"}]}}
    planner = kplan.Planner(kplan.load_snapshot([priority_class(7, "Never")]))

    def stored(class_: dict[str, Any]) -> tuple[int, str, list[str]]:
        change = planner.roll_out([class_, pod])
        info = next(iter(change.simulation.session.cluster.pods.infos))
        refused = [warning.message for warning in change.warnings if warning.code == "Refused"]
        return info.priority, info.pod.spec.preemption_policy or "", refused

    words = 'PriorityClass.scheduling.k8s.io "high" is invalid: value: Forbidden: may not be changed in an update.'
    assert stored(priority_class(9)) == (7, "Never", [words])
    assert stored(priority_class(7)) == (7, "Never", [])


def request(count: int) -> dict[str, Any]:
    return {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu", "count": count}}]}}


@pytest.mark.parametrize(
    ("kind", "before", "after", "words"),
    [
        ("ResourceClaim", {"spec": request(1)}, {"spec": request(2)}, "spec: Invalid value: field is immutable"),
        ("ResourceClaimTemplate", {"spec": {"spec": request(1)}}, {"spec": {"spec": request(2)}},
         "spec: Invalid value: field is immutable"),
        ("ResourceClaim", {"spec": request(1)}, {}, ""),
        ("ResourceQuota", {"spec": {"scopes": ["A", "B"]}}, {"spec": {"scopes": ["B", "A"]}}, ""),
        ("ResourceQuota", {"spec": {"scopes": ["A"]}}, {}, "spec.scopes: Invalid value: null: field is immutable"),
        ("CSIDriver", {"spec": {"attachRequired": True}}, {"spec": {"attachRequired": False}},
         "spec.attachedRequired: Invalid value: false: field is immutable"),
        ("CSIDriver", {"spec": {"attachRequired": False}}, {"spec": {"attachRequired": True}}, ""),
        ("RuntimeClass", {"handler": "a"}, {"handler": "b"}, 'handler: Invalid value: "b": field is immutable'),
        ("ResourceSlice", {"spec": {"driver": "d", "nodeName": "n"}}, {"spec": {"driver": "d", "nodeName": "m"}},
         'spec.nodeName: Invalid value: "m": field is immutable'),
        ("CSIStorageCapacity", {"storageClassName": "fast"}, {"storageClassName": "slow"},
         'storageClassName: Invalid value: "slow": field is immutable'),
        ("PersistentVolume", {"spec": {"csi": {"driver": "d", "volumeHandle": "a"}}},
         {"spec": {"csi": {"driver": "d", "volumeHandle": "b"}}},
         "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"),
        ("PersistentVolume", {"spec": {"nodeAffinity": {}}}, {"spec": {"nodeAffinity": ON_NODES}},
         "nodeAffinity: Invalid value: field is immutable, except for updating from beta label to GA"),
    ],
)  # fmt: skip
def test_other_kinds_keep_what_their_users_rely_on(
    kind: str, before: dict[str, Any], after: dict[str, Any], words: str
) -> None:
    known = next(entry for entry in KINDS if entry.name == kind).type
    old, new = (msgspec.convert(content, known) for content in (before, after))
    assert said(old, new) == [words][: bool(words)]
    assert said(old, old) == said(new, new) == []


def test_defaults_that_one_of_two_objects_spells_out_are_no_change() -> None:
    def claims(api_version: str, request: dict[str, Any]) -> dict[str, Any]:
        written = head("ResourceClaim", f"resource.k8s.io/{api_version}", name="c", namespace="default")
        return written | {"spec": {"devices": {"requests": [{"name": "gpu", **request}]}}}

    plain = {"deviceClassName": "gpu", "capacity": {"requests": {"memory": "1024Mi"}}, "tolerations": [{"key": "a"}]}
    live = {**plain, "capacity": {"requests": {"memory": "1Gi"}}, "tolerations": [{"key": "a", "operator": "Equal"}]}
    stored = claims("v1", {"exactly": {**live, "allocationMode": "ExactCount", "count": 1}})
    planner = kplan.Planner(kplan.load_snapshot([stored]))

    def refused(claim: dict[str, Any]) -> list[str]:
        return [warning.message for warning in planner.roll_out([claim]).warnings if warning.code == "Refused"]

    assert refused(claims("v1", {"exactly": plain})) == refused(claims("v1beta1", plain)) == []
    assert len(refused(claims("v1", {"exactly": {**plain, "count": 2}}))) == 1

    rbd = {"monitors": ["m"], "image": "i"}
    old, new = (
        msgspec.convert({"spec": {"rbd": source}}, PersistentVolume) for source in ({**rbd, "pool": "rbd"}, rbd)
    )
    assert said(old, new) == []
