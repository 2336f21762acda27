"""The scheduling queue at work."""

import math
from typing import Any

import pytest

from kplan.course.simulation.queue import MAX_BACKOFF, MAX_WAIT, RetryQueue
from kplan.framework.interface import PodDeleted
from kplan.rules.pod_info import PodInfo
from tests.objects import head, node, planner_of

FIT = frozenset({"NodeResourcesFit"})


def pod(name: str, priority: int, cpu: str = "1") -> dict[str, Any]:
    container = {"name": "c", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    return head("Pod", name=name, namespace="default", uid=name) | {
        "spec": {"priority": priority, "containers": [container]}
    }


def queue_of(**pods: int) -> tuple[RetryQueue, dict[str, int], dict[str, PodInfo]]:
    """Return an empty queue, and rows and facts of pods with these priorities, each of another size."""
    objects = [pod(name, priority, f"{number}") for number, (name, priority) in enumerate(pods.items(), 1)]
    session = planner_of(node("n1", "8"), *objects).fork()
    rows = {name: session.pod_ids[f"default/{name}"] for name in pods}
    return RetryQueue(session), rows, {name: session.cluster.pods.infos[row] for name, row in rows.items()}


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, MAX_BACKOFF), (50, MAX_BACKOFF)])
def test_a_pod_that_is_let_in_too_early_backs_off_longer_with_each_failure(failures: int, seconds: int) -> None:
    for waited, is_over in ((seconds, False), (seconds + 1, True)):
        queue, rows, infos = queue_of(waits=1)
        for _ in range(failures - 1):
            queue.add_rejected(rows["waits"], FIT, -math.inf)
            queue.take_out(rows["waits"])
        queue.add_rejected(rows["waits"], FIT, 0.0)

        queue.notice(PodDeleted(infos["waits"]), float(waited))

        assert queue.has_active is is_over
        assert queue.pop() == rows["waits"]


def test_what_happens_in_a_fork_stays_there() -> None:
    queue, rows, infos = queue_of(active=1, waits=1)
    queue.add(rows["active"])
    queue.add_rejected(rows["waits"], FIT, -math.inf)
    session = planner_of(node("n1", "8"), pod("active", 1, "1"), pod("waits", 1, "2")).fork()

    twin = queue.fork(session)
    twin.notice(PodDeleted(infos["waits"]), 0.0)

    assert [twin.pop(), twin.pop()] == [rows["active"], rows["waits"]]
    assert queue.pop() == rows["active"]
    assert not queue


def test_a_pod_that_has_waited_for_five_minutes_is_tried_again_without_an_event() -> None:
    queue, rows, _ = queue_of(waits=1, long_since=1)
    queue.add_rejected(rows["long_since"], FIT, -math.inf)
    queue.add_rejected(rows["waits"], FIT, 10.0)

    tried = []
    for now in (290.0, 301.0, 311.0):
        queue.retry(now, now - MAX_WAIT, began=0.0)
        tried.append([queue.pop() for _ in range(2) if queue])

    assert tried == [[], [rows["long_since"]], [rows["waits"]]]
