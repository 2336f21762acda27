"""The tables follow csi-translation-lib plugins/{aws_ebs,gce_pd,azure_disk,openstack_cinder,portworx}_test.go."""

import pytest

from kplan.api.core import PersistentVolume
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
    in_tree_plugin,
    inline_handle,
    translated_affinity,
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
        (
            volume(EBS, volumeID="aws:///disk"),
            "failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume (aws:///disk)",
        ),
        (
            volume(EBS, volumeID="aws:///vol-%zz"),
            (
                "failed to translate Kubernetes ID to EBS Volume ID Invalid disk name (aws:///vol-%zz):"
                ' parse "aws:///vol-%zz": invalid URL escape "%zz"'
            ),
        ),
        (
            volume(GCE, {ZONE: "a__b"}, pdName="d"),
            "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, got: a",
        ),
        (
            volume(GCE, {ZONE: "us-east1-a__us-west1-a"}, pdName="d"),
            (
                "failed to get region from zones: multiple or no regions gotten from zones,"
                " got: map[us-east1:{} us-west1:{}]"
            ),
        ),
        (volume(AZURE, diskURI="d", kind="Shared"), "kind(Shared) is not supported in csi migration"),
    ],
)
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
        pytest.param(
            volume(GCE, terms=[[(ZONE, ["a"])]], pdName="d"), [[(GCE_ZONE, ["a"])]], id="zone of the affinity"
        ),
        pytest.param(
            volume(GCE, {ZONE: "us-a-b"}, [[(ZONE, ["a"]), ("disk", ["x"])], [(ZONE, ["b"])]], pdName="d"),
            [[(GCE_ZONE, ["a"]), ("disk", ["x"])], [(GCE_ZONE, ["b"])]],
            id="the affinity goes before the labels",
        ),
        pytest.param(
            volume(GCE, {ZONE: "us-a-b__us-a-a"}, pdName="d"),
            [[(GCE_ZONE, ["us-a-a", "us-a-b"])]],
            id="zones of labels",
        ),
        pytest.param(
            volume(CINDER, {BETA_ZONE: "a"}, [[("disk", ["x"])]], volumeID="c"),
            [[("disk", ["x"]), (CINDER_ZONE, ["a"])]],
            id="zones of labels join every term",
        ),
        pytest.param(
            volume(GCE, terms=[[(BETA_ZONE, ["a"]), (BETA_REGION, ["r"])]], pdName="d"),
            [[(GCE_ZONE, ["a"]), (REGION, ["r"])]],
            id="an old region gets its new name along with an old zone",
        ),
        pytest.param(
            volume(GCE, terms=[[(BETA_REGION, ["r"])]], pdName="d"),
            [[(BETA_REGION, ["r"])]],
            id="but not where no old zone is named",
        ),
        pytest.param(volume(GCE, {ZONE: " "}, pdName="d"), None, id="a blank zone is none"),
        pytest.param(
            volume(AZURE, terms=[[(ZONE, ["a"])]], diskURI="d"), [[(ZONE, ["a"])]], id="Azure keeps its zones"
        ),
    ],
)
def test_topology(made, expected):
    assert terms_of(translated_affinity(made)) == expected


def test_the_types_that_csi_took_over():
    assert len(PLUGIN_BY_NAME) == 7
    assert set(PLUGIN_BY_NAME) > MIGRATED
    assert in_tree_plugin(volume("vsphereVolume", volumePath="x").spec).name == "kubernetes.io/vsphere-volume"
    assert in_tree_plugin(volume("hostPath", path="/x").spec) is None
