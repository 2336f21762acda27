from typing import Any

import pytest
from msgspec.structs import replace

from kplan.admission import Admission, Admitter
from kplan.facts import MissingKind
from kplan.snapshot import Snapshot, load_snapshot
from kplan.snapshot.load import decode_pod
from tests.objects import Object


def an_object(api_version: str, kind: str, name: str, namespace: str = "", **fields: Any) -> Object:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": {**metadata, **fields.pop("metadata", {})}, **fields}


def try_pod(snapshot: Snapshot, spec: Object | None = None, **metadata: Any) -> Admission:
    containers = [{"name": "c", "image": "x"}]
    pod = {"metadata": {"name": "p", **metadata}, "spec": {"containers": containers, **(spec or {})}}
    return Admitter(snapshot).admit(decode_pod(pod))


EMPTY = load_snapshot([])


def test_without_any_classes_a_name_is_a_warning() -> None:
    found = try_pod(EMPTY, {"priorityClassName": "high"})
    assert (found.rejected, found.pod.spec.priority) == (None, 0)
    assert [warning.code for warning in found.warnings] == ["UnknownPriorityClass"]
    assert try_pod(EMPTY, {"priorityClassName": "high", "priority": 9}).pod.spec.priority == 9


RUNTIMES = load_snapshot(
    [
        an_object(
            "node.k8s.io/v1", "RuntimeClass", "sandbox", handler="h", overhead={"podFixed": {"cpu": "250m"}},
            scheduling={"nodeSelector": {"sandbox": "yes"}, "tolerations": [{"key": "sandbox", "operator": "Exists"}]},
        ),
    ]
)  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"runtimeClassName": "gone"}, 'pod rejected: RuntimeClass "gone" not found'),
        ({"runtimeClassName": "two\nlines"}, 'pod rejected: RuntimeClass "two\\nlines" not found'),
        ({"runtimeClassName": "sandbox", "overhead": {"cpu": "1"}},
         "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead"),
        ({"overhead": {"cpu": "1"}},
         "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"),
        ({"runtimeClassName": "sandbox", "nodeSelector": {"sandbox": "no"}},
         "conflict: runtimeClass.scheduling.nodeSelector[sandbox] = yes; pod.spec.nodeSelector[sandbox] = no"),
    ],
)  # fmt: skip
def test_runtime_class_refused(spec: Object, message: str) -> None:
    assert try_pod(RUNTIMES, spec).rejected == f'pods "p" is forbidden: {message}'


@pytest.mark.parametrize("hidden", [(), ("runtimeclasses", "priorityclasses")])
def test_what_a_server_has_none_of_is_not_there_and_what_it_did_not_show_may_be(hidden: tuple[str, ...]) -> None:
    missing = tuple(MissingKind(resource, "forbidden") for resource in hidden)
    read = replace(EMPTY, from_server=True, missing=missing)
    runtime, priority = try_pod(read, {"runtimeClassName": "x"}), try_pod(read, {"priorityClassName": "x"})
    refusals = [found.rejected and found.rejected.partition("forbidden: ")[2] for found in (runtime, priority)]
    known = ['pod rejected: RuntimeClass "x" not found', "no PriorityClass with name x was found"]
    assert refusals == ([None, None] if hidden else known)
    warned = [[(one.code, one.object) for one in found.warnings] for found in (runtime, priority)]
    unknown = [[("UnknownRuntimeClass", "Pod/default/p")], [("UnknownPriorityClass", "Pod/default/p")]]
    assert warned == (unknown if hidden else [[], []])


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
