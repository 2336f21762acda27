from __future__ import annotations

from typing import Any

import pytest

from kplan.admission import validate_pod, validate_template
from kplan.api.core import Pod, PodTemplateSpec
from kplan.api.decode import convert


def problems(spec: dict[str, Any], **metadata: Any) -> list[str]:
    whole = {"containers": [{"name": "c", "image": "x"}], **spec}
    found = validate_pod(convert({"metadata": {"name": "p", **metadata}, "spec": whole}, Pod))
    return [f"{problem.json_path}: {problem.message}" for problem in found]


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "c", "image": "x", **fields}]}


def test_a_good_pod_has_no_problems() -> None:
    assert problems({}) == []
    assert problems({}, name="", generateName="p-") == []


@pytest.mark.parametrize(
    ("spec", "start"),
    [
        ({"containers": []}, "$.spec.containers: a pod needs at least one container"),
        ({"containers": [{"image": "x"}]}, "$.spec.containers[0].name: a name is required"),
        ({"containers": [{"name": "c"}]}, "$.spec.containers[0].image: an image is required"),
        ({"containers": [{"name": "C", "image": "x"}]}, '$.spec.containers[0].name: "C": a lowercase RFC 1123 label'),
        ({"initContainers": [{"name": "c", "image": "x"}]}, '$.spec.initContainers[0].name: "c" is there twice'),
        (
            {"initContainers": [{"name": "i", "image": "x", "restartPolicy": "Never"}]},
            '$.spec.initContainers[0].restartPolicy: "Never" is not one of Always',
        ),
        (container(ports=[{}]), "$.spec.containers[0].ports[0].containerPort: 0 is not a port"),
        (
            container(ports=[{"containerPort": 1, "hostPort": 65536}]),
            "$.spec.containers[0].ports[0].hostPort: 65536 is not a port",
        ),
        (
            container(ports=[{"containerPort": 1, "protocol": "tcp"}]),
            '$.spec.containers[0].ports[0].protocol: "tcp" is not one of SCTP, TCP, UDP',
        ),
        (
            {"hostNetwork": True, **container(ports=[{"containerPort": 1, "hostPort": 2}])},
            "$.spec.containers[0].ports[0].hostPort: must be 1, like containerPort",
        ),
        ({"volumes": [{"name": "a"}, {"name": "a"}]}, '$.spec.volumes[1].name: "a" is there twice'),
        ({"restartPolicy": "Sometimes"}, '$.spec.restartPolicy: "Sometimes" is not one of'),
        ({"terminationGracePeriodSeconds": -1}, "$.spec.terminationGracePeriodSeconds: must not be negative"),
        ({"activeDeadlineSeconds": 0}, "$.spec.activeDeadlineSeconds: must be at least 1"),
        ({"preemptionPolicy": "Always"}, '$.spec.preemptionPolicy: "Always" is not one of'),
        ({"nodeSelector": {"a b": "c"}}, "$.spec.nodeSelector['a b']: name part must consist of"),
        ({"schedulingGates": [{"name": "a b"}]}, "$.spec.schedulingGates[0].name: name part must consist of"),
        ({"schedulingGates": [{"name": "a"}], "nodeName": "n"}, "$.spec.nodeName: a pod with scheduling gates"),
        ({"tolerations": [{"value": "x"}]}, "$.spec.tolerations[0].operator: must be Exists when key is empty"),
        (
            {"tolerations": [{"key": "a", "operator": "Gt", "value": "1"}]},
            '$.spec.tolerations[0].operator: "Gt" is not one of Equal, Exists',
        ),
        (
            {"tolerations": [{"key": "a", "operator": "Exists", "value": "1"}]},
            "$.spec.tolerations[0].value: must be empty",
        ),
        ({"tolerations": [{"key": "a", "effect": "Never"}]}, '$.spec.tolerations[0].effect: "Never" is not one of'),
        (
            {"tolerations": [{"key": "a", "tolerationSeconds": 1}]},
            "$.spec.tolerations[0].effect: must be NoExecute where tolerationSeconds is set",
        ),
    ],
)
def test_one_problem(spec: dict[str, Any], start: str) -> None:
    (found,) = problems(spec)
    assert found.startswith(start)


@pytest.mark.parametrize(
    ("resources", "start"),
    [
        ({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}, ".requests.cpu: 2 is more than the limit of 1"),
        ({"requests": {"cpu": "-1"}}, ".requests.cpu: -1 is negative"),
        ({"requests": {"cpu": "two"}}, ".requests.cpu: 'two' is not a quantity"),
        ({"requests": {"gpu": "1"}}, '.requests: "gpu" is not a resource'),
        ({"limits": {"nvidia.com/gpu": "1500m"}}, ".limits['nvidia.com/gpu']: 1500m is not a whole number"),
        ({"requests": {"nvidia.com/gpu": 1}}, ".requests['nvidia.com/gpu']: a limit must be set, too"),
        (
            {"requests": {"nvidia.com/gpu": 1}, "limits": {"nvidia.com/gpu": 2}},
            ".requests['nvidia.com/gpu']: 1 must equal the limit of 2",
        ),
        ({"limits": {"hugepages-2Mi": "2Mi"}}, ": huge pages need a request for cpu or memory"),
    ],
)
def test_one_problem_of_resources(resources: dict[str, Any], start: str) -> None:
    (found,) = problems(container(resources=resources))
    assert found.startswith(f"$.spec.containers[0].resources{start}")


