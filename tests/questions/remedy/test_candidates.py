"""What the pods of a group need together is found, which no single action brings about."""

from typing import Any

import kplan
from kplan.changes.values import AddNodes, Patch, Uncordon
from kplan.documents.base import UNSET
from kplan.documents.remedies import RemedyReport
from kplan.questions.remedy import Remedy
from kplan.questions.remedy.candidates import object_of
from tests.objects import affinity, deployment, node, planner_of, pod, running
from tests.plugins.test_gang_scheduling import group, member, planner


def remedy(*objects: dict[str, Any], only: tuple[Any, ...] = ()) -> RemedyReport:
    report = planner(*objects).ask(Remedy(only=only))
    assert isinstance(report, RemedyReport)
    assert not [warning for warning in report.warnings if warning.code == "PodGroupApart"]
    return report


def test_as_many_nodes_are_added_as_a_gang_lacks() -> None:
    pods = [member(name, "2") for name in ("x", "y", "z")]
    report = remedy(node("a", cpu="2"), group("gang", 3), *pods, only=("nodes",))
    (action,) = report.remedy.actions
    assert isinstance(action, AddNodes)
    assert (action.nodes, report.remedy.runs, report.remedy.of) == (2, 3, 3)


def test_no_more_nodes_are_added_than_let_all_pods_run_though_the_first_takes_but_one() -> None:
    large, *small = (pod(name, cpu=cpu) for name, cpu in (("large", "3500m"), *((f"small-{i}", "1") for i in range(4))))
    report = planner_of(node("a"), pod("full", "a", cpu="4"), large, *small).ask(Remedy(only=("nodes",)))
    assert [action.nodes for action in report.remedy.actions if isinstance(action, AddNodes)] == [2]


def test_each_of_several_new_nodes_is_in_a_further_domain_of_its_own() -> None:
    zone = "topology.kubernetes.io/zone"
    web = deployment("web", 3)
    web["spec"]["template"]["spec"] |= affinity("podAntiAffinity", zone, app="web")
    report = planner_of(node("a", labels={zone: "x"}), *running(web, ("a", "", ""), pods=3)).ask(Remedy())
    (action,) = report.remedy.actions
    assert (action.text, report.remedy.runs) == (f"add 2 nodes like a, each in a further domain of {zone}", 2)


def test_a_workload_is_found_by_its_kind_and_name() -> None:
    snapshot = kplan.load_snapshot([deployment("a", 1), deployment("b", 1)])
    assert object_of(snapshot, "Deployment/default/b").metadata.name == "b"
    assert object_of(snapshot, "Deployment/default/c") is object_of(snapshot, "CronJob/default/b") is None


def test_all_nodes_that_a_gang_lacks_are_uncordoned() -> None:
    cordoned = [node(name, cpu="2") | {"spec": {"unschedulable": True}} for name in ("b", "c")]
    pods = [member(name, "2") for name in ("x", "y", "z")]
    report = remedy(node("a", cpu="2"), *cordoned, group("gang", 3), *pods)
    assert [action.nodes for action in report.remedy.actions if isinstance(action, Uncordon)] == [("b",), ("c",)]
    assert report.remedy.runs == 3


def test_only_the_member_that_is_too_big_is_changed() -> None:
    nodes = [node(name, cpu="2") for name in ("a", "b")]
    report = remedy(*nodes, group("gang", 2), member("x", "1"), member("big", "4"), only=("requests",))
    (action,) = report.remedy.actions
    assert isinstance(action, Patch)
    assert action.object == "Pod/default/big"
    assert action.remedy.members is UNSET
    assert report.remedy.runs == 2
