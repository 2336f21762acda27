"""What annotations and names say about claims and volumes."""

import pytest

from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kplan.api.decode import convert
from kplan.rules.volumes import (
    claim_class,
    claim_name,
    ephemeral_problem,
    is_fully_bound,
    not_found,
    quoted,
    storage_kinds,
    volume_class,
)

OLD_CLASS = {"volume.beta.kubernetes.io/storage-class": "old"}
BOUND = {"pv.kubernetes.io/bind-completed": "yes"}


def claim(spec=None, **metadata):
    return convert(
        {"metadata": {"name": "web-data", "namespace": "default", **metadata}, "spec": spec or {}},
        PersistentVolumeClaim,
    )


def pod(*volumes):
    metadata = {"name": "web", "namespace": "default", "uid": "web-uid"}
    return convert({"metadata": metadata, "spec": {"volumes": list(volumes)}}, Pod)


@pytest.mark.parametrize(
    ("spec", "annotations", "expected"),
    [({"storageClassName": "new"}, {}, "new"), ({"storageClassName": "new"}, OLD_CLASS, "old"), ({}, {}, "")],
)
def test_the_old_annotation_names_the_class_first(spec, annotations, expected):
    volume = convert({"metadata": {"name": "pv", "annotations": annotations}, "spec": spec}, PersistentVolume)

    assert claim_class(claim(spec, annotations=annotations)) == expected
    assert volume_class(volume) == expected


@pytest.mark.parametrize(
    ("spec", "annotations", "expected"),
    [({"volumeName": "pv"}, BOUND, True), ({"volumeName": "pv"}, {}, False), ({}, BOUND, False)],
)
def test_a_claim_is_bound_when_it_has_a_volume_and_the_controller_is_done(spec, annotations, expected):
    assert is_fully_bound(claim(spec, annotations=annotations)) is expected


def test_claims_behind_volumes():
    named = {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}
    found = pod(named, {"name": "data", "ephemeral": {}}, {"name": "tmp", "emptyDir": {}})

    assert [claim_name(found, volume) for volume in found.spec.volumes] == ["mine", "web-data", None]
    assert [storage_kinds(volume) for volume in found.spec.volumes] == [
        ("persistent_volume_claim",),
        ("ephemeral",),
        (),
    ]


@pytest.mark.parametrize(
    ("metadata", "is_own"),
    [
        ({"ownerReferences": [{"kind": "Pod", "name": "web", "uid": "web-uid", "controller": True}]}, True),
        ({"ownerReferences": [{"kind": "Pod", "name": "web", "uid": "another", "controller": True}]}, False),
        ({"ownerReferences": [{"kind": "Pod", "name": "web", "uid": "web-uid"}]}, False),
        ({}, False),
    ],
)
def test_a_generated_claim_belongs_to_its_pod(metadata, is_own):
    text = "" if is_own else "PVC default/web-data was not created for pod default/web (pod is not owner)"

    assert ephemeral_problem(pod(), claim(**metadata)) == text


def test_names_are_quoted_as_go_does():
    assert quoted('a"b') == '"a\\"b"'
    assert not_found("persistentvolumeclaim", "x") == 'persistentvolumeclaim "x" not found'
