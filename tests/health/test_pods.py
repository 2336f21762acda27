"""What a pod is, as the first line of an answer says it."""

from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace

from kplan.health.advice import pod_advice
from kplan.health.pods import HeldVolume
from kplan.health.words import clock_text, pod_text
from kplan.health.workloads import pods_health
from kplan.snapshot.load import load_snapshot
from kplan.snapshot.redact import redact_snapshot
from tests.objects import head

ATTACHED = Path(__file__).parents[1] / "answers" / "inputs" / "attached.yaml"
THEN = "2026-03-01T09:00:00Z"


def waiting(reason: str, **status: Any) -> dict[str, Any]:
    return {"name": "app", "ready": False, "state": {"waiting": {"reason": reason}}, **status}


def ended(code: int, reason: str = "Error") -> dict[str, Any]:
    return {"terminated": {"exitCode": code, "reason": reason}}


RUNS: dict[str, Any] = {"name": "app", "ready": False, "started": True, "state": {"running": {}}}
LATER = [waiting("PodInitializing")]


def pod(
    *containers: dict[str, Any],
    phase: str = "Running",
    ready: str = "False",
    deleted: bool = False,
    node: str = "n1",
    metadata: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    **status: Any,
) -> dict[str, Any]:
    at = {"deletionTimestamp": "2026-03-01T09:00:30Z", "deletionGracePeriodSeconds": 30} if deleted else {}
    return head("Pod", name="p", namespace="web", **(at | (metadata or {}))) | {
        "spec": {"nodeName": node, "containers": [{"name": "app"}], **(spec or {})},
        "status": {
            "phase": phase,
            "startTime": THEN,
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": list(containers),
            **status,
        },
    }


def nodes(ready: str = "True") -> dict[str, Any]:
    heard = {"type": "Ready", "status": ready, "lastHeartbeatTime": "2026-03-01T09:30:00Z"}
    created = "2026-01-01T00:00:00Z"
    return head("Node", name="n1", creationTimestamp=created) | {"status": {"conditions": [heard]}}


OOM = waiting("CrashLoopBackOff", restartCount=57, lastState=ended(137, "OOMKilled"))
GATE = {"readinessGates": [{"conditionType": "acme.io/registered"}]}
LOW = "The node was low on resource: memory. Threshold quantity: 100Mi, container app was using 3Gi."
SINCE = "since 2026-03-01 09:00 UTC, for 30 min"


@pytest.mark.parametrize(
    ("obj", "said"),
    [
        (pod(ready="True"), "web/p is running and ready on n1"),
        (pod(ready="True", node="gone"), "web/p shows as running and ready on gone, which does not exist any more"),
        (pod({"name": "app", "ready": True, "restartCount": 2, "lastState": ended(1)}, ready="True"),
         "web/p is running and ready on n1 (2 restarts, last exit code 1)"),
        (pod(OOM),
         "web/p is on n1 and not ready: CrashLoopBackOff (57 restarts, last exit code 137 OOMKilled), container app"),
        (pod(waiting("ImagePullBackOff"), phase="Pending"),
         "web/p is on n1 and not ready: ImagePullBackOff, container app"),
        (pod(*LATER, phase="Pending", initContainerStatuses=[{"name": "setup", "ready": False, "state": ended(2)}]),
         "web/p is on n1 and not ready: Init:Error (exit code 2), container setup"),
        (pod(*LATER, phase="Pending", initContainerStatuses=[RUNS | {"name": "setup"}]),
         f"web/p is starting on n1 (Init: container setup runs) {SINCE}"),
        (pod(waiting("ContainerCreating"), phase="Pending"),
         f"web/p does not start on n1 (ContainerCreating, container app) {SINCE}"),
        (pod(RUNS), "web/p is on n1 and not ready: container app runs, but its readiness probe fails"),
        (pod(RUNS | {"started": False}),
         "web/p is on n1 and not ready: container app runs, but its startup probe has not passed"),
        (pod(spec=GATE), "web/p is on n1 and not ready: readiness gate acme.io/registered is not met"),
        (pod(deleted=True, metadata={"finalizers": ["acme.io/backup"]}),
         f"web/p on n1 is being deleted {SINCE}, and waits for finalizer acme.io/backup: it goes once whoever set"),
        (pod(deleted=True),
         f"web/p on n1 is being deleted {SINCE}, and its kubelet has not ended it, though its grace period of 30 s"),
        (pod(deleted=True, metadata={"deletionTimestamp": "1970-01-01T00:00:30Z"}),
         "web/p on n1 is being deleted, and ends within 30 s"),
        (pod(deleted=True, node="gone"),
         f"web/p on gone is being deleted {SINCE}, node gone does not exist any more: the garbage collector"),
        (pod(phase="Succeeded"), "web/p has completed on n1"),
        (pod({"name": "app", "state": ended(3)}, phase="Failed"),
         "web/p has failed on n1: Error (exit code 3), container app"),
        (pod(phase="Failed", reason="Evicted", message=LOW), "web/p was evicted from n1: its node was short of memory"),
    ],
)  # fmt: skip
def test_a_pod_is_told_with_what_keeps_it(obj: dict[str, Any], said: str) -> None:
    snapshot = load_snapshot([nodes(), obj])
    assert pod_text(pods_health(snapshot)["web/p"]).startswith(said)
    # The same of a redacted snapshot, but for the names.
    (redacted,) = pods_health(redact_snapshot(snapshot)).values()
    assert redacted.state == pods_health(snapshot)["web/p"].state
    assert redacted.short_of == pods_health(snapshot)["web/p"].short_of


