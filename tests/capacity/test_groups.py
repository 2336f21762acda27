"""Whole pod groups are counted, not their pods."""

from typing import Any

import pytest

from kplan.documents.base import UNSET
from kplan.documents.capacity import CapacityReport, GroupFit
from kplan.errors import UsageError
from kplan.questions.capacity import Capacity
from tests.objects import deployment, head, node, pod, quota
from tests.plugins.test_gang_scheduling import group, member, planner


def job(name: str, n: int, cpu: str, of: str) -> dict[str, Any]:
    spec = {**pod("x", cpu=cpu, schedulingGroup={"podGroupName": of})["spec"], "restartPolicy": "Never"}
    return head("Job", name=name, namespace="default") | {
        "spec": {"parallelism": n, "completions": n, "template": {"spec": spec}}
    }


def counted(cluster: list[dict[str, Any]], *manifests: dict[str, Any], **asked: Any) -> CapacityReport:
    gates = {"TopologyAwareWorkloadScheduling": True, "WorkloadAwarePreemption": asked.pop("whole", False)}
    report = planner(*cluster, **gates).ask(Capacity(manifests=manifests, **asked))
    assert isinstance(report, CapacityReport)
    return report


def racks() -> list[dict[str, Any]]:
    nodes = [node(name, cpu="4") for name in ("a1", "a2", "b1", "b2")]
    for one in nodes:
        one["metadata"]["labels"]["rack"] = one["metadata"]["name"][0]
    return nodes


def test_groups_fit_only_as_a_whole() -> None:
    report = counted(racks(), group("gang", 3), job("train", 3, "2", "gang"))

    (fit,) = report.templates
    assert (report.summary.fits, fit.name, fit.requests) == (2, "default/gang", {"cpu": "6"})
    assert fit.group == GroupFit(pods=3, min_count=3)
    assert sum(n for fits in report.nodes.values() for n in fits.values()) == 6
    assert report.stop
    assert report.stop.group
    assert (report.stop.group.fit, len(report.stop.group.members), report.stop.group.state) == (2, 3, "Waits")
    assert {remedy.__struct_config__.tag for remedy in report.stop.group.remedies} >= {"add-nodes", "lower-min-count"}
    assert report.stop.placement.remedies == ()
    assert not [warning for warning in report.warnings if warning.code == "PodGroupApart"]


def test_groups_of_one_rack_leave_room_in_each() -> None:
    gang = group("gang", 3, schedulingConstraints={"topology": [{"key": "rack"}]})
    report = counted(racks(), gang, job("train", 3, "2", "gang"))
    assert report.summary.fits == 2
    assert report.templates[0].group
    assert report.templates[0].group.topology_key == "rack"
    assert sorted(report.templates[0].group.domains) == ["a", "b"]


def test_groups_and_replicas_are_counted_in_turn() -> None:
    web = deployment("web", 9, cpu="1")
    report = counted(racks(), group("gang", 3), job("train", 3, "2", "gang"), web, mix=(1, 2))

    assert [(fit.name, fit.share, fit.fits) for fit in report.templates] == [
        ("default/gang", 1, 2),
        ("default/web", 2, 4),
    ]
    assert [fit.group is UNSET for fit in report.templates] == [False, True]
    assert report.sets == 2


def test_as_many_nodes_are_added_as_the_wanted_groups_need() -> None:
    report = counted(racks(), group("gang", 8), job("train", 8, "4", "gang"), replicas=2)
    assert (report.summary.fits, report.summary.wanted) == (0, 2)
    assert [(addition.nodes, addition.shapes[0].like) for addition in report.to_add] == [(12, "a1"), (12, "b1")]
    assert report.verdict.because == ("0 of 2 groups fit",)


def test_groups_evict_where_they_may() -> None:
    low = [pod(f"low-{name}", cpu="4", priority=-1, nodeName=name) for name in ("a1", "a2", "b1", "b2")]
    high = head("PriorityClass", name="high") | {"value": 10}
    asked = (high, group("gang", 3, priorityClassName="high"), job("train", 3, "2", "gang"))
    assert counted([*racks(), *low], *asked).summary.fits == 0
    report = counted([*racks(), *low], *asked, preempt=True, whole=True)
    assert (report.summary.fits, len(report.victims)) == (2, 3)


def test_a_group_that_runs_already_is_counted_beside_its_pods() -> None:
    running = [member(f"train-{n}", "2", nodeName="a1") for n in range(2)]
    report = counted([*racks(), *running, group("gang", 2)], group("gang", 2), job("train", 2, "2", "gang"))
    assert report.summary.fits == 3
    assert report.stop
    assert report.stop.group
    assert report.stop.group.name == "gang-copy-3"


def test_quotas_refuse_a_group_as_a_whole() -> None:
    report = counted([*racks(), quota("q", pods="5")], group("gang", 3), job("train", 3, "1", "gang"))
    assert report.summary.fits == 1
    assert report.stop
    assert "exceeded quota: q" in report.stop.placement.message


def test_what_is_not_counted_in_groups_is_refused() -> None:
    with pytest.raises(UsageError, match="PodGroup default/none, which does not exist"):
        counted(racks(), job("train", 3, "2", "none"))
