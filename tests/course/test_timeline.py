"""The queue and the utilisation over time."""

from typing import Any

import pytest

from kplan.course.clock import Clock
from kplan.course.timeline import MOST_POINTS, _thinned
from kplan.documents.change import Timeline
from kplan.questions.plan import Plan
from tests.objects import Object, head, node, planner_of, template


def _job(name: str, completions: int, cpu: str = "4") -> Object:
    pod = template(name, cpu=cpu)
    pod["spec"]["restartPolicy"] = "Never"
    spec = {"parallelism": completions, "completions": completions, "template": pod}
    return head("Job", name=name, namespace="default", uid=name) | {"spec": spec}


def _timeline(*objects: Object, nodes: int = 1, **clock: Any) -> Timeline:
    times = {"start": {"*": 0.0}, "stop": {"*": 0.0}, "run": {"*": 100.0}, "until": 3600.0}
    planner = planner_of([node(f"n{number}", "8") for number in range(nodes)])
    report = Plan(manifests=tuple(objects), timeline=Clock(**times | clock)).answer(planner)
    assert isinstance(report.timeline, Timeline)
    return report.timeline


def test_the_queue_is_counted_and_so_is_how_long_pods_wait() -> None:
    timeline = _timeline(_job("three", 3))  # the node has room for two of them
    assert timeline.queue.most == 1
    assert [number for _, number in timeline.queue.over_time] == [1, 0]
    waits = timeline.queue.workloads["Job/default/three"]
    assert (waits.pods, waits.waiting) == (3, 0)
    assert waits.longest == pytest.approx(100, abs=0.1)
    assert waits.mean == pytest.approx(100 / 3, abs=0.1)


def test_shares_of_nodes_are_weighted_by_time() -> None:
    usage = _timeline(_job("three", 3)).utilisation["cpu"]
    assert usage.highest == 100.0
    # Two of the pods of half a node run at first, then one; and the last second is the job controller's.
    assert usage.mean == pytest.approx(75, abs=1)
    assert usage.over_time[-1][1] == 0.0


def test_a_pod_that_finds_no_node_waits_until_the_end() -> None:
    timeline = _timeline(_job("big", 1, cpu="100"), _job("small", 1))
    waits = timeline.queue.workloads["Job/default/big"]
    assert (waits.pods, waits.waiting) == (1, 1)
    assert waits.longest == pytest.approx(timeline.end, abs=0.1)


def test_a_change_that_is_no_question_about_the_queue_has_none() -> None:
    planner = planner_of(node("n0", "8"))
    timeline = planner.timeline([{"at": 0, "apply": [_job("one", 1)]}]).timeline
    assert not timeline.queue
    assert not timeline.utilisation


def test_a_long_line_keeps_its_highest_points() -> None:
    points = [*((float(number), number % 1000) for number in range(50_000)), (50_000.0, 7)]
    thinned = _thinned(points, 50_000.0)
    assert len(thinned) == MOST_POINTS
    assert max(number for _, number in thinned) == 999
    assert [at for at, _ in thinned] == sorted(at for at, _ in thinned)
