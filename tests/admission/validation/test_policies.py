"""What an API server refuses in PodGroups, in classes, and in what bounds and scales workloads."""

from typing import Any

import pytest

from kplan.admission.decoding import kind_named
from kplan.admission.judge import judge
from kplan.admission.validation.policies import pod_group_errors
from tests.objects import head


def errors(**spec: Any) -> list[str]:
    policy = {"schedulingPolicy": {"gang": {"minCount": 1}}}
    group = {"metadata": {"name": "train", "namespace": "default"}, "spec": {**policy, **spec}}
    return [str(error) for error in pod_group_errors(group, "")]


@pytest.mark.parametrize(
    ("spec", "start"),
    [
        ({"schedulingPolicy": {}}, 'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`'),
        ({"schedulingPolicy": {"basic": {}, "gang": {"minCount": 2}}},
         'spec.schedulingPolicy: Invalid value: "{`basic`, `gang`}": must specify exactly one of: `basic`, `gang`'),
        ({"schedulingPolicy": {"gang": {}}}, "spec.schedulingPolicy.gang.minCount: Required value"),
        ({"schedulingPolicy": {"gang": {"minCount": -1}}},
         "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1"),
        ({"schedulingConstraints": {"topology": [{"key": "a"}, {}]}},
         "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item"),
        ({"schedulingConstraints": {"topology": [{}]}}, "spec.schedulingConstraints.topology[0].key: Required value"),
        ({"disruptionMode": "All"}, 'spec.disruptionMode: Unsupported value: "All"'),
        ({"resourceClaims": [{"name": "c"}]},
         'spec.resourceClaims[0]: Invalid value: "": must specify one of: `resourceClaimName`'),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_the_words_of_the_api_server(spec: dict[str, Any], start: str) -> None:
    (error,) = errors(**spec)
    assert error.startswith(start)


@pytest.mark.parametrize(
    ("kind", "version", "fields", "messages"),
    [
        ("StorageClass", "storage.k8s.io/v1", {"provisioner": "Disk.example.com/fast"}, []),
        ("StorageClass", "storage.k8s.io/v1", {}, ["provisioner: Required value"]),
        (
            "StorageClass", "storage.k8s.io/v1",
            {
                "provisioner": "a", "parameters": {"": "x"}, "reclaimPolicy": "Recycle", "volumeBindingMode": "Late",
                "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["a"]}]}] * 2,
            },
            [
                'parameters: Invalid value: "": field can not be empty.',
                'reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain"',
                'volumeBindingMode: Unsupported value: "Late": supported values: "Immediate", "WaitForFirstConsumer"',
                'allowedTopologies[1].matchLabelExpressions: Duplicate value: ""',
            ],
        ),
        (
            "LimitRange", "v1",
            {"spec": {"limits": [{"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"},
                                  "maxLimitRequestRatio": {"cpu": "3"}}]}},
            [('spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "3":'
              " ratio 3 is greater than max/min = 2.000000")],
        ),
        (
            "HorizontalPodAutoscaler", "autoscaling/v2",
            {"spec": {"maxReplicas": 1,
                      "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "a"}}},
            [],
        ),
        ("RuntimeClass", "node.k8s.io/v1", {"handler": "runsc", "overhead": {"podFixed": {"cpu": "1"}}}, []),
        ("RuntimeClass", "node.k8s.io/v1", {}, ["handler: Required value"]),
        (
            "Service", "v1", {"spec": {"type": "ExternalName", "externalName": "db.example.com", "ipFamilyPolicy": ""}},
            ["spec.ipFamilyPolicy: Forbidden: may not be set for ExternalName services"],
        ),
        (
            "RuntimeClass", "node.k8s.io/v1",
            {"handler": "runsc", "scheduling": {"tolerations": [{"key": "gpu", "operator": "Exists"}] * 2}},
            [
                ("scheduling.tolerations[1]: Duplicate value: "
                 '{"Key":"gpu","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}'),
            ],
        ),
    ],
)  # fmt: skip
def test_policies_are_judged_by_their_fields(
    kind: str, version: str, fields: dict[str, Any], messages: list[str]
) -> None:
    known = kind_named(version, kind)
    assert known is not None
    judged = judge(head(kind, name="a") | fields, known, kind, "default")
    assert list(map(str, judged.errors)) == messages
