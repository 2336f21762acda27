"""The scheduling queue at work."""

import math
from collections.abc import Iterable
from random import Random
from typing import Any

import pytest

from kplan.api.core import Node
from kplan.api.decode import convert
from kplan.course.simulation.queue import MAX_WAIT, GoHeap, SchedulingQueue, in_turn, is_worth_retrying
from kplan.documents.plan import QueuePlace
from kplan.framework import interface as fwk
from kplan.framework.interface import SUCCESS, NodeChanged, NodeDeleted, NodeUncordoned, PodAdded, PodDeleted, Status
from kplan.rules.nodes import cordoned
from kplan.rules.pod_info import PodInfo
from kplan.snapshot.load import decode_pod
from tests.framework import fakes
from tests.objects import HOSTNAME, affinity, node, planner_of, pod, spread

FIT = frozenset({"NodeResourcesFit"})


def queue_of(**pods: int) -> tuple[SchedulingQueue, dict[str, int], dict[str, PodInfo]]:
    """Return an empty queue, and rows and facts of pods with these priorities, each of another size."""
    objects = [pod(name, cpu=f"{number}", priority=priority) for number, (name, priority) in enumerate(pods.items(), 1)]
    session = planner_of(node("n1", "8"), *objects).fork()
    rows = {name: session.pod_ids[f"default/{name}"] for name in pods}
    return SchedulingQueue(session), rows, {name: session.cluster.pods.infos[row] for name, row in rows.items()}


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (4, 8), (5, 10), (50, 10)])
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
    twin = queue.fork(planner_of(node("n1", "8"), pod("active", priority=1), pod("waits", cpu="2", priority=1)).fork())
    twin.notice(PodDeleted(infos["waits"]), 0.0)
    assert [twin.pop(), twin.pop()] == [rows["active"], rows["waits"]]
    assert queue.pop() == rows["active"]
    assert queue.pop() is None


def test_a_pod_that_has_waited_for_five_minutes_is_tried_again_without_an_event() -> None:
    queue, rows, _ = queue_of(waits=1, long_since=1)
    queue.add_rejected(rows["long_since"], FIT, -math.inf)
    queue.add_rejected(rows["waits"], FIT, 10.0)

    tried = []
    for now in (290.0, 301.0, 311.0):
        queue.retry(now, now - MAX_WAIT, began=0.0)
        tried.append([pod for pod in (queue.pop(), queue.pop()) if pod is not None])

    assert tried == [[], [rows["long_since"]], [rows["waits"]]]


def popped(*keys: int, without: int | None = None) -> list[int]:
    """Return the numbers of items with these keys in the order in which they come."""
    heap = GoHeap()
    for item, key in enumerate(keys):
        heap.push(key, item)
    assert without is None or heap.discard(without)
    return [item for _ in heap.keys.copy() if heap.discard(item := heap.first())]


def test_a_pod_that_only_time_has_tried_again_is_told_of_as_it_was_when_all_was_at_rest() -> None:
    waiting = pod("waits", cpu="9")
    said = {"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available: 1 Insufficient memory."}
    waiting["status"]["conditions"] = [said]
    planner = planner_of(node("n0"), waiting)
    at_rest = planner.roll_out([pod("small", cpu="1")])
    steps = [{"at": at, "apply": [pod(f"small-{at}", cpu="1")]} for at in (0, 500)]
    timed, moving = planner.timeline(steps[:1], until=1000), planner.timeline(steps, until=1000)
    words = [change.after[-1].message[:47] for change in (at_rest, timed, moving)]
    assert words == [said["message"], said["message"], "0/1 nodes are available: 1 Insufficient cpu. no"]


def test_the_least_key_comes_first_and_equal_items_as_they_stand_in_the_array_of_go() -> None:
    assert popped(3, 1, 2) == [1, 2, 0]
    assert popped(1, 1, 1, 1) == [0, 3, 2, 1]


