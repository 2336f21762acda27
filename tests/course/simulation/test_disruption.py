"""What budgets allow, held against upstream's disruption_test.go and eviction_test.go."""

from typing import Any

import pytest

import kplan
from kplan.course.simulation.controllers.observed import ObservedPod
from kplan.course.simulation.disruption import SEVERAL, VIOLATED, Disruptions, loosened
from kplan.course.simulation.loop import start
from tests.objects import Object, budget, deployment, head, node, planner_of, running, template

NODES = ["n0", "n1"]


def pod(name: str, *, owner: str = "", ready: bool = True, phase: str = "Running", **metadata: Any) -> Object:
    """Return a pod with label app=web; `owner` is KIND/NAME."""
    kind, _, who = owner.partition("/")
    owners = [{"apiVersion": "v1", "kind": kind, "name": who, "uid": f"u-{who}", "controller": True}] if owner else []
    return head(
        "Pod", name=name, namespace="default", uid=name, labels={"app": "web"}, ownerReferences=owners, **metadata
    ) | {
        "spec": {**template("web")["spec"], "nodeName": "n0", "schedulerName": "default-scheduler"},
        "status": {"phase": phase, "conditions": [{"type": "Ready", "status": "True" if ready else "False"}]},
    }


def owner(kind: str, name: str, **spec: Any) -> Object:
    return head(kind, name=name, namespace="default", uid=f"u-{name}") | {"spec": {"template": template("web"), **spec}}


def disruptions(*objects: Object) -> tuple[Disruptions, dict[str, ObservedPod]]:
    base = planner_of(*map(node, NODES), *objects)
    simulation = start(base.session_for(base.objects), base.objects)
    return simulation.disruptions, {each.name: each for each in simulation.pods.values()}


def allowed(*objects: Object) -> int:
    found, _ = disruptions(*objects)
    return found.budgets[0].allowed


OF_A_JOB = [pod("a"), pod("b"), pod("c", owner="Job/j"), owner("Job", "j")]
OF_RC = [pod("a", owner="ReplicationController/rc"), pod("b", owner="ReplicationController/rc")]
OF_NOBODY = [pod("a"), OF_RC[1], owner("ReplicationController", "rc", replicas=1)]
NOT_READY = [pod("a"), pod("b", ready=False), pod("c", deletionTimestamp="2026-01-01T00:00:00Z")]


@pytest.mark.parametrize(
    ("objects", "spec", "n"),
    [
        pytest.param(OF_A_JOB, {"minAvailable": 2}, 1, id="a number that must stay counts pods whoever owns them"),
        pytest.param(OF_A_JOB, {"minAvailable": 3}, 0, id="and all of them may have to stay"),
        pytest.param([*OF_RC, owner("ReplicationController", "rc", replicas=3)], {"maxUnavailable": 1}, 0,
                     id="a number that may be missing counts from what the owner asks for"),
        pytest.param([*OF_RC, owner("ReplicationController", "rc", replicas=3)], {"maxUnavailable": 2}, 1,
                     id="where one is missing, one more may be"),
        pytest.param(running(deployment("web", 4), NODES), {"maxUnavailable": "50%"}, 2,
                     id="replica sets of a deployment share its scale"),
        pytest.param([pod("a"), pod("b")], {"maxUnavailable": 1}, 0, id="pods that nobody owns have no scale"),
        pytest.param(OF_NOBODY, {"minAvailable": "100%"}, 1, id="pods that nobody owns are no share of anything"),
        pytest.param([pod("a")], {}, 0, id="a budget that says nothing allows nothing"),
        pytest.param(NOT_READY, {"minAvailable": 1}, 0, id="pods that are not ready or leave are not healthy"),
    ],
)  # fmt: skip
def test_so_many_pods_may_be_evicted(objects: list[Object], spec: Object, n: int) -> None:
    assert allowed(*objects, budget("web", **spec)) == n


@pytest.mark.parametrize(("share", "n"), [("50%", 2), ("30%", 2), ("60%", 3), ("100%", 4), ("0%", 0)])
def test_a_share_of_several_owners_is_rounded_up(share: str, n: int) -> None:
    wanted = [owner("ReplicationController", name, replicas=2) for name in ("one", "two")]
    pods = [pod(f"{name}-{i}", owner=f"ReplicationController/{name}") for name in ("one", "two") for i in range(2)]
    assert allowed(*pods, *wanted, budget("web", maxUnavailable=share)) == n
    assert allowed(*pods, *wanted, budget("web", minAvailable=share)) == 4 - n


