"""A verdict belongs to the question: neither a clock, nor runs, nor a format changes it, nor what is told."""

import copy
from collections import Counter
from typing import Literal, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec.structs import replace

import kplan
from kplan.course.asking import PLAIN, Showing
from kplan.course.clock import Clock
from kplan.diagnosis.explanation import Shown
from kplan.documents.base import Report
from kplan.documents.plan import PlanReport
from kplan.questions import Drain, ManyRuns, Plan
from kplan.questions.drain import How
from tests.course.simulation.test_laws_of_mixtures import clusters_at_rest, new_versions
from tests.course.simulation.test_set_claims import database
from tests.objects import Object, deployment, node, planner_of, pod, quota, running
from tests.recorded import examples, sample


def left_by_pods(name: str) -> Object:
    """Write a node whose pods are to go, though it answers."""
    gone = node(name)
    taint = {"key": "node.kubernetes.io/unreachable", "timeAdded": "2026-01-01T00:00:00Z"}
    gone["spec"]["taints"] = [taint | {"effect": effect} for effect in ("NoSchedule", "NoExecute")]
    return gone


def silent(name: str) -> Object:
    """Write a node whose pods are to go, as it has not answered for a minute."""
    gone = left_by_pods(name)
    gone["status"]["conditions"] = [{"type": "Ready", "status": "Unknown"}]
    return gone


AT_ONCE = Clock(start={"*": 0.0}, stop={"*": 0.0}, until=3600.0)

NODES = [node("a"), node("b"), node("c", "2")]
CLUSTERS = {
    "room": [*NODES, pod("old", cpu="1", on="a", owner="ReplicaSet/owner")],
    "pending": [*NODES, pod("old", cpu="1", on="a", owner="ReplicaSet/owner"), pod("big", cpu="9")],
    "drained": [
        *NODES,
        pod("old", cpu="3", on="a", owner="ReplicaSet/owner"),
        pod("b", cpu="4", on="b"),
        pod("c", on="c"),
    ],
    "preemption": [*NODES, pod("low", cpu="3", on="a", owner="ReplicaSet/owner"), pod("high", cpu="4", priority=9)],
    "preemptor": [
        *NODES,
        pod("low", cpu="3", on="a", owner="ReplicaSet/owner"),
        pod("b", cpu="4", on="b", priority=9),
        pod("high", cpu="4", priority=9),
    ],
    "silent node": [*NODES, silent("d"), pod("lost", cpu="1", on="d", owner="ReplicaSet/owner")],
    "quota": [*NODES, quota("team", **{"requests.cpu": "2"})],
    "foreign": [*NODES, pod("other", cpu="1") | {"spec": pod("other", cpu="1")["spec"] | {"schedulerName": "other"}}],
}
QUESTIONS = {
    "queue": Plan(),
    "new": Plan(manifests=(deployment("web", 3, cpu="1"),)),
    "too large": Plan(manifests=(deployment("web", 4, cpu="3"),)),
    "drain": Drain(nodes=("a",)),
    "loss": Drain(nodes=("b",), how="lost"),
    "replacement": Drain(nodes=("a",), how="replace"),
}


def counted(report: Report) -> tuple[bool, set[tuple[str, str]]]:
    """Return whether an answer fails, and for which objects by which rules."""
    return report.verdict.failed, {(event.object, event.rule) for event in report.verdict.counted}


def told(report: PlanReport) -> tuple[object, ...]:
    """Return what every form of an answer has to tell alike."""
    return (
        report.verdict.because,
        Counter((change.action, change.pod, change.outcome, change.reason) for change in report.changes),
        sorted((warning.code, warning.object, warning.message) for warning in report.warnings),
        [(obstacle.pod, obstacle.words, obstacle.remedies) for obstacle in report.obstacles],
        sorted((one.key, one.ready, one.pending, one.state, one.because) for one in report.workloads),
    )


@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize("name", sample([*QUESTIONS], 3))
def test_a_clock_runs_and_formats_change_neither_the_verdict_nor_what_is_told(cluster: str, name: str) -> None:
    planner = planner_of(CLUSTERS[cluster])
    question = QUESTIONS[name]
    plain = question.answer(planner)
    timed = replace(question, timeline=Clock())

    for asked, showing in (
        (timed, PLAIN),
        (question, Showing(is_whole=True, nodes=Shown(), with_map=True)),
        (question, Showing(explain=True, nodes=None, is_whole=True)),
    ):
        assert told(asked.answer(planner, showing)) == told(plain)
    assert str(question.answer(planner, Showing(max_listed=1))) == str(plain)
    for asked in (question, timed):
        assert counted(ManyRuns(question=asked, runs=1).answer(planner)) == counted(plain)


@pytest.mark.parametrize("clock", [replace(AT_ONCE, until=None), Clock()])
def test_a_pod_that_comes_back_for_ever_ends_a_clock_too(clock: Clock) -> None:
    web = deployment("web", 1)
    tolerated = {"tolerations": [{"operator": "Exists", "effect": "NoSchedule"}]}
    web["spec"]["template"]["spec"] |= tolerated | {"nodeSelector": {"kubernetes.io/hostname": "d"}}
    planner = planner_of(*NODES, left_by_pods("d"), running(web, ["d"]))
    plain = Plan().answer(planner)
    assert [warning.code for warning in plain.warnings] == ["EvictionCycle"]
    assert told(Plan(timeline=clock).answer(planner)) == told(plain)


def test_nodes_that_an_autoscaler_adds_at_once_come_with_a_clock_too() -> None:
    groups = [{"name": "g", "minSize": 1, "maxSize": 3, "targetSize": 1, "nodes": ["a"]}]
    planner = planner_of(node("a"), autoscaler=kplan.ClusterAutoscaler(node_groups=groups), now="2026-01-15T12:00:00Z")
    question = QUESTIONS["too large"]
    timed = replace(question, timeline=replace(AT_ONCE, node_start={"*": 0.0}))
    assert told(timed.answer(planner)) == told(question.answer(planner))


@examples(25)
@example(  # whose sync has failed more often waits longer for what the quota leaves
    objects=[*map(node, "abc"), *running(deployment("web", 4), "abc"), database(0), quota("few", None, pods="4")],
    manifests=[database(1), deployment("web", 4, "app:2")],
    how="apply",
)
@given(
    objects=clusters_at_rest(),
    manifests=new_versions(),
    how=st.sampled_from([None, "apply", *(how for how in get_args(How) if how != "one-by-one")]),
)
def test_where_nothing_takes_time_a_clock_changes_no_answer(
    objects: list[Object], manifests: list[Object], how: How | Literal["apply"] | None
) -> None:
    planner = planner_of(copy.deepcopy(objects))
    question: Plan | Drain = Plan(manifests=tuple(copy.deepcopy(manifests))) if how == "apply" else Plan()
    if how not in (None, "apply"):
        question = Drain(nodes=("n1",), how=how)
    plain = told(question.answer(planner))
    assert told(replace(question, timeline=AT_ONCE).answer(planner)) == plain
    assert told(question.answer(planner, Showing(explain=True, nodes=None, is_whole=True))) == plain


@pytest.mark.parametrize(
    "question",
    sample([Plan(), Drain(nodes=("general-a-1",)), Plan(manifests=(deployment("web", 40, cpu="3"),))], 3, 1),
)
def test_where_jobs_end_in_time_the_verdict_stays(question: Plan | Drain) -> None:
    planner = kplan.Planner("demo")
    timed = replace(question, timeline=Clock()).answer(planner)
    assert timed.verdict.failed == question.answer(planner).verdict.failed
