import dataclasses

import pytest

import kplan
from kplan.documents.change import StepEvent
from kplan.effects.drains import lose
from kplan.simulation.draining import DrainOptions
from kplan.simulation.start import start
from tests.objects import head
from tests.simulation.clusters import Object, budget, daemon_set, deployment, node, running

NODES = ["n0", "n1", "n2"]


def planner(*objects: Object, cpu: str = "8") -> kplan.Planner:
    found = [*(node(name, cpu) for name in NODES), *running(deployment("web", 3), NODES), *objects]
    return kplan.Planner(kplan.load_snapshot(found))


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


def test_a_mirror_pod_stays() -> None:
    mirror = single("kube-proxy")
    mirror["metadata"]["annotations"] = {"kubernetes.io/config.mirror": "x"}
    change = planner(mirror).drain(["n0"])

    assert change.blocked == {}
    assert [each.node for each in change.after if each.name == "kube-proxy"] == ["n0"]


def test_a_budget_that_allows_nothing_is_passed_by_deletion_only() -> None:
    strict = planner(budget("web", minAvailable=3))

    change = strict.drain(["n0"])
    assert list(change.blocked) == ["default/web-h1-000"]
    assert change.obstacles[0].budgets[0].name == "default/web"
    assert strict.drain(["n0"], options=DrainOptions(disable_eviction=True)).blocked == {}


def test_two_budgets_on_a_pod_are_an_error() -> None:
    second = budget("web", maxUnavailable=1)
    second["metadata"]["name"] = "other"
    change = planner(budget("web", maxUnavailable=1), second).drain(["n0"])

    assert "more than one PodDisruptionBudget" in change.blocked["default/web-h1-000"]


def test_a_lost_node_asks_no_budget_and_takes_no_pod_again() -> None:
    change = planner(budget("web", minAvailable=3)).drain(["n0"], lost=True)

    assert change.blocked == {}
    assert {each.node for each in change.after} <= {"n1", "n2"}
    assert len(change.after) == 3


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


@pytest.mark.parametrize("gone", [["n0"], ["n2", "n0"]])
def test_nodes_are_lost_as_if_they_had_never_been_looked_at(gone: list[str]) -> None:
    """What is known of the cluster is taken over, and everything goes as it does when it is looked at anew."""
    daemons = daemon_set("agent")
    leaving = {**single("leaving")}
    leaving["metadata"] = {**leaving["metadata"], "deletionTimestamp": "2026-01-01T00:00:00Z"}
    waiting = deployment("big", 3)
    waiting["spec"]["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "5"}}
    base = planner(daemons, leaving, single("alone"), waiting, budget("web", minAvailable=2)).changed(settle=True)

    shared = base.drain(gone, lost=True)

    left = tuple(each for each in base.objects.nodes if each.metadata.name not in gone)
    other = base.with_snapshot(dataclasses.replace(base.objects, nodes=left))
    anew = lose(start(other.session_for(other.objects), other.objects), other, gone)
    assert (list(shared.steps), shared.after) == (list(anew.steps), anew.after)
    assert any(step.event is StepEvent.CREATED for step in shared.steps)


def test_nodes_whose_turn_does_not_come_are_told() -> None:
    strict = planner(budget("web", minAvailable=3))
    change = strict.drain(NODES, rolling=True)

    assert [each.object for each in change.warnings if each.code == "NodeNotReached"] == ["Node/n1", "Node/n2"]
    assert {each.node for each in change.after if each.name.startswith("web")} == set(NODES)
    free = planner().drain(NODES, rolling=True)
    assert not [each for each in free.warnings if each.code == "NodeNotReached"]