@pytest.mark.parametrize(
    ("message", "said", "advice"),
    [
        ('configmap "app-confg" not found', "there is no ConfigMap app-confg (did you mean app-config?)", ""),
        ('secret "db" not found', "there is no Secret db: create it, or name another one", ""),
        ("couldn't find key hunter2 in Secret web/db", "a key that it names is missing in Secret web/db", "which key"),
        ("", "container app", "A ConfigMap, Secret or key that it names is missing"),
    ],
)
def test_a_container_says_which_object_is_missing_and_what_others_mount(message: str, said: str, advice: str) -> None:
    trouble = {"reason": "CreateContainerConfigError", "message": message}
    stuck = pod(waiting("") | {"state": {"waiting": trouble}})
    mounts = {"volumes": [{"name": "e", "emptyDir": {}}, {"name": "v", "configMap": {"name": "app-config"}}]}
    other = pod(RUNS, ready="True", spec=mounts) | {"metadata": {"name": "other", "namespace": "web"}}
    snapshot = load_snapshot([nodes(), stuck, other])
    health = pods_health(snapshot)["web/p"]

    assert pod_text(health).endswith(said)
    assert advice in (told := " ".join(pod_advice(health)))
    assert bool(advice) == bool(told)
    assert "hunter2" not in repr(snapshot)


@pytest.mark.parametrize(("ready", "is_so"), [("Unknown", "unreachable"), ("False", "not ready")])
def test_a_pod_that_shows_as_ready_is_told_with_its_node(ready: str, is_so: str) -> None:
    (health,) = pods_health(load_snapshot([nodes(ready), pod(ready="True")])).values()
    assert pod_text(health) == f"web/p shows as running and ready on n1, which is {is_so}"
    (failed,) = pods_health(load_snapshot([nodes(ready), pod(phase="Failed")])).values()
    assert pod_text(failed) == "web/p has failed on n1"  # before anything was wrong with the node


def test_where_no_kubelet_answers_a_pod_never_ends() -> None:
    health, is_deleted = pods_health(load_snapshot([nodes("Unknown"), pod(deleted=True)]))["web/p"], "is being deleted"
    never = "and never goes: n1 is unreachable, and no kubelet ends it"
    assert pod_text(health) == f"web/p on n1 {is_deleted} {SINCE}, {never}"
    (advice,) = pod_advice(health)
    assert "kubectl delete node n1" in advice
    assert "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in advice
    off = nodes("Unknown") | {"spec": {"taints": [{"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}]}}
    health = pods_health(load_snapshot([off, pod(deleted=True)]))["web/p"]
    collected = f"web/p on n1 {is_deleted} {SINCE}, node n1 is out of service: the garbage collector removes it"
    assert (pod_text(health), [*pod_advice(health)]) == (collected, [])


def test_a_static_pod_is_its_kubelets() -> None:
    static = pod(waiting("ImagePullBackOff"), metadata={"annotations": {"kubernetes.io/config.mirror": "x"}})
    (advice,) = pod_advice(pods_health(load_snapshot([nodes(), static]))["web/p"])
    assert advice.startswith("It is a static pod: the kubelet of n1 makes and ends it")


@pytest.mark.parametrize(
    ("message", "kept"), [(LOW, "The node was low on resource: memory"), ("the password is x", "")]
)
def test_messages_are_not_kept_but_for_the_resource_that_was_short(message: str, kept: str) -> None:
    (one,) = load_snapshot([pod(phase="Failed", reason="Evicted", message=message)]).pods
    assert one.status.message == kept


def test_the_last_moment_of_the_calendar_is_told_as_it_is() -> None:
    assert clock_text("9999-12-31T23:59:59.999999Z") == "9999-12-31 23:59 UTC"


@pytest.mark.parametrize("kind", ["disk", "old", "shared", "files", "loose"])
def test_a_pod_waits_for_a_volume_that_is_attached_to_one_node_at_a_time(kind: str) -> None:
    snapshot = load_snapshot(ATTACHED)
    first = next(one for one in snapshot.pods if one.metadata.name == f"{kind}-h1-a")
    metadata = replace(first.metadata, name="second", uid="second")
    status = replace(first.status, phase="Pending", conditions=())
    second = replace(first, metadata=metadata, spec=replace(first.spec, node_name="n2"), status=status)
    held = pods_health(replace(snapshot, pods=(*snapshot.pods, second)))["default/second"].held_volume
    claim = HeldVolume(claim=f"default/{kind}", pod=f"default/{kind}-h1-a", node="n1")
    assert held == (claim if kind in ("disk", "old") else UNSET)
