from __future__ import annotations

from kplan.admission import unknown_fields
from kplan.api.apps import Deployment
from kplan.api.core import Pod


def test_misspelt_fields_are_found_at_any_depth() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "annotations": {"any": "thing"}, "lables": {}},
        "spec": {
            "toleration": [],
            "affinity": {"nodeAfinity": {}},
            "containers": [{"name": "c", "env": [{"whatever": 1}], "resource": {}}],
        },
        "unheard": 1,
    }
    assert [(p.json_path, p.hint) for p in unknown_fields(pod, Pod)] == [
        ("$.metadata.lables", "did you mean labels?"),
        ("$.spec.toleration", "did you mean tolerations?"),
        ("$.spec.affinity.nodeAfinity", "did you mean nodeAffinity?"),
        ("$.spec.containers[0].resource", "did you mean resources?"),
        ("$.unheard", ""),
    ]


def test_fields_that_only_kubernetes_reads_pass() -> None:
    deployment = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d"},
        "spec": {
            "revisionHistoryLimit": 3,
            "template": {
                "spec": {
                    "serviceAccountName": "x",
                    "securityContext": {"fsGroup": 1},
                    "containers": [{"livenessProbe": {}, "volumeMounts": [{"name": "x"}]}],
                    "volumes": [{"name": "x", "projected": {}}],
                }
            },
        },
    }
    assert list(unknown_fields(deployment, Deployment)) == []


def test_what_is_no_object_has_no_fields() -> None:
    assert list(unknown_fields([1], Pod)) == []