@pytest.mark.parametrize("kind", ["Job", "DaemonSet"])
def test_owners_without_a_scale_fail_the_budget(kind: str) -> None:
    pods = [pod("a", owner=f"{kind}/x"), owner(kind, "x")]
    specs: list[Object] = [{"maxUnavailable": 1}, {"minAvailable": "10%"}, {"minAvailable": 0}]
    assert [allowed(*pods, budget("web", **spec)) for spec in specs] == [0, 0, 1]


def test_of_an_owner_that_is_not_known_here_the_last_count_stands() -> None:
    pods = [pod("a", owner="Rollout/x"), pod("b", owner="Rollout/x")]
    recorded = {"expectedPods": 2}
    failed = {**recorded, "conditions": [{"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed"}]}
    assert allowed(*pods, {**budget("web", maxUnavailable=1), "status": recorded}) == 1
    assert allowed(*pods, {**budget("web", maxUnavailable=1), "status": failed}) == 0
    others = [*OF_RC, owner("ReplicationController", "rc", replicas=2), pod("c", owner="Rollout/x", phase="Succeeded")]
    assert allowed(*others, {**budget("web", maxUnavailable=1), "status": recorded}) == 1
    assert allowed(*others, {**budget("web", maxUnavailable=1), "status": failed}) == 0
    assert allowed(*others, budget("web", minAvailable=1)) == 1
    assert allowed(*pods, budget("web", maxUnavailable=1)) == 0


def test_the_eviction_api_asks_one_budget_and_no_more() -> None:
    found, pods = disruptions(pod("a"), pod("b"), budget("web", minAvailable=1))
    assert found.refusal(pods["a"]) == ""
    found, pods = disruptions(pod("a"), budget("web", minAvailable=1))
    assert found.refusal(pods["a"]) == VIOLATED
    other = budget("web", minAvailable=0)
    other["metadata"]["name"] = "second"
    found, pods = disruptions(pod("a"), pod("b"), budget("web", minAvailable=0), other)
    assert found.refusal(pods["a"]) == SEVERAL


UNHEALTHY = [
    (None, 0, ""),
    (None, 1, ""),
    ("AlwaysAllow", 2, ""),
    ("IfHealthyBudget", 1, ""),
    ("IfHealthyBudget", 2, VIOLATED),
]


@pytest.mark.parametrize(("policy", "minimum", "words"), UNHEALTHY)
def test_pods_that_are_not_ready_go_as_the_policy_says(policy: str | None, minimum: int, words: str) -> None:
    said = {} if policy is None else {"unhealthyPodEvictionPolicy": policy}
    found, pods = disruptions(pod("a"), pod("bad", ready=False), budget("web", minAvailable=minimum, **said))
    assert found.refusal(pods["bad"]) == words


def test_pods_that_have_not_started_are_not_guarded() -> None:
    found, pods = disruptions(pod("a", phase="Pending", ready=False), budget("web", minAvailable=1))
    assert found.refusal(pods["a"]) == ""


@pytest.mark.parametrize(
    ("spec", "pods", "ways"),
    [
        ({"minAvailable": "100%"}, 3, [{"minAvailable": "66%"}, {"maxUnavailable": 1}]),
        ({"minAvailable": "100%"}, 1, [{"maxUnavailable": 1}]),
        ({"maxUnavailable": "0%"}, 7, [{"maxUnavailable": "14%"}, {"maxUnavailable": 1}]),
        ({"maxUnavailable": "0%"}, 150, [{"maxUnavailable": "1%"}, {"maxUnavailable": 1}]),
        ({"maxUnavailable": 0}, 3, [{"maxUnavailable": 1}]),
        ({"minAvailable": 3}, 3, [{"minAvailable": 2}]),
        ({"minAvailable": 1}, 1, [{"maxUnavailable": 1}]),
    ],
)
def test_a_budget_is_loosened_as_it_is_written(spec: Object, pods: int, ways: list[Object]) -> None:
    (held,) = kplan.load_snapshot([budget("web", **spec)]).pod_disruption_budgets
    limits = list(loosened(held.spec, 1, pods))
    fields = [{"minAvailable": one.min_available, "maxUnavailable": one.max_unavailable} for one in limits]
    assert [{name: limit for name, limit in one.items() if limit is not None} for one in fields] == ways
    web = owner("ReplicationController", "web", replicas=pods)
    running_pods = [pod(f"web-{number}", owner="ReplicationController/web") for number in range(pods)]
    assert not allowed(web, *running_pods, budget("web", **spec))
    assert all(allowed(web, *running_pods, budget("web", **one)) for one in ways)
