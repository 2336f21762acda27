"""What is invalid in volumes, source by source."""

from typing import Any

import pytest

from tests.admission.validation.makers import errors_of_spec

AT = "spec.volumes[0]"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"emptyDir": {"sizeLimit": "-1"}}, f"{AT}.emptyDir.sizeLimit: Forbidden: SizeLimit field must be a valid"),
        ({"hostPath": {}}, f"{AT}.hostPath.path: Required value"),
        ({"hostPath": {"path": "/a/../b"}}, f"{AT}.hostPath.path: Invalid value: \"/a/../b\": must not contain '..'"),
        ({"hostPath": {"path": "/a", "type": "Door"}}, f'{AT}.hostPath.type: Unsupported value: "Door"'),
        ({"secret": {}}, f"{AT}.secret.secretName: Required value"),
        ({"secret": {"secretName": "s", "defaultMode": 512}}, "must be a number between 0 and 0777 (octal)"),
        ({"configMap": {"name": "m", "items": [{}]}}, f"{AT}.configMap.items[0].key: Required value"),
        ({"configMap": {"name": "m", "items": [{"key": "k", "path": "/a"}]}}, "must be a relative path"),
        ({"configMap": {"name": "m", "items": [{"key": "k", "path": "..a"}]}}, "must not start with '..'"),
        ({"persistentVolumeClaim": {}}, f"{AT}.persistentVolumeClaim.claimName: Required value"),
        ({"nfs": {"server": "s", "path": "a"}}, f'{AT}.nfs.path: Invalid value: "a": must be an absolute path'),
        ({"gitRepo": {"directory": "../x"}}, f"{AT}.gitRepo.repository: Required value"),
        (
            {"gcePersistentDisk": {"partition": 256, "pdName": "d"}},
            f"{AT}.persistentDisk.partition: Invalid value: 256",
        ),
        ({"awsElasticBlockStore": {}}, f"{AT}.awsElasticBlockStore.volumeID: Required value"),
        ({"iscsi": {"iqn": "x"}}, "must be valid format starting with iqn, eui, or naa"),
        ({"iscsi": {"iqn": "iqn.x"}}, f'{AT}.iscsi.iqn: Invalid value: "iqn.x": must be valid format'),
        ({"glusterfs": {}}, f"{AT}.glusterfs.endpoints: Required value"),
        ({"flocker": {}}, f"{AT}.flocker: Required value: one of datasetName and datasetUUID is required"),
        ({"rbd": {}}, f"{AT}.rbd.monitors: Required value"),
        ({"cinder": {"volumeID": "v", "secretRef": {}}}, f"{AT}.cinder.secretRef.name: Required value"),
        ({"cephfs": {}}, f"{AT}.cephfs.monitors: Required value"),
        (
            {"quobyte": {"registry": "x", "volume": "v"}},
            "must be a host:port pair or multiple pairs separated by comma",
        ),
        ({"fc": {}}, f"{AT}.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not both"),
        (
            {"flexVolume": {"driver": "d", "options": {"k8s.io/a": "b"}}},
            "kubernetes.io and k8s.io namespaces are reserv",
        ),
        ({"azureFile": {}}, f"{AT}.azureFile.secretName: Required value"),
        (
            {"azureDisk": {"diskName": "d", "diskURI": "u", "kind": "Managed"}},
            f"{AT}.azureDisk.diskURI: Unsupported val",
        ),
        ({"vsphereVolume": {}}, f"{AT}.vsphereVolume.volumePath: Required value"),
        ({"portworxVolume": {}}, f"{AT}.portworxVolume.volumeID: Required value"),
        ({"scaleIO": {}}, f"{AT}.scaleIO.gateway: Required value"),
        ({"storageos": {"volumeName": "A"}}, f'{AT}.storageos.volumeName: Invalid value: "A"'),
        ({"csi": {}}, f"{AT}.csi.driver: Required value"),
        ({"csi": {"driver": "a" * 64}}, f"{AT}.csi.driver: Too long: may not be more than 63 bytes"),
        ({"image": {}}, f"{AT}.image.reference: Required value"),
        ({"ephemeral": {}}, f"{AT}.ephemeral.volumeClaimTemplate: Required value"),
        (
            {"ephemeral": {"volumeClaimTemplate": {"metadata": {"name": "x"}, "spec": {}}}},
            f"{AT}.ephemeral.volumeClaimTemplate.metadata.name: Forbidden: cannot be set",
        ),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"dataSource": {"apiGroup": "g", "name": "a"}}}}},
            f"{AT}.ephemeral.volumeClaimTemplate.spec.dataSource.kind: Required value",
        ),
        (
            {"ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["Alone"]}}}},
            f'{AT}.ephemeral.volumeClaimTemplate.spec.accessModes: Unsupported value: "Alone"',
        ),
        (
            {"downwardAPI": {"items": [{"path": "a"}]}},
            f"{AT}.downwardAPI: Required value: one of fieldRef and resourceFieldRef is required",
        ),
        (
            {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "spec.nodeName"}}]}},
            'fieldPath: Unsupported value: "spec.nodeName": supported values: "metadata.annotations"',
        ),
        (
            {"downwardAPI": {"items": [{"path": "a", "resourceFieldRef": {"resource": "limits.cpu"}}]}},
            f"{AT}.downwardAPI.resourceFieldRef.containerName: Required value",
        ),
        (
            {"projected": {"sources": [{"secret": {"name": "s"}, "configMap": {"name": "m"}}]}},
            f"{AT}.projected.sources[0]: Forbidden: may not specify more than 1 volume type per source",
        ),
        (
            {"projected": {"sources": [{"serviceAccountToken": {"path": "t", "expirationSeconds": 1}}]}},
            "may not specify a duration less than 10 minutes",
        ),
        (
            {
                "projected": {
                    "sources": [
                        {"secret": {"name": "s", "items": [{"key": "k", "path": "p"}]}},
                        {"configMap": {"name": "m", "items": [{"key": "k", "path": "p"}]}},
                    ]
                }
            },
            f'{AT}.projected: Invalid value: "m": conflicting duplicate paths',
        ),
        (
            {"secret": {"secretName": "s"}, "emptyDir": {}},
            f"{AT}.secret: Forbidden: may not specify more than 1 volume type",
        ),
    ],
    ids=lambda value: value[:50] if isinstance(value, str) else "",
)
def test_what_is_invalid_is_told(source: dict[str, Any], expected: str) -> None:
    assert expected in "\n".join(errors_of_spec({"volumes": [{"name": "v", **source}]}))


def test_names_of_volumes() -> None:
    assert errors_of_spec({"volumes": [{"name": "v"}, {"name": "v"}]}) == ['spec.volumes[1].name: Duplicate value: "v"']
    assert errors_of_spec({"volumes": [{}]}) == ["spec.volumes[0].name: Required value"]


def test_a_claim_that_an_ephemeral_volume_makes_is_not_mounted_by_name() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    made = {"name": "e", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    named = {"name": "n", "persistentVolumeClaim": {"claimName": "p-e"}}

    (error,) = errors_of_spec({"volumes": [made, named]})
    assert error.endswith('Invalid value: "p-e": must not reference a PVC that gets created for an ephemeral volume')