def test_resources_of_the_pod_as_a_whole() -> None:
    (found,) = problems({"resources": {"requests": {"ephemeral-storage": "1"}}})
    assert found.startswith("$.spec.resources.requests: ephemeral-storage cannot be asked for by a pod as a whole;")
    small = {"resources": {"requests": {"cpu": "1"}}, **container(resources={"requests": {"cpu": "2"}})}
    assert problems(small) == [
        "$.spec.resources.requests.cpu: 1 is less than the 2 that its containers request together"
    ]


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("affinity", "start"),
    [
        ({"nodeAffinity": {REQUIRED: {}}}, f".nodeAffinity.{REQUIRED}.nodeSelectorTerms: at least one term"),
        (
            {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [{"matchFields": [{"key": "a", "operator": "Gt"}]}]}}},
            f".nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchFields[0].operator: Unsupported value",
        ),
        (
            {"nodeAffinity": {PREFERRED: [{"weight": 101, "preference": {}}]}},
            f".nodeAffinity.{PREFERRED}[0].weight: 101 is not in the range 1 to 100",
        ),
        ({"podAffinity": {REQUIRED: [{}]}}, f".podAffinity.{REQUIRED}[0].topologyKey: a topology key is required"),
        (
            {"podAntiAffinity": {PREFERRED: [{"weight": 1, "podAffinityTerm": {"topologyKey": "a b"}}]}},
            f".podAntiAffinity.{PREFERRED}[0].podAffinityTerm.topologyKey: name part must consist of",
        ),
        (
            {"podAffinity": {REQUIRED: [{"topologyKey": "z", "matchLabelKeys": ["a"]}]}},
            f".podAffinity.{REQUIRED}[0].matchLabelKeys: must not be set without labelSelector",
        ),
        (
            {
                "podAffinity": {
                    REQUIRED: [
                        {
                            "topologyKey": "z",
                            "labelSelector": {},
                            "matchLabelKeys": ["a"],
                            "mismatchLabelKeys": ["a"],
                        }
                    ]
                }
            },
            f".podAffinity.{REQUIRED}[0].matchLabelKeys: a is also in mismatchLabelKeys",
        ),
        (
            {"podAffinity": {REQUIRED: [{"topologyKey": "z", "namespaces": ["A"]}]}},
            f'.podAffinity.{REQUIRED}[0].namespaces[0]: "A": a lowercase',
        ),
        (
            {
                "podAffinity": {
                    REQUIRED: [
                        {
                            "topologyKey": "z",
                            "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]},
                        }
                    ]
                }
            },
            f".podAffinity.{REQUIRED}[0].namespaceSelector: values: Invalid value: null",
        ),
    ],
)
def test_one_problem_of_affinity(affinity: dict[str, Any], start: str) -> None:
    (found,) = problems({"affinity": affinity})
    assert found.startswith(f"$.spec.affinity{start}")


def test_spreading() -> None:
    good = {"maxSkew": 1, "topologyKey": "z", "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    assert problems({"topologySpreadConstraints": [good]}) == []
    spec = {
        "topologySpreadConstraints": [
            good,
            good,
            {"maxSkew": 0, "topologyKey": "", "whenUnsatisfiable": "x", "minDomains": 0, "matchLabelKeys": ["a"]},
            {**good, "topologyKey": "h", "nodeTaintsPolicy": "x"},
        ]
    }
    assert problems(spec) == [
        "$.spec.topologySpreadConstraints[1]: z, DoNotSchedule is there twice",
        "$.spec.topologySpreadConstraints[2].maxSkew: must be at least 1",
        "$.spec.topologySpreadConstraints[2].topologyKey: a topology key is required",
        '$.spec.topologySpreadConstraints[2].whenUnsatisfiable: "x" is not one of DoNotSchedule, ScheduleAnyway',
        "$.spec.topologySpreadConstraints[2].minDomains: must be at least 1",
        "$.spec.topologySpreadConstraints[2].minDomains: can only be set with whenUnsatisfiable: DoNotSchedule",
        "$.spec.topologySpreadConstraints[2].matchLabelKeys: must not be set without labelSelector",
        '$.spec.topologySpreadConstraints[3].nodeTaintsPolicy: "x" is not one of Honor, Ignore',
    ]


def test_names_and_labels() -> None:
    found = problems({}, name="A", namespace="b.c", labels={"-": "x", "y": "{}"})
    assert [text.split(":")[0] for text in found] == [
        "$.metadata.name",
        "$.metadata.namespace",
        "$.metadata.labels",
        "$.metadata.labels['y']",
    ]
    assert problems({}, name="") == ["$.metadata.name: a name or generateName is required"]


def test_templates_need_no_name_and_keep_their_path() -> None:
    template = convert({"spec": {"containers": []}}, PodTemplateSpec)
    (problem,) = validate_template(template, "$.spec.jobTemplate.spec.template")
    assert problem.json_path == "$.spec.jobTemplate.spec.template.spec.containers"
