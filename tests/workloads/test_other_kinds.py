"""Objects that come along with workloads are judged as by the API server, where decisions read them."""

from typing import Any

import pytest

import kplan
from kplan.admission.decoding import kind_named
from kplan.admission.judge import judge
from tests.objects import head, planner_of


def errors(kind: str, **fields: Any) -> list[str]:
    content = head(kind, name="x") | fields
    api_kind = kind_named(content["apiVersion"], kind)
    judged = judge(content, api_kind, kind, "default")
    assert judged.faults == ()
    return [str(error) for error in judged.errors]


TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
#: Of which kind, what is written in the spec, and what is wrong with it
SPECS: list[tuple[Any, ...]] = [
    ("PodDisruptionBudget", {"minAvailable": 1}),
    ("PodDisruptionBudget", {"minAvailable": "101%"},
     'spec.minAvailable: Invalid value: "101%": must not be greater than 100%'),
    ("PodDisruptionBudget", {"maxUnavailable": -1},
     "spec.maxUnavailable: Invalid value: -1: must be greater than or equal to 0"),
    ("PodDisruptionBudget", {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
     ("spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or "
      "'NotIn'")),
    ("PodDisruptionBudget", {"unhealthyPodEvictionPolicy": "Never"},
     ('spec.unhealthyPodEvictionPolicy: Unsupported value: "Never": supported values: "AlwaysAllow", '
      '"IfHealthyBudget"')),
    ("HorizontalPodAutoscaler", {"maxReplicas": 3}),
    ("HorizontalPodAutoscaler", {"minReplicas": 4, "maxReplicas": 3},
     "spec.maxReplicas: Invalid value: 3: must be greater than or equal to `minReplicas`"),
    ("HorizontalPodAutoscaler", {"minReplicas": 2}, "spec.maxReplicas: Required value: must be set and greater than 0",
     "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`"),
    ("HorizontalPodAutoscaler", {"maxReplicas": 3, "scaleTargetRef": {"kind": "Deployment", "apiVersion": "apps/v1"}},
     "spec.scaleTargetRef.name: Required value"),
    ("HorizontalPodAutoscaler",
     {"maxReplicas": 3,
      "metrics": [{"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization"}}}]},
     ("spec.metrics[0].resource.target.averageUtilization: Required value: must set either a target raw value or a "
      "target utilization")),
    ("HorizontalPodAutoscaler",
     {"maxReplicas": 3, "behavior": {"scaleUp": {"policies": [{"type": "Pods", "value": 0, "periodSeconds": 15}]}}},
     "spec.behavior.scaleUp.policies[0].value: Invalid value: 0: must be greater than zero"),
    ("ResourceQuota", {"hard": {"pods": "3", "requests.cpu": "2", "example.com/gpu": "1"}}),
    ("ResourceQuota", {"hard": {"pods": "1500m"}}, 'spec.hard[pods]: Invalid value: "1500m": must be an integer'),
    ("ResourceQuota", {"hard": {"storage": "1Gi"}},
     'spec.hard[storage]: Invalid value: "storage": must be a standard resource for quota'),
    ("ResourceQuota", {"hard": {"services": "1"}, "scopes": ["BestEffort", "NotBestEffort"]},
     'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource',
     'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: unsupported scope applied to resource',
     'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes'),
    ("LimitRange", {"limits": [{"type": "Container", "max": {"cpu": "2"}, "default": {"cpu": "1"}}]}),
    ("LimitRange",
     {"limits": [{"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "2"}, "default": {"cpu": "2"}}]},
     'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
     'spec.limits[0].defaultRequest[cpu]: Invalid value: "2": default request value 2 is greater than max value 1',
     'spec.limits[0].default[cpu]: Invalid value: "1": default value 2 is greater than max value 1'),
    ("LimitRange", {"limits": [{"type": "Pod", "default": {"cpu": "1"}}]},
     "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"),
    ("LimitRange", {"limits": [{"type": "PersistentVolumeClaim"}]},
     ("spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was "
      "provided")),
    ("Service", {"ports": [{"port": 80}]}),
    ("Service", {"clusterIP": "None"}),
    ("Service", {}, "spec.ports: Required value"),
    ("Service", {"ports": [{"port": 0}]},
     "spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
     "spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive"),
    ("Service", {"ports": [{"port": 80}, {"port": 81}]}, "spec.ports[0].name: Required value",
     "spec.ports[1].name: Required value"),
    ("Service", {"ports": [{"port": 80, "nodePort": 30000}]},
     "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"),
    ("Service", {"type": "ExternalName"}, "spec.externalName: Required value"),
    ("Service", {"ports": [{"port": 80}], "type": "Local"},
     ('spec.type: Unsupported value: "Local": supported values: "ClusterIP", "ExternalName", "LoadBalancer", '
      '"NodePort"')),
]  # fmt: skip


@pytest.mark.parametrize("row", SPECS)
def test_specs(row: tuple[Any, ...]) -> None:
    kind, spec, *expected = row
    scaled = {"scaleTargetRef": TARGET} if kind == "HorizontalPodAutoscaler" else {}
    assert errors(kind, spec={**scaled, **spec}) == expected


def test_a_budget_has_one_bound() -> None:
    (words,) = errors("PodDisruptionBudget", spec={"minAvailable": 1, "maxUnavailable": 1})
    assert words.endswith("minAvailable and maxUnavailable cannot be both set")


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("high", 1_000_000_000, []),
        ("high", 1_000_000_001, ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"]),
        ("system-cluster-critical", 2_000_000_000, []),
        ("system-mine", 5,
         [("metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
           "error: system-mine is not a known system priority class")]),
    ],
)  # fmt: skip
def test_priority_classes(name: str, value: int, expected: list[str]) -> None:
    assert errors("PriorityClass", metadata={"name": name}, value=value) == expected


def cluster() -> kplan.Planner:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": {"allocatable": {"pods": "9"}}}
    return planner_of(node)


def test_a_refused_object_is_told_and_not_applied() -> None:
    wrong = head("PodDisruptionBudget", name="web") | {"spec": {"minAvailable": "half"}}
    change = cluster().roll_out([wrong])
    (warning,) = change.warnings
    assert (warning.code, warning.object) == ("Refused", "PodDisruptionBudget/default/web")
    assert warning.message.startswith('PodDisruptionBudget.policy "web" is invalid: spec.minAvailable: Invalid value')


def test_other_kinds_are_named_as_not_judged() -> None:
    secret = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}
    again = {**secret, "metadata": {"name": "d"}}
    (warning,) = cluster().roll_out([secret, again]).warnings
    assert (warning.code, warning.object) == ("NotJudged", "ConfigMap/c")
    assert warning.message.startswith("ConfigMap (2): only the names and types of fields are checked")
