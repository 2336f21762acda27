"""Who is tried, in which order, and why the others are not."""

from kplan.course.simulation.queue import in_turn
from kplan.documents.plan import QueuePlace
from kplan.framework.interface import SUCCESS, Status
from tests.framework.fakes import plugin, pod, session

BY_PRIORITY = plugin("Sort", sort_key=lambda info: -info.priority)


def gate(info):
    return Status.unresolvable("waiting") if info.labels.get("gated") else SUCCESS


def test_active_pods_stand_in_the_order_of_the_queue_sort_plugin_and_then_by_name():
    made = session([BY_PRIORITY], pods=[pod("b"), pod("c", priority=5), pod("a"), pod("d", priority=-1)])
    assert [each.pod for each in in_turn(made, range(4))] == [1, 2, 0, 3]


def test_the_others_stand_apart_with_the_reason():
    pods = [
        pod("z", labels={"gated": "yes"}),
        pod("y", scheduler="other", labels={"gated": "yes"}),
        pod("x", deletionTimestamp="2026-03-01T10:00:00Z", labels={"gated": "yes"}),
        pod("w", creationTimestamp="2026-03-01T09:00:00Z", priority=7),
        pod("v", nominated="b"),
        pod("u", labels={"gated": "yes"}),
    ]
    made = session([BY_PRIORITY, plugin("Gate", pre_enqueue=gate)], pods=pods)

    found = [(each.pod, each.place, each.reason) for each in in_turn(made, range(6))]
    assert found == [
        (3, QueuePlace.ACTIVE, "priority 7, created 2026-03-01T09:00:00Z"),
        (4, QueuePlace.ACTIVE, "priority 0, not created yet, nominated to b"),
        (2, QueuePlace.DELETING, "being deleted since 2026-03-01T10:00:00Z"),
        (1, QueuePlace.FOREIGN, 'no profile is named "other"'),
        (5, QueuePlace.GATED, "waiting"),
        (0, QueuePlace.GATED, "waiting"),
    ]
