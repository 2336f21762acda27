"""Remedies on top of what an autoscaler does by itself, replayed command by command on a copy of the cluster."""

from typing import Any

import pytest

import kplan
from kplan.changes.limits import GroupSize, Pool
from kplan.changes.remedy import AddNodes as AddNodesRemedy
from kplan.changes.remedy import WidenPool
from kplan.changes.values import AddNodes, Patch
from kplan.documents import remedies as d
from kplan.questions.remedy import Remedy
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.autoscaling.karpenter.test_autoscaler import TYPES, machine, node_pool
from tests.autoscaling.karpenter.test_autoscaler import pod as waiting_pod
from tests.course.test_edits import NOW
from tests.objects import Object, planner_of
from tests.questions.remedy.replay import replayed
from tests.questions.remedy.test_report import deployment, node
from tests.schemas import assert_keeps_to_its_schema

ZONE = "topology.kubernetes.io/zone"


def with_karpenter(*objects: Object | list[Object]) -> kplan.Planner:
    karpenter = kplan.Karpenter(instance_types=TYPES)
    return planner_of(*objects, autoscaler=karpenter, now=NOW)


def with_groups(groups: list[Object], *objects: Object | list[Object]) -> kplan.Planner:
    autoscaler = kplan.ClusterAutoscaler(node_groups=groups)
    return planner_of(*objects, autoscaler=autoscaler, now=NOW)


def remedy(planner: kplan.Planner, *only: Any) -> d.RemedyReport:
    report = planner.ask(Remedy(only=only))
    assert replayed(planner, report.remedy) == report.remedy.of - report.remedy.runs
    assert_keeps_to_its_schema(report.to_dict())
    return report


def test_new_nodes_fail_where_they_are_to_and_are_no_pods_that_wait() -> None:
    report = with_karpenter(node_pool(), waiting_pod("one", "1500m")).ask(Remedy(), fail_on=("new-nodes",))
    text = render(report, "table", ReportOptions())
    assert report.verdict.because == ("general-new-1: NewNode",)
    assert "Stays pending" not in text
    assert 'name="general-new-1"' in render(report, "junit", ReportOptions())


def limited(**limits: str) -> Object:
    pool = node_pool()
    pool["spec"]["limits"] = limits
    return pool


def requiring(key: str, *values: str, operator: str = "In") -> Object:
    pool = node_pool()
    wanted = {"key": key, "operator": operator, "values": list(values)}
    pool["spec"]["template"]["spec"]["requirements"] = [wanted]
    return pool


def test_explain_names_the_same_change_of_a_pool_and_no_node_by_hand() -> None:
    planner = with_karpenter(limited(cpu="5"), machine("n1"), waiting_pod("big", "7"), waiting_pod("old", "3", "n1"))
    (placement,) = planner.explain(["default/big"]).placements
    (action,) = remedy(planner).remedy.actions
    first, *others = placement.remedies
    assert isinstance(first, WidenPool)
    assert first.change.text == action.words
    assert not any(isinstance(other, AddNodesRemedy) for other in others)


def test_what_is_misspelt_and_not_tolerated_too_comes_with_no_node_by_hand() -> None:
    tainted = node("a", disk="ssd") | {"spec": {"taints": [{"key": "team", "value": "ml", "effect": "NoSchedule"}]}}
    web = deployment("web", "1", ("",), nodeSelector={"disk": "sdd"})
    (placement,) = with_karpenter(limited(cpu="0"), tainted, web).explain(["default/web-h1-000"]).placements
    assert [type(one).__name__ for one in placement.remedies or ()] == ["Together"]


def test_the_limit_of_a_pool_is_raised_as_far_as_it_has_to_be() -> None:
    planner = with_karpenter(limited(cpu="5"), machine("n1"), waiting_pod("big", "7"), waiting_pod("old", "3", "n1"))
    report = remedy(planner)

    (action,) = report.remedy.actions
    assert isinstance(action, Pool)
    assert [(limit.resource, limit.old, limit.to) for limit in action.limits] == [("cpu", "5", "12")]
    assert report.remedy.price == 0.16
    assert [new.instance_type for new in report.remedy.nodes.added] == ["m.2xlarge"]
    assert "Costs 0.16 an hour (116.80 a month) more." in render(report, "table", ReportOptions())


TYPE, BIG = "node.kubernetes.io/instance-type", waiting_pod("big", "3")


