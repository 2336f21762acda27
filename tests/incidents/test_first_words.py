"""The first sentence says the thing itself: the name, the number and the reason that a person on call needs."""

from typing import Any

import pytest
from msgspec.structs import replace

import kplan
from kplan.changes.values import DrainOptions
from kplan.documents.base import with_sentence
from kplan.questions import Checks, Drain, Explain, InTurn, Plan, Preempt, Remedy
from kplan.questions.plan.effects_view import obstacle_text
from tests.objects import budget, deployment, head, node, planner_of, pod, running, stateful_set

SMALL, LARGE = node("small", "2"), node("large", "8")
OUT_OF_MEMORY = {"exitCode": 137, "reason": "OOMKilled"}

REPLICA_SET = head("ReplicaSet", name="big", namespace="default", uid="big") | {"spec": {"replicas": 1}}


def with_status(item: dict[str, Any], ready: str, **status: Any) -> dict[str, Any]:
    """Return a running pod with a condition Ready and the status of its container."""
    container = {"name": "c", "image": "app", "imageID": "", "ready": ready == "True", "restartCount": 0, **status}
    conditions = [{"type": "Ready", "status": ready}]
    return {**item, "status": {"phase": "Running", "conditions": conditions, "containerStatuses": [container]}}


CRASHING = {"state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": {"terminated": OUT_OF_MEMORY}}
RESTARTED = {"state": {"running": {}}, "restartCount": 9, "lastState": {"terminated": OUT_OF_MEMORY}}


def web(status: str, **container: Any) -> list[dict[str, Any]]:
    """Return a deployment of two, the first pod of which has a status."""
    first, *others = running(deployment("web", 2), ["small", "large"])[2:]
    kept = [with_status(other, "True", state={"running": {}}) for other in others]
    return [*running(deployment("web", 2), ["small", "large"])[:2], with_status(first, status, **container), *kept]


DISRUPTED = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
STARTING = [{"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}]
DISK = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "10Gi"}}}
WEB = pod("x", "small", labels={"app": "web"})
FORCE = DrainOptions(force=True)
BUSY = pod("busy", "large", cpu="7")
HELD = pod("x", "large", leaving=True)
HELD["metadata"]["finalizers"] = ["example.com/hold"]
VIP = [head("PriorityClass", name="vip") | {"value": 9}, pod("vip", cpu="3", priority=9, priorityClassName="vip")]
TOO = pod("vip-too", cpu="6", priority=9, priorityClassName="vip")


@pytest.mark.parametrize(
    ("objects", "question", "begins"),
    [
        pytest.param([SMALL, REPLICA_SET, pod("big-0", cpu="3", owner="ReplicaSet/big")], Explain(("rs/big",)),
                     "default/big-0 fits nowhere: no node is large enough, even empty: it requests 3 cpu",
                     id="a pod of one replica is told with its reason"),
        pytest.param([SMALL, stateful_set("zk", 3), pod("zk-0", cpu="3", owner="StatefulSet/zk")], Explain(("sts/zk",)),
                     ("default/zk: 2 of 3 replicas are missing and wait for zk-0, which has no node (OrderedReady): "
                      "no node is large enough, even empty: it requests 3 cpu"),
                     id="a pod that comes first is told with why it has no node, once"),
        pytest.param([SMALL, pod("x", schedulerName="defualt-scheduler")], Explain(("default/x",)),
                     ("default/x is not for kube-scheduler: it waits for scheduler defualt-scheduler, which no "
                      "profile here has (did you mean default-scheduler?)"),
                     id="a misspelt scheduler is told with the right one"),
        pytest.param([SMALL, node("leaving", "8", taints=DISRUPTED), pod("x", cpu="3")], Explain(("default/x",)),
                     ("default/x fits nowhere: neither node fits: 1 lacks cpu (requests 3, it has 2 even when "
                      "empty), 1 is being removed by Karpenter"), id="a node that Karpenter removes is told as that"),
        pytest.param([SMALL, LARGE, *web("False", **CRASHING)], Explain(("deploy/web",)),
                     "default/web: 1 of 2 pods is not ready, web-h1-000: CrashLoopBackOff (exit code 137 OOMKilled)",
                     id="a pod that crashes"),
        pytest.param([SMALL, LARGE, *web("False", state={"waiting": {"reason": "ImagePullBackOff"}})],
                     Explain(("deploy/web",)),
                     "default/web: 1 of 2 pods is not ready, web-h1-000: ImagePullBackOff, container c, image app:1",
                     id="an image that cannot be pulled is named"),
        pytest.param([SMALL, LARGE, *web("True", **RESTARTED)], Explain(("deploy/web",)),
                     "default/web: 2 of 2 pods are ready; web-h1-000 keeps restarting (9 restarts, last exit code 137",
                     id="a pod that is ready between restarts"),
        pytest.param([SMALL, pod("x", nodeSelector={"kubernetes.io/hostname": "gone"})], Remedy(only=("moves",)),
                     "default/x stays pending: it requires a node with kubernetes.io/hostname=gone",
                     id="what nothing helps begins with the pod and its reason"),
        pytest.param([SMALL, LARGE, BUSY, pod("x", cpu="3")], Remedy(only=("nodes",)),
                     "Add 1 node like large; then default/x runs", id="a remedy begins with what to do"),
        pytest.param([LARGE, BUSY, *VIP], Remedy(pods=("default/vip",)),
                     "1 of 1 pod runs: default/vip gets in by evicting default/busy",
                     id="a pod that gets in by itself is told with whom it evicts"),
        pytest.param([LARGE, BUSY, node("wide", "8"), pod("full", "wide", cpu="7"), *VIP, TOO], Remedy(),
                     ("2 of 2 pods run: default/vip gets in by evicting default/busy, and 1 more pod by evicting "
                      "others"), id="of several pods that get in by themselves the first is told"),
        pytest.param([LARGE, *running(deployment("web", 1, cpu="7"), ["large"]), *VIP], Remedy(only=("moves",)),
                     ("default/web-h1-000 stays pending: the only node, large, lacks cpu (requests 7, 5 free); no "
                      "action helps; default/vip gets in by evicting default/web-h1-000"),
                     id="a pod that is evicted keeps its name"),
        pytest.param([LARGE, BUSY, *VIP], Preempt(pods=("default/vip",)), "default/vip evicts default/busy on large",
                     id="a preemption begins with who evicts whom"),
        pytest.param([SMALL, LARGE, *web("False", **CRASHING), budget("web", minAvailable=1)], Drain(nodes=("large",)),
                     ("default/web blocks large: its budget default/web allows no eviction (requires 1 healthy pod, "
                      "has 1: default/web-h1-000 is not ready)"), id="a budget is told with the pod that it waits for"),
        pytest.param([SMALL, LARGE, *running(deployment("web", 2), ["large"]),
                      pod("web-x", cpu="1", owner="ReplicaSet/web-h1")], Drain(nodes=("large",)),
                     "large: 2 of 2 pods placed", id="a pod that leaves counts although one that waited gets a place"),
        pytest.param([SMALL, LARGE, HELD], Drain(nodes=("large",)),
                     "default/x never leaves large: finalizer example.com/hold holds it",
                     id="what holds a pod is not its kubelet"),
        pytest.param([SMALL, LARGE, *running(deployment("web", 2), ["small"]), budget("web", maxUnavailable=0)],
                     InTurn(Drain(nodes=())),
                     ("1 of 2 nodes cannot be drained, even alone (1 cannot be emptied); small first: default/web "
                      "blocks it, and 1 other pod too: budget default/web requires 2 healthy pods and has 2"),
                     id="drains in turn begin with the numbers of check"),
        pytest.param([SMALL, LARGE, *running(deployment("web", 2), ["small"]), budget("web", maxUnavailable=0)],
                     Checks(),
                     '"every node drains alone" does not hold for small (1 of 2 nodes): default/web blocks it',
                     id="a check says what drain says"),
        pytest.param([SMALL, WEB, budget("web", maxUnavailable=1)], Drain(("small",), options=FORCE),
                     ("default/x blocks small: budget default/web selects only pods without a controller, such as "
                      "default/x, which have no scale"), id="a budget of pods without a controller"),
        pytest.param([SMALL, LARGE, pod("x", cpu="3", schedulerName="volcano", owner="Job/x")], Plan(),
                     "default/x stays pending: volcano decides where it runs", id="another scheduler"),
    ],
)  # fmt: skip
def test_the_first_sentence_says_the_thing_itself(objects: list[Any], question: Any, begins: str) -> None:
    document = planner_of(objects).ask(question)
    assert with_sentence(document).sentence.startswith(begins)


