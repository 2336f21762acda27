from __future__ import annotations

import pytest

from kplan.api.core import Pod
from kplan.api.decode import convert
from kplan.engine.pod_info import PodInfo


def shape(*volumes, name="pod"):
    meta = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return PodInfo(
        convert({"metadata": meta, "spec": {"containers": [{"name": "c"}], "volumes": list(volumes)}}, Pod)
    ).shape


def claim(name):
    return {"name": "data", "persistentVolumeClaim": {"claimName": name}}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([claim("data-0")], [claim("data-1")], id="replicas with a claim each"),
        pytest.param([{"name": "kube-api-access-x", "projected": {}}], [], id="what the API server adds to every pod"),
        pytest.param(
            [{"name": "a", "emptyDir": {}}], [{"name": "b", "configMap": {"name": "c"}}], id="private volumes"
        ),
        pytest.param(
            [{"name": "a", "ephemeral": {}}],
            [{"name": "b", "ephemeral": {}}, {"name": "c", "ephemeral": {}}],
            id="numbers",
        ),
    ],
)
def test_pods_of_one_shape(one, other):
    assert shape(*one, name="a") == shape(*other, name="b")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param([claim("a")], [], id="a claim or none"),
        pytest.param([claim("a")], [{"name": "a", "ephemeral": {}}], id="a claim or a generated one"),
        pytest.param([{"name": "a", "rbd": {}}], [{"name": "a", "iscsi": {}}], id="types of disks"),
        pytest.param(
            [{"name": "a", "image": {"reference": "x:1"}}], [{"name": "a", "image": {"reference": "x:2"}}], id="images"
        ),
    ],
)
def test_pods_of_two_shapes(one, other):
    assert shape(*one) != shape(*other)