def test_an_item_is_taken_out_of_the_middle() -> None:
    assert popped(1, 2, 3, 4, without=1) == [0, 2, 3]
    assert not GoHeap().discard(7)


def test_the_first_of_those_that_may_come_leaves_the_others() -> None:
    queue, rows, _ = queue_of(first=2, other=1, last=0)
    queue.draws = Random(1)  # none of them are equal
    for row in rows.values():
        queue.note_creation(row)
        queue.add(row)
    assert queue.pop(lambda pod: pod != rows["first"]) == rows["other"]
    assert [queue.pop() for _ in range(3)] == [rows["first"], rows["last"], None]


BY_PRIORITY = fakes.plugin("Sort", sort_key=lambda info: -info.priority)


def gate(info):
    return Status.unresolvable("waiting") if info.labels.get("gated") else SUCCESS


def test_active_pods_stand_in_the_order_of_the_queue_sort_plugin_and_then_by_name():
    made = fakes.session(
        [BY_PRIORITY], pods=[fakes.pod("b"), fakes.pod("c", priority=5), fakes.pod("a"), fakes.pod("d", priority=-1)]
    )
    assert [each.pod for each in in_turn(made, range(4))] == [1, 2, 0, 3]


def test_the_others_stand_apart_with_the_reason():
    pods = [
        fakes.pod("z", labels={"gated": "yes"}),
        fakes.pod("y", scheduler="other", labels={"gated": "yes"}),
        fakes.pod("x", deletionTimestamp="2026-03-01T10:00:00Z", labels={"gated": "yes"}),
        fakes.pod("w", creationTimestamp="2026-03-01T09:00:00Z", priority=7),
        fakes.pod("v", nominated="b"),
        fakes.pod("u", labels={"gated": "yes"}),
    ]
    made = fakes.session([BY_PRIORITY, fakes.plugin("Gate", pre_enqueue=gate)], pods=pods)

    found = [(each.pod, each.place, each.reason) for each in in_turn(made, range(6))]
    assert found == [
        (3, QueuePlace.ACTIVE, "priority 7, created 2026-03-01T09:00:00Z"),
        (4, QueuePlace.ACTIVE, "priority 0, not created yet, nominated to b"),
        (2, QueuePlace.DELETING, "being deleted since 2026-03-01T10:00:00Z"),
        (1, QueuePlace.FOREIGN, 'no profile is named "other"'),
        (5, QueuePlace.GATED, "waiting"),
        (0, QueuePlace.GATED, "waiting"),
    ]


NEAR = affinity("podAffinity", HOSTNAME, app="web")
APART = affinity("podAntiAffinity", HOSTNAME, app="web")
CLAIM = [{"name": "gpu", "resourceClaimName": "gpu"}]
DISK = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
EBS = [{"name": "data", "awsElasticBlockStore": {"volumeID": "vol-1"}}]


def info(namespace: str = "default", ports: Iterable[int] = (), **spec: Any) -> PodInfo:
    return PodInfo(decode_pod(pod("p", namespace=namespace, labels={"app": "web"}, ports=ports, **spec)))


def bare_node(*taints: dict[str, str]) -> Node:
    return convert(node("n1", taints=taints, disk="ssd"), Node)


GONE, BOUND, OTHER = PodDeleted(info()), PodAdded(info()), PodAdded(info("other"))
UNCORDONED, LOST = NodeUncordoned(bare_node()), NodeDeleted(bare_node())
TAINT = {"key": "gpu", "effect": "NoSchedule"}
CLEARED, TAINTED = NodeChanged(bare_node(TAINT), bare_node()), NodeChanged(bare_node(), bare_node(TAINT))
CORDONED = NodeChanged(bare_node(), cordoned(bare_node()))
HONORS = spread(HOSTNAME, app="web")["topologySpreadConstraints"][0] | {"nodeTaintsPolicy": "Honor"}
WITH_CLAIM, ELSEWHERE = PodDeleted(info(volumes=DISK)), PodDeleted(info("other", volumes=DISK))
WITH_DISK, WITH_SECRET = PodDeleted(info(volumes=EBS)), PodDeleted(info(volumes=[{"name": "s", "secret": {}}]))
SESSION = planner_of(node("n1")).session


