import dataclasses
from typing import Any

import pytest

from kplan.admission import Admission, Admitter
from kplan.facts import MissingKind
from kplan.snapshot import Snapshot, load_snapshot
from kplan.snapshot.load import decode_pod

Obj = dict[str, Any]


def an_object(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> Obj:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**metadata, **fields.pop("metadata", {})}, **fields}


def priority_class(name: str, value: int, **fields: Any) -> Obj:
    return an_object("scheduling.k8s.io/v1", "PriorityClass", name, value=value, **fields)


def try_pod(snapshot: Snapshot, spec: Obj | None = None, **metadata: Any) -> Admission:
    containers = [{"name": "c", "image": "x"}]
    pod = {"metadata": {"name": "p", **metadata}, "spec": {"containers": containers, **(spec or {})}}
    return Admitter(snapshot).admit(decode_pod(pod))


EMPTY = load_snapshot([])


def test_tolerations_of_nodes_that_stop_answering_are_added_once() -> None:
    found = try_pod(EMPTY).pod.spec.tolerations
    assert [(t.key, t.operator, t.effect, t.toleration_seconds) for t in found] == [
        ("node.kubernetes.io/not-ready", "Exists", "NoExecute", 300),
        ("node.kubernetes.io/unreachable", "Exists", "NoExecute", 300),
    ]
    own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}
    assert [t.toleration_seconds for t in try_pod(EMPTY, {"tolerations": [own]}).pod.spec.tolerations] == [5, 300]
    assert len(try_pod(EMPTY, {"tolerations": [{"operator": "Exists"}]}).pod.spec.tolerations) == 1
    other = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"}
    assert len(try_pod(EMPTY, {"tolerations": [other]}).pod.spec.tolerations) == 3


STATED_PRIORITY = (
    "the integer value of priority (5) must not be provided in pod spec; priority admission controller"
    " computed 100 from the given PriorityClass name"
)
STATED_POLICY = (
    "the string value of PreemptionPolicy (PreemptLowerPriority) must not be provided in pod spec; priority admission"
    " controller computed Never from the given PriorityClass name"
)

CLASSES = load_snapshot(
    [
        priority_class("high", 100, preemptionPolicy="Never"),
        priority_class("normal", 7, globalDefault=True),
        priority_class("other", 9, globalDefault=True),
    ]
)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({}, ("normal", 7, "PreemptLowerPriority")),
        ({"priorityClassName": "high"}, ("high", 100, "Never")),
        ({"priorityClassName": "high", "priority": 100}, ("high", 100, "Never")),
        ({"priorityClassName": "system-node-critical"}, ("system-node-critical", 2000001000, "PreemptLowerPriority")),
    ],
    ids=["the lowest default", "by name", "stated and right", "every cluster has it"],
)
def test_priority(spec: Obj, expected: tuple[str, int, str]) -> None:
    found = try_pod(CLASSES, spec)
    assert found.rejected is None
    assert (found.pod.spec.priority_class_name, found.pod.spec.priority, found.pod.spec.preemption_policy) == expected


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"priorityClassName": "gone"}, "no PriorityClass with name gone was found"),
        ({"priorityClassName": "high", "priority": 5}, STATED_PRIORITY),
        ({"priorityClassName": "high", "preemptionPolicy": "PreemptLowerPriority"}, STATED_POLICY),
    ],
)
def test_priority_refused(spec: Obj, message: str) -> None:
    assert try_pod(CLASSES, spec).rejected == f'pods "p" is forbidden: {message}'


def test_without_any_classes_a_name_is_a_warning() -> None:
    found = try_pod(EMPTY, {"priorityClassName": "high"})
    assert (found.rejected, found.pod.spec.priority) == (None, 0)
    assert [warning.code for warning in found.warnings] == ["UnknownPriorityClass"]
    assert try_pod(EMPTY, {"priorityClassName": "high", "priority": 9}).pod.spec.priority == 9


