"""What may not change, held against upstream's TestValidateJobUpdate and the update tests of the other kinds."""

import copy
from typing import Any

import pytest

from kplan.api.core import WorkloadCondition
from kplan.api.workloads import JobStatus
from kplan.course.simulation.updates import DIRECTIVES_GATE, RESOURCES_GATE, forbidden_changes

Spec = dict[str, Any]
NEW = JobStatus()
STARTED = JobStatus(start_time="2026-01-01T00:00:00Z", active=2)
PAUSED = JobStatus(start_time="2026-01-01T00:00:00Z", conditions=(WorkloadCondition("Suspended", "True"),))
TEMPLATE = {
    "metadata": {"labels": {"app": "batch"}},
    "spec": {
        "restartPolicy": "Never",
        "containers": [{"name": "c", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]}},
    },
}


def everything(_gate: str) -> bool:
    return True


def nothing(_gate: str) -> bool:
    return False


def job(**spec: Any) -> Spec:
    return {"parallelism": 2, "completions": 2, "template": copy.deepcopy(TEMPLATE), **spec}


def with_pod(spec: Spec, **fields: Any) -> Spec:
    changed = copy.deepcopy(spec)
    changed["template"]["spec"].update(fields)
    return changed


def fields_of(errors: list[str]) -> list[str]:
    return [error.partition(":")[0] for error in errors]


MUTABLE: list[Spec] = [
    {"parallelism": 5},
    {"activeDeadlineSeconds": 60},
    {"backoffLimit": 1},
    {"suspend": True},
    {"ttlSecondsAfterFinished": 60},
    {"maxFailedIndexes": 1},
    {"podReplacementPolicy": "Failed"},
]

IMMUTABLE: list[Spec] = [
    {"completions": 3},
    {"selector": {"matchLabels": {"foo": "bar"}}},
    {"completionMode": "Indexed"},
    {"podFailurePolicy": {"rules": [{"action": "Ignore"}]}},
    {"backoffLimitPerIndex": 1},
    {"managedBy": "example.com/foo"},
    {"successPolicy": {"rules": [{"succeededCount": 1}]}},
]


@pytest.mark.parametrize("change", IMMUTABLE, ids=lambda change: next(iter(change)))
def test_a_job_may_not_become_another(change: Spec) -> None:
    (field,) = change
    (error,) = forbidden_changes("Job", job(), job(**change), NEW, everything)
    assert error.startswith(f"spec.{field}: Invalid value: ")
    assert error.endswith(": field is immutable")


def test_an_indexed_job_grows_and_shrinks_as_a_whole() -> None:
    before = job(completionMode="Indexed")
    same = job(completionMode="Indexed", completions=4, parallelism=4)
    other = job(completionMode="Indexed", completions=4, parallelism=3)
    assert forbidden_changes("Job", before, same, STARTED, everything) == []
    assert forbidden_changes("Job", before, other, STARTED, everything) == [
        "spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"
    ]


TERM = {"matchExpressions": [{"key": "gpu", "operator": "Exists"}]}
NODES: Spec = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}
DIRECTIVES: list[Spec] = [
    {"nodeSelector": {"a": "b"}},
    {"tolerations": [{"key": "a", "operator": "Exists"}]},
    {"schedulingGates": [{"name": "a"}]},
    {"affinity": {**TEMPLATE["spec"]["affinity"], "nodeAffinity": NODES}},
]


@pytest.mark.parametrize("change", DIRECTIVES, ids=lambda change: next(iter(change)))
def test_where_pods_may_go_can_change_while_a_job_is_suspended(change: Spec) -> None:
    before = job(suspend=True)
    after = with_pod(before, **change)

    assert fields_of(forbidden_changes("Job", job(), with_pod(job(), **change), NEW, everything)) == ["spec.template"]
    assert forbidden_changes("Job", before, after, NEW, nothing) == []
    assert forbidden_changes("Job", before, after, NEW, everything) == []
    assert forbidden_changes("Job", before, after, PAUSED, everything) == []
    assert fields_of(forbidden_changes("Job", before, after, PAUSED, nothing)) == ["spec.template"]
    assert fields_of(forbidden_changes("Job", before, after, STARTED, everything)) == ["spec.template"]


def test_other_affinity_and_other_images_stay_even_then() -> None:
    before = job(suspend=True)
    for change in ({"affinity": None}, {"restartPolicy": "OnFailure"}):
        after = with_pod(before, **change)
        assert fields_of(forbidden_changes("Job", before, after, NEW, nothing)) == ["spec.template"]
        assert fields_of(forbidden_changes("Job", before, after, NEW, everything)) == ["spec.template.spec"]


def test_what_containers_ask_for_can_change_while_a_job_is_suspended() -> None:
    before, after = job(suspend=True), job(suspend=True)
    after["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "2"}}
    renamed = copy.deepcopy(after)
    renamed["template"]["spec"]["containers"][0]["name"] = "other"

    assert forbidden_changes("Job", before, after, NEW, lambda gate: gate == RESOURCES_GATE) == []
    assert fields_of(forbidden_changes("Job", before, after, NEW, lambda gate: gate == DIRECTIVES_GATE)) == [
        "spec.template"
    ]
    assert fields_of(forbidden_changes("Job", before, renamed, NEW, everything)) == ["spec.template.spec"]


def test_of_a_pod_its_images_may_change() -> None:
    before = {"containers": [{"name": "c", "image": "app:1"}]}
    image = {"containers": [{"name": "c", "image": "app:2"}]}
    port = {"containers": [{"name": "c", "image": "app:1", "ports": [{"containerPort": 80}]}]}
    assert forbidden_changes("Pod", before, image, None, everything) == []
    assert "pod updates may not change fields other than" in forbidden_changes("Pod", before, port, None, everything)[0]
