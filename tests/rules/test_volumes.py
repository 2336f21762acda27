"""The tables follow csi-translation-lib plugins/{aws_ebs,gce_pd,azure_disk,openstack_cinder,portworx}_test.go."""

import pytest

from kplan.api.core import PersistentVolume, PersistentVolumeClaim, Pod
from kplan.api.decode import convert
from kplan.api.storage import Volume
from kplan.rules.volumes import (
    BETA_REGION,
    BETA_ZONE,
    MIGRATED,
    PLUGIN_BY_NAME,
    REGION,
    ZONE,
    TranslationError,
    claim_class,
    claim_name,
    ephemeral_problem,
    in_tree_plugin,
    inline_handle,
    is_fully_bound,
    not_found,
    quoted,
    storage_kinds,
    translated_affinity,
    volume_class,
    volume_handle,
)

EBS, GCE, AZURE, CINDER, PORTWORX = (
    "awsElasticBlockStore",
    "gcePersistentDisk",
    "azureDisk",
    "cinder",
    "portworxVolume",
)


def volume(source, labels=None, terms=None, **fields):
    spec = {source: fields}
    if terms is not None:
        selectors = [
            {"matchExpressions": [{"key": k, "operator": "In", "values": v} for k, v in term]} for term in terms
        ]
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": selectors}}
    return convert({"metadata": {"name": "v", "labels": labels or {}}, "spec": spec}, PersistentVolume)


def terms_of(affinity):
    if affinity is None:
        return None
    return [[(e.key, list(e.values)) for e in term.match_expressions] for term in affinity.required.node_selector_terms]


@pytest.mark.parametrize(
    ("made", "handle"),
    [
        (volume(EBS, volumeID="vol-1"), "vol-1"),
        (volume(EBS, volumeID="anything/at all"), "anything/at all"),
        (volume(EBS, volumeID="aws://us-east-1a/vol-1"), "vol-1"),
        (volume(EBS, volumeID="aws:///vol-1/"), "vol-1"),
        (volume(EBS, volumeID="aws:///vol%2D1?x#y"), "vol-1"),
        (volume(GCE, pdName="d"), "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        (volume(GCE, {ZONE: "z"}, pdName="d"), "projects/UNSPECIFIED/zones/z/disks/d"),
        (volume(GCE, {ZONE: "z", BETA_ZONE: "b"}, pdName="d"), "projects/UNSPECIFIED/zones/b/disks/d"),
        (
            volume(GCE, {ZONE: "us-central1-a__us-central1-c"}, pdName="d"),
            "projects/UNSPECIFIED/regions/us-central1/disks/d",
        ),
        (volume(AZURE, diskName="d", diskURI="/sub/d"), "/sub/d"),
        (volume(AZURE, diskName="d", diskURI="/sub/d", kind="managed"), "/sub/d"),
        (volume(CINDER, volumeID="c"), "c"),
        (volume(PORTWORX, volumeID="p"), "p"),
    ],
)
def test_handles(made, handle):
    assert volume_handle(made) == handle


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (volume(EBS, volumeID="aws:///disk"),
         "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws:///disk)"),
        (
            volume(EBS, volumeID="aws:///vol-%zz"),
            ("failed to translate Kubernetes ID to EBS Volume ID Invalid disk name (aws:///vol-%zz):"
            ' parse "aws:///vol-%zz": invalid URL escape "%zz"'),
        ),
        (volume(GCE, {ZONE: "a__b"}, pdName="d"),
         "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, got: a"),
        (
            volume(GCE, {ZONE: "us-east1-a__us-west1-a"}, pdName="d"),
            ("failed to get region from zones: multiple or no regions gotten from zones,"
            " got: map[us-east1:{} us-west1:{}]"),
        ),
        (volume(AZURE, diskURI="d", kind="Shared"), "kind(Shared) is not supported in csi migration"),
    ],
)  # fmt: skip
def test_what_cannot_be_translated(made, message):
    with pytest.raises(TranslationError) as caught:
        translated_affinity(made)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("source", "handle"),
    [
        ({GCE: {"pdName": "d"}}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        ({EBS: {"volumeID": "aws:///vol-1"}}, "vol-1"),
        ({CINDER: {"volumeID": "c"}}, "c"),
    ],
)
def test_handles_of_inline_volumes(source, handle):
    assert inline_handle(convert({"name": "v", **source}, Volume)) == handle