@pytest.mark.parametrize(
    ("pool", "pod", "admitted"),
    [
        (requiring(ZONE, "a"), waiting_pod("bound", "1", nodeSelector={ZONE: "b"}), (ZONE, "In", ("b",))),
        (requiring(TYPE, "m.large"), BIG, (TYPE, "In", ("m.xlarge",))),
        (requiring(TYPE, "m.xlarge", "m.2xlarge", "other", operator="NotIn"), BIG, (TYPE, "NotIn", ("m.xlarge",))),
    ],
    ids=["a zone", "the cheapest type", "what was excluded"],
)
def test_a_pool_admits_what_a_pod_needs(pool: Object, pod: Object, admitted: tuple[str, str, tuple[str, ...]]) -> None:
    report = remedy(with_karpenter(pool, pod))
    (action,) = report.remedy.actions
    assert isinstance(action, Pool)
    assert action.admits is not None
    assert (action.admits.key, action.admits.operator, action.admits.values) == admitted
    assert report.remedy.is_least


def test_two_pods_with_different_causes_get_an_action_each() -> None:
    pool = requiring(ZONE, "a")
    pool["spec"]["limits"] = {"cpu": "2"}
    bound = waiting_pod("bound", "1500m", nodeSelector={ZONE: "b"})
    report = remedy(with_karpenter(pool, bound, waiting_pod("first", "1500m")), "pools")
    assert [isinstance(action, Pool) and bool(action.limits) for action in report.remedy.actions].count(True) == 1
    assert report.remedy.runs == report.remedy.of == 2


def test_the_taint_of_a_pool_without_nodes_is_tolerated() -> None:
    pool = node_pool()
    pool["spec"]["template"]["spec"]["taints"] = [{"key": "dedicated", "value": "ml", "effect": "NoSchedule"}]
    report = remedy(with_karpenter(pool, deployment("train", "1", ("",))))

    (action,) = report.remedy.actions
    assert isinstance(action, Patch)
    assert (action.object, report.remedy.kinds) == ("Deployment/default/train", ("tolerations",))
    assert '"value":"ml"' in action.patch
    assert [new.pool for new in report.remedy.nodes.added] == ["general"]


def test_a_limit_and_a_requirement_that_help_only_together_are_both_changed_as_little_as_possible() -> None:
    pool = requiring(ZONE, "a")
    pool["spec"]["limits"] = {"cpu": "4"}
    bound = deployment("web", "1", ("",), nodeSelector={ZONE: "b"})
    report = remedy(with_karpenter(pool, machine("n1"), bound), "pools")

    admitted, raised = report.remedy.actions
    assert isinstance(admitted, Pool)
    assert isinstance(raised, Pool)
    assert [(limit.old, limit.to) for limit in raised.limits] == [("4", "6")]


def test_a_group_of_cluster_api_grows_by_its_annotation() -> None:
    change = Pool("MachineDeployment/infra/workers", size=GroupSize(1, 3, "clusterapi"))
    annotation = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size=3"
    target = "machinedeployment.cluster.x-k8s.io workers -n infra"
    assert change.steps == (f"kubectl annotate {target} {annotation} --overwrite",)


def test_a_group_that_is_only_named_like_one_of_cluster_api_is_no_object() -> None:
    groups: list[Object] = [{"name": "MachineDeployment/workers", "maxSize": 1, "nodes": ["n1"]}]
    planner = with_groups(groups, node("n1", "4"), deployment("web", "3", ("n1", "")))
    report = remedy(planner, "pools")
    (action,) = report.remedy.actions
    assert action.commands == ("# set the maximum size of node group MachineDeployment/workers to 2 (now 1)",)
    (placement,) = planner.explain(["default/web-h1-001"]).placements  # whose pod tells nothing of the scheduler yet
    assert [type(remedy) for remedy in placement.remedies][:1] == [WidenPool]


def test_a_group_grows_as_far_as_it_has_to_and_the_cheaper_one_is_taken() -> None:
    groups: list[Object] = [
        {"name": "large", "maxSize": 1, "nodes": ["large-1"], "price": 3},
        {"name": "small", "maxSize": 1, "nodes": ["small-1"], "price": 1},
    ]
    full = [deployment("large", "8", ("large-1",)), deployment("small", "4", ("small-1",))]
    planner = with_groups(groups, node("large-1", "8"), node("small-1", "4"), *full, deployment("web", "3", ("", "")))
    report = remedy(planner)

    (action,) = report.remedy.actions
    assert isinstance(action, Pool)
    assert (action.name, action.size) == ("small", GroupSize(1, 3))
    assert report.remedy.price == 2
    assert not any(isinstance(act, AddNodes) for other in report.alternatives for act in other.actions)
