from kplan.plugins.priority_sort import PrioritySort

from .worlds import World, node, pod


def queued(name, priority=None, created=None):
    waiting = pod(name, priority=priority)
    waiting["metadata"]["creationTimestamp"] = created
    return waiting


def test_priority_first_then_the_time_of_waiting():
    world = World([node()])
    pods = [
        queued("new", 5),
        queued("late", 5, "2026-03-01T10:00:00Z"),
        queued("early", 5, "2026-03-01T09:59:59Z"),
        queued("high", 6, "2026-03-02T00:00:00Z"),
        queued("none", None, "2026-01-01T00:00:00Z"),
        queued("negative", -1, "2025-01-01T00:00:00Z"),
    ]

    ordered = sorted((world.cycle(each).pod for each in pods), key=PrioritySort(None, world.handle).sort_key)

    assert [each.name for each in ordered] == ["high", "early", "late", "new", "none", "negative"]