GCE_ZONE = "topology.gke.io/zone"
CINDER_ZONE = "topology.cinder.csi.openstack.org/zone"


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        pytest.param(volume(GCE, pdName="d"), None, id="nothing to translate"),
        pytest.param(volume(GCE, terms=[[(ZONE, ["a"])]], pdName="d"), [[(GCE_ZONE, ["a"])]],
                     id="zone of the affinity"),
        pytest.param(volume(GCE, {ZONE: "us-a-b"}, [[(ZONE, ["a"]), ("disk", ["x"])], [(ZONE, ["b"])]], pdName="d"),
                     [[(GCE_ZONE, ["a"]), ("disk", ["x"])], [(GCE_ZONE, ["b"])]],
                     id="the affinity goes before the labels"),
        pytest.param(volume(GCE, {ZONE: "us-a-b__us-a-a"}, pdName="d"), [[(GCE_ZONE, ["us-a-a", "us-a-b"])]],
                     id="zones of labels"),
        pytest.param(volume(CINDER, {BETA_ZONE: "a"}, [[("disk", ["x"])]], volumeID="c"),
                     [[("disk", ["x"]), (CINDER_ZONE, ["a"])]], id="zones of labels join every term"),
        pytest.param(volume(GCE, terms=[[(BETA_ZONE, ["a"]), (BETA_REGION, ["r"])]], pdName="d"),
                     [[(GCE_ZONE, ["a"]), (REGION, ["r"])]],
                     id="an old region gets its new name along with an old zone"),
        pytest.param(volume(GCE, terms=[[(BETA_REGION, ["r"])]], pdName="d"), [[(BETA_REGION, ["r"])]],
                     id="but not where no old zone is named"),
        pytest.param(volume(GCE, {ZONE: " "}, pdName="d"), None, id="a blank zone is none"),
        pytest.param(volume(AZURE, terms=[[(ZONE, ["a"])]], diskURI="d"), [[(ZONE, ["a"])]],
                     id="Azure keeps its zones"),
    ],
)  # fmt: skip
def test_topology(made, expected):
    translated = translated_affinity(made)
    assert terms_of(translated) == expected
    terms = () if translated is None else translated.required.node_selector_terms
    assert all(expression.operator == "In" for term in terms for expression in term.match_expressions)


def test_the_types_that_csi_took_over():
    assert len(PLUGIN_BY_NAME) == 7
    assert set(PLUGIN_BY_NAME) > MIGRATED
    assert in_tree_plugin(volume("vsphereVolume", volumePath="x").spec).name == "kubernetes.io/vsphere-volume"
    assert in_tree_plugin(volume("hostPath", path="/x").spec) is None


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
    given_volume = convert({"metadata": {"name": "pv", "annotations": annotations}, "spec": spec}, PersistentVolume)
    assert claim_class(claim(spec, annotations=annotations)) == expected
    assert volume_class(given_volume) == expected


@pytest.mark.parametrize(
    ("spec", "annotations", "expected"),
    [({"volumeName": "pv"}, BOUND, True), ({"volumeName": "pv"}, {}, False), ({}, BOUND, False)],
)
def test_a_claim_is_bound_when_it_has_a_volume_and_the_controller_is_done(spec, annotations, expected):
    assert is_fully_bound(claim(spec, annotations=annotations)) is expected


def test_claims_behind_volumes():
    named = {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}}
    found = pod(named, {"name": "data", "ephemeral": {}}, {"name": "tmp", "emptyDir": {}})
    assert [claim_name(found, given_volume) for given_volume in found.spec.volumes] == ["mine", "web-data", None]
    assert [storage_kinds(given_volume) for given_volume in found.spec.volumes] == [
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