@pytest.mark.parametrize(
    ("plugin", "waiting", "helpful", "useless"),
    [
        ("NodeResourcesFit", info(), [GONE], [BOUND, UNCORDONED]),
        ("NodePorts", info(ports=[80]), [PodDeleted(info(ports=[80]))], [GONE, PodDeleted(info(ports=[81])), BOUND]),
        ("PodTopologySpread", info(**spread(HOSTNAME, app="web")), [GONE, BOUND, CLEARED, LOST], [OTHER, UNCORDONED]),
        ("PodTopologySpread", info(**spread(HOSTNAME, app="web")), [], [CORDONED]),
        ("PodTopologySpread", info(topologySpreadConstraints=[HONORS]), [CORDONED], []),
        ("PodTopologySpread", info(**spread("zone", app="web")), [GONE], [CLEARED, LOST]),
        ("PodTopologySpread", info(**spread(HOSTNAME, "ScheduleAnyway", app="web")), [], [GONE]),
        ("InterPodAffinity", info(**NEAR), [BOUND], [GONE, OTHER, UNCORDONED]),
        ("InterPodAffinity", info(**APART), [GONE], [BOUND, UNCORDONED]),
        ("InterPodAffinity", info(), [PodDeleted(info(**APART))], [GONE, BOUND]),
        ("NodeAffinity", info(nodeSelector={"disk": "ssd"}), [], [GONE, BOUND, UNCORDONED]),
        ("NodeUnschedulable", info(), [UNCORDONED], [GONE]),
        ("TaintToleration", info(), [CLEARED], [GONE, BOUND, UNCORDONED, TAINTED, LOST]),
        ("NodeName", info(), [], [GONE, UNCORDONED]),
        ("VolumeBinding", info(volumes=DISK), [PodAdded(info(volumes=DISK))], [WITH_CLAIM, BOUND]),
        ("VolumeRestrictions", info(volumes=DISK), [WITH_CLAIM], [GONE, BOUND, WITH_DISK, ELSEWHERE]),
        ("VolumeRestrictions", info(volumes=EBS), [WITH_DISK], [WITH_CLAIM]),
        ("NodeVolumeLimits", info(volumes=DISK), [WITH_CLAIM, WITH_DISK, ELSEWHERE], [WITH_SECRET, GONE]),
        ("DynamicResources", info(), [PodDeleted(info(resourceClaims=CLAIM))], [GONE, UNCORDONED]),
        ("SomebodysOwn", info(), [GONE, BOUND, UNCORDONED], []),
    ],
)
def test_a_plugin_waits_for_what_may_change_its_mind(
    plugin: str, waiting: PodInfo, helpful: list[fwk.Event], useless: list[fwk.Event]
) -> None:
    rejectors = frozenset({plugin})
    assert [is_worth_retrying(SESSION, waiting, rejectors, event) for event in helpful] == [True] * len(helpful)
    assert [is_worth_retrying(SESSION, waiting, rejectors, event) for event in useless] == [False] * len(useless)


def test_every_plugin_that_rejects_pods_knows_what_it_waits_for() -> None:
    (framework,) = SESSION.frameworks.values()
    rejecting = {*framework.pre_enqueue_plugins, *framework.pre_filter_plugins, *framework.filter_plugins}
    # These wait for any event: upstream's hints of both look at other pods of a group, which all events may concern.
    at_any_event = {"GangScheduling", "DefaultPreemption"}
    assert {plugin.name for plugin in rejecting} - at_any_event <= set(framework.queueing_hints)
