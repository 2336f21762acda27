"""Which fields of a manifest an API server of an older minor drops, and that they are as if never said."""

from typing import Any

import pytest

import kplan
from kplan.admission.gated_fields import drop_disabled
from tests.objects import head

Object = dict[str, Any]

_CLUSTER: list[Object] = [
    {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"topology.kubernetes.io/zone": "b"}}},
    head("ResourceQuota", name="budget", namespace="default") | {"spec": {"hard": {"limits.memory": "1Gi"}}},
]


def _pod(container: Object | None = None, **spec: Any) -> Object:
    resources = {"limits": {"memory": "1Mi"}}
    containers = [{"name": "c", "image": "i", "resources": resources, **(container or {})}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": containers, **spec}}


def _made(manifest: Object, minor: str) -> Any:
    planner = kplan.Planner(kplan.load_snapshot(_CLUSTER), kubernetes=minor)
    (made,) = planner.pods([manifest])
    return made


_RULES = {"restartPolicy": "Never", "restartPolicyRules": [{"action": "Restart", "exitCodes": {"operator": "In"}}]}


@pytest.mark.parametrize(
    ("manifest", "since", "path"),
    [
        (_pod(hostnameOverride="h"), 35, "hostnameOverride"),
        (_pod(volumes=[{"name": "v", "image": {"reference": "i"}}]), 35, "image"),
        (_pod(_RULES), 35, "restartPolicyRules"),
        (_pod(resources={"limits": {"memory": "1Gi"}}), 34, '"limits": {"memory": "1Gi"}'),
        (_pod(resourceClaims=[{"name": "r", "resourceClaimName": "r"}]), 34, "resourceClaims"),
        (_pod(nodeName="n"), 35, '"topology.kubernetes.io/zone"'),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_field_is_there_from_its_minor_on(manifest: Object, since: int, path: str) -> None:
    for minor in (33, 34, 35, 36):
        made = _made(manifest, f"1.{minor}")
        assert made.refusal == ""
        volumes = [each for each in made.object["spec"]["volumes"] if not each["name"].startswith("kube-api")]
        seen = str({**made.object, "spec": {**made.object["spec"], "volumes": volumes}}).replace("'", '"')
        told = f'"{path}"' if path.isalpha() else path
        if path == "image":
            assert bool(volumes) is (minor >= since)
        else:
            assert (told in seen) is (minor >= since), minor


def test_what_an_older_minor_drops_is_not_judged() -> None:
    wrong = _pod(hostnameOverride="H")

    assert _made(wrong, "1.34").refusal == ""
    with pytest.raises(kplan.ManifestError, match=r"hostnameOverride: Invalid value"):
        _made(wrong, "1.35")


def test_quotas_count_what_is_left_of_a_pod() -> None:
    manifest = _pod(resources={"limits": {"memory": "1Gi"}})
    manifest["spec"]["containers"][0]["resources"] = {}

    assert _made(manifest, "1.34").refusal == ""
    assert "must specify limits.memory for: c" in _made(manifest, "1.33").refusal


def test_mounts_of_images_go_with_them() -> None:
    mounts = [{"name": "v", "mountPath": "/v"}, {"name": "w", "mountPath": "/w"}]
    spec = {
        "volumes": [{"name": "v", "image": {}}, {"name": "w"}],
        "containers": [{"volumeMounts": mounts, "env": [{"name": "E", "valueFrom": {"fileKeyRef": {}}}]}],
    }
    assert drop_disabled(spec, 34) == {
        "volumes": [{"name": "w"}],
        "containers": [{"volumeMounts": mounts[1:], "env": [{"name": "E", "valueFrom": {}}]}],
    }