def test_a_pod_without_a_node_is_not_to_be_mended() -> None:
    waiting = pod("web-x", cpu="9", owner="ReplicaSet/web-h1", labels={"app": "web"})
    objects = [SMALL, LARGE, *running(deployment("web", 2), ["large"], 1), waiting, budget("web", minAvailable=1)]
    (obstacle,) = planner_of(objects).ask(Drain(nodes=("large",))).obstacles
    assert obstacle.budgets[0].pending == obstacle.budgets[0].unready == ("default/web-x",)
    assert "mend" not in obstacle_text(obstacle)
    unready = replace(obstacle.budgets[0], unready=("default/web-y", "default/web-z"))
    ways = obstacle_text(replace(obstacle, budgets=(unready,)))
    assert ways.startswith("mend default/web-y, which is not ready")
    assert "web-z" not in ways


@pytest.mark.parametrize("taints", [DISRUPTED, STARTING], ids=["being removed", "not set up"])
def test_taints_of_nodes_that_come_or_go_are_never_to_be_tolerated(taints: list[dict[str, str]]) -> None:
    created = {"creationTimestamp": "2026-01-01T00:00:00Z"}
    old = node("old", "8", taints=taints)
    old["metadata"] |= created
    planner = planner_of(SMALL, old, pod("x", cpu="3", created="2026-01-02T00:00:00Z"))
    (placement,) = planner.ask(Explain(("default/x",))).placements
    assert not {remedy.to_dict()["kind"] for remedy in placement.remedies} & {"tolerate-taint", "wait", "uncordon"}
    assert "tolerate" not in str(planner.ask(Remedy()).to_dict())


def test_an_autoscaler_stands_for_its_workload() -> None:
    scaler = head("HorizontalPodAutoscaler", name="scaler", namespace="default") | {
        "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}, "maxReplicas": 4}
    }
    planner = planner_of(LARGE, *running(deployment("web", 2), ["large"]), scaler)
    assert with_sentence(planner.ask(Explain(("hpa/default/scaler",)))).sentence == "default/web: 2 of 2 pods are ready"


@pytest.mark.parametrize(
    ("name", "hint"),
    [("depoy/default/web", "did you mean deploy/default/web?"), ("svc/default/web", "such as deploy/default/web")],
)
def test_a_name_of_no_workload_is_answered_with_what_to_write(name: str, hint: str) -> None:
    with pytest.raises(kplan.UsageError) as refused:
        planner_of(LARGE).ask(Explain((name,)))
    assert hint in refused.value.hint
