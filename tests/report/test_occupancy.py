"""The queue and the utilisation over time in words and tables."""

from kplan.documents.change import QueueTimeline, Timeline, UsageTimeline, WorkloadWaits
from kplan.report.blocks import Table, plain
from kplan.report.timeline import occupancy_blocks

DAY = 86400.0


def _queue() -> QueueTimeline:
    waits = WorkloadWaits(pods=4, waiting=1, mean=900.0, longest=3600.0, pod="batch/a-1")
    over_time = ((0.0, 0), (7200.0, 3), (10800.0, 1))
    return QueueTimeline(most=3, most_at=7200.0, over_time=over_time, workloads={"Job/batch/a": waits})


def _timeline() -> Timeline:
    usage = UsageTimeline(mean=50.0, highest=100.0, highest_at=43200.0, over_time=((0.0, 0.0), (43200.0, 100.0)))
    return Timeline(
        end=70_000.0,
        until=DAY,
        is_over=False,
        stuck_at=None,
        workloads={},
        queue=_queue(),
        utilisation={"cpu": usage, "pods": UsageTimeline(mean=0.0, highest=0.0, highest_at=0.0, over_time=())},
    )


def _tables() -> list[Table]:
    return [block for block in occupancy_blocks(_timeline()) if isinstance(block, Table)]


def test_the_day_is_told_in_equal_parts_of_which_equal_ones_are_one_row() -> None:
    _, parts = _tables()
    rows = [tuple(map(plain, row)) for row in parts.rows]
    assert parts.header == ("TIME", "MOST WAITING", "MEAN cpu")  # nothing requests the other resource
    assert rows[0] == ("from 0 s", "0", "0 %")
    assert rows[1] == ("from 2 h", "3", "0 %")
    assert rows[2] == ("from 4 h", "1", "0 %")
    assert rows[3:] == [("from 12 h", "1", "100 %")]


def test_workloads_that_wait_are_listed_with_what_still_waits() -> None:
    waits, _ = _tables()
    assert [tuple(map(plain, row)) for row in waits.rows] == [("Job batch/a", "4", "15 min", "1 h", "1")]