RUNTIMES = load_snapshot(
    [
        an_object(
            "node.k8s.io/v1",
            "RuntimeClass",
            "sandbox",
            handler="h",
            overhead={"podFixed": {"cpu": "250m"}},
            scheduling={"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
        )
    ]
)


def test_runtime_class_adds_overhead_selector_and_tolerations() -> None:
    spec = {
        "runtimeClassName": "sandbox",
        "nodeSelector": {"disk": "ssd"},
        "tolerations": [{"key": "sandbox", "operator": "Equal", "value": "x"}],
    }
    found = try_pod(RUNTIMES, spec)
    assert found.rejected is None
    assert found.pod.spec.overhead == {"cpu": "250m"}
    assert found.pod.spec.node_selector == {"disk": "ssd", "sandbox": "yes"}
    assert [(t.key, t.operator) for t in found.pod.spec.tolerations] == [
        ("node.kubernetes.io/not-ready", "Exists"),
        ("node.kubernetes.io/unreachable", "Exists"),
        ("sandbox", "Exists"),
    ]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"runtimeClassName": "gone"}, 'pod rejected: RuntimeClass "gone" not found'),
        ({"runtimeClassName": "two\nlines"}, 'pod rejected: RuntimeClass "two\\nlines" not found'),
        (
            {"runtimeClassName": "sandbox", "overhead": {"cpu": "1"}},
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            {"overhead": {"cpu": "1"}},
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (
            {"runtimeClassName": "sandbox", "nodeSelector": {"sandbox": "no"}},
            "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no",
        ),
    ],
)
def test_runtime_class_refused(spec: Obj, message: str) -> None:
    assert try_pod(RUNTIMES, spec).rejected == f'pods "p" is forbidden: {message}'


def test_equal_overhead_in_other_words_is_fine() -> None:
    assert try_pod(RUNTIMES, {"runtimeClassName": "sandbox", "overhead": {"cpu": "0.25"}}).rejected is None


def test_without_any_runtime_classes_a_name_is_a_warning() -> None:
    assert [w.code for w in try_pod(EMPTY, {"runtimeClassName": "x"}).warnings] == ["UnknownRuntimeClass"]


@pytest.mark.parametrize("hidden", [(), ("runtimeclasses", "priorityclasses")])
def test_what_a_server_has_none_of_is_not_there_and_what_it_did_not_show_may_be(hidden: tuple[str, ...]) -> None:
    missing = tuple(MissingKind(resource, "forbidden") for resource in hidden)
    read = dataclasses.replace(EMPTY, from_server=True, missing=missing)
    runtime, priority = try_pod(read, {"runtimeClassName": "x"}), try_pod(read, {"priorityClassName": "x"})
    refusals = [found.rejected and found.rejected.partition("forbidden: ")[2] for found in (runtime, priority)]
    known = ['pod rejected: RuntimeClass "x" not found', "no PriorityClass with name x was found"]
    assert refusals == ([None, None] if hidden else known)


def test_namespaces() -> None:
    snapshot = load_snapshot(
        [
            an_object("v1", "Namespace", "default"),
            an_object("v1", "Namespace", "old", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        ]
    )
    assert try_pod(snapshot).warnings == ()
    assert try_pod(snapshot, namespace="new").rejected == 'namespaces "new" not found'
    assert try_pod(snapshot, namespace="kube-system").rejected is None
    assert "because it is being terminated" in (try_pod(snapshot, namespace="old").rejected or "")


def test_a_pod_that_names_its_node_gets_its_zone() -> None:
    labels = {"topology.kubernetes.io/zone": "a", "other": "x"}
    snapshot = load_snapshot([an_object("v1", "Node", "n", metadata={"labels": labels})])
    assert try_pod(snapshot, {"nodeName": "n"}).pod.metadata.labels == {"topology.kubernetes.io/zone": "a"}
    assert try_pod(snapshot, {"nodeName": "gone"}).pod.metadata.labels == {}


def test_each_admitted_pod_uses_up_quota_and_a_refused_one_does_not() -> None:
    hard = {"pods": "2", "requests.cpu": "3"}
    quota = an_object(
        "v1",
        "ResourceQuota",
        "q",
        "default",
        spec={"hard": hard},
        status={"hard": hard, "used": {"pods": "0", "requests.cpu": "0"}},
    )
    admitter = Admitter(load_snapshot([quota]))

    def ask(cpu: str) -> str | None:
        containers = [{"name": "c", "image": "x", "resources": {"requests": {"cpu": cpu}}}]
        return admitter.admit(decode_pod({"metadata": {"name": "p"}, "spec": {"containers": containers}})).rejected

    assert ask("2") is None
    assert ask("1500m") == (
        'pods "p" is forbidden: exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=2,'
        " limited: requests.cpu=3"
    )
    assert ask("1") is None
    assert ask("1m") == (
        'pods "p" is forbidden: exceeded quota: q, requested: pods=1,requests.cpu=1m,'
        " used: pods=2,requests.cpu=3, limited: pods=2,requests.cpu=3"
    )
