"""Runs tell how often a pod group runs as a whole, and where."""

from typing import Any

from kplan.documents.odds import OddsReport
from kplan.questions.many_runs import ManyRuns
from kplan.questions.place import Place
from kplan.questions.plan import Plan
from tests.objects import node, pod
from tests.plugins.test_gang_scheduling import group, member, planner


def drawn(question: Place | Plan, *objects: dict[str, Any], runs: int = 200, **gates: bool) -> OddsReport:
    return planner(*objects, **gates).ask(ManyRuns(question=question, runs=runs, seed=3))


def test_a_gang_runs_as_a_whole_in_the_runs_that_leave_it_room() -> None:
    early = pod("early", cpu="1", priority=100)
    picky = [member(name, "2", nodeSelector={"kubernetes.io/hostname": name[0]}) for name in ("a-0", "b-0")]
    nodes = [node(name, cpu="2") for name in ("a", "b", "c")]
    report = drawn(Plan(), *nodes, group("gang", 2), early, *picky)
    (gang,) = report.groups or ()
    assert (gang.group, gang.pods, gang.partial.runs) == ("default/gang", 2, 0)
    assert gang.whole.low < 1 / 3 < gang.whole.high
    assert [text.partition(":")[0] for text in report.verdict.because] == ["PodGroup/default/gang"]


def test_equal_racks_are_drawn_with_equal_chances() -> None:
    nodes = [node(name, cpu="2") for name in ("a1", "b1")]
    for one in nodes:
        one["metadata"]["labels"]["rack"] = one["metadata"]["name"][0]
    gang = group("gang", 2, schedulingConstraints={"topology": [{"key": "rack"}]})
    pods = [member(name) for name in ("x", "y")]
    question = Place(pods=("default/x", "default/y"))
    report = drawn(question, *nodes, gang, *pods, TopologyAwareWorkloadScheduling=True)
    (told,) = report.groups or ()
    assert told.whole.share == 1
    assert set(told.domains) == {"a", "b"}
    assert all(share.low < 0.5 < share.high for share in told.domains.values())


def test_pods_without_groups_have_none_in_the_report() -> None:
    assert not drawn(Plan(), node("a"), pod("x", cpu="1"), runs=2).groups
