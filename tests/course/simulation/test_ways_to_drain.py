import pytest

import kplan
from kplan.changes.values import DrainOptions
from kplan.course.answers.drains import NODE_NOT_REACHED
from kplan.documents.change import StepEvent
from tests.objects import Object, budget, deployment, head, node, planner_of, running

NODES = ["n0", "n1", "n2"]


def planner(*objects: Object, cpu: str = "8") -> kplan.Planner:
    found = [*(node(name, cpu) for name in NODES), *running(deployment("web", 3), NODES), *objects]
    return planner_of(found)


def single(name: str, **spec: object) -> Object:
    container = {"name": "c", "image": "app:1"}
    return head("Pod", name=name, namespace="default", uid=name, labels={"app": name}) | {
        "spec": {"nodeName": "n0", "schedulerName": "default-scheduler", "containers": [container], **spec},
        "status": {"phase": "Running"},
    }


def test_a_pod_of_nobody_stays_unless_it_is_forced() -> None:
    alone = planner(single("tool"))
    assert alone.drain(["n0"]).blocked == {
        "default/tool": "cannot delete Pods that declare no controller (use --force to override)"
    }
    forced = alone.drain(["n0"], options=DrainOptions(force=True))
    assert forced.blocked == {}
    assert "tool" not in [each.name for each in forced.after]


def test_two_budgets_on_a_pod_are_an_error() -> None:
    second = budget("web", maxUnavailable=1)
    second["metadata"]["name"] = "other"
    change = planner(budget("web", maxUnavailable=1), second).drain(["n0"])
    assert "more than one PodDisruptionBudget" in change.blocked["default/web-h1-000"]


@pytest.mark.parametrize("ways", [{"rolling": True}, {"replace": True}])
def test_nodes_are_taken_into_use_again_one_after_the_other(ways: dict[str, bool]) -> None:
    """Two nodes hold all pods, and none would if those that were emptied stayed away."""
    change = planner(budget("web", maxUnavailable=1), cpu="1500m").drain(NODES, **ways)
    assert change.blocked == {}
    assert len(change.after) == 3
    assert all(each.node for each in change.after)
    assert [step.node for step in change.steps if step.event is StepEvent.EVICTED][:3] == ["n0", "n1", "n1"]


def test_an_unknown_node_is_named() -> None:
    with pytest.raises(kplan.NotFoundError, match="n9"):
        planner().drain(["n9"])


def test_each_node_alone_from_the_same_start() -> None:
    report = planner(single("tool")).drain_in_turn()
    assert [(each.name, each.may_go) for each in report.drains] == [("n0", False), ("n1", True), ("n2", True)]
    assert report.verdict.failed
    assert [each.placed for each in report.drains] == [0, 1, 1]


def test_nodes_whose_turn_does_not_come_are_told() -> None:
    strict = planner(budget("web", minAvailable=3))
    change = strict.drain(NODES, rolling=True)
    assert [each.object for each in change.warnings if each.code == "NodeNotReached"] == ["Node/n1", "Node/n2"]
    assert {each.node for each in change.after if each.name.startswith("web")} == set(NODES)
    free = planner().drain(NODES, rolling=True)
    assert not [each for each in free.warnings if each.code == "NodeNotReached"]


def test_kubectl_goes_on_past_a_node_that_it_refuses_and_past_a_pod_with_two_budgets() -> None:
    refused = planner(single("tool")).drain(["n0", "n1"])
    assert [node.node for node in refused.refused_nodes] == ["n0"]
    assert [step.node for step in refused.steps if step.event is StepEvent.EVICTED] == ["n1"]
    second = budget("web", maxUnavailable=1)
    second["metadata"]["name"] = "other"
    doubled = planner(budget("web", maxUnavailable=1), second, *running(deployment("api", 3), NODES))
    change = doubled.drain(["n0", "n1"])
    assert [*change.blocked] == ["default/web-h1-000", "default/web-h1-001"]
    assert {each.object: each.message for each in change.warnings if each.code == NODE_NOT_REACHED} == {}


def test_what_helps_is_tried_for_the_pods_of_three_budgets() -> None:
    guarded = [(running(deployment(name, 1), ["n0"]), budget(name, maxUnavailable=0)) for name in "abcd"]
    report = planner(*(obj for workload, one in guarded for obj in (*workload, one))).drain(["n0"]).report()
    assert [bool(obstacle.remedies) for obstacle in report.obstacles] == [True] * 3 + [False]
