"""Times in words, and what a change with a clock shows."""

import pytest
from msgspec.structs import replace

import kplan
from kplan.course.report import change_report
from kplan.documents.change import QueueTimeline, Timeline, UsageTimeline, WorkloadWaits
from kplan.documents.plan import PlanReport
from kplan.health.workloads import WorkloadHealth
from kplan.report.blocks import Block, Line, Table, plain
from kplan.report.html.course import timeline_figures
from kplan.report.timeline import end_line, occupancy_blocks, timeline_blocks
from kplan.report.words import seconds_text
from tests.objects import deployment, node, running


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"), (8.46, "8.5 s"), (59.94, "59.9 s"), (59.96, "1 min"), (200, "3 min 20 s"), (3600, "1 h"),
        (3660, "1 h 1 min"),
    ],
)  # fmt: skip
def test_times_are_told_as_people_tell_them(seconds: float, words: str) -> None:
    assert seconds_text(seconds) == words


def _report() -> PlanReport:
    web = deployment("web", 4, maxSurge=0, maxUnavailable=2)
    planner = kplan.Planner(kplan.load_snapshot([node("n1", "8"), *running(web, ["n1"])]))
    plan = planner.timeline(
        [{"at": 0, "apply": [deployment("web", 4, "app:2", maxSurge=0, maxUnavailable=2)]}],
        start={"*": 20},
        stop={"Deployment/default/web": 5},
    )
    return change_report(plan)


def test_the_report_says_when_it_ends_and_how_few_pods_are_ready() -> None:
    report = _report()
    assert report.timeline
    blocks = [end_line(report.timeline), *timeline_blocks(report.steps, report.timeline)]
    lines = [plain(block.spans) for block in blocks if isinstance(block, Line)]
    assert lines[0] == "Time: done after 40 s"
    assert "20 s until default/web-2pj5zqbk5d-1 is ready" in lines[1]
    assert lines[-1] == "Durations of Deployment default/web: start 20 s (given), stop 5 s (given)"
    table = next(block for block in blocks if isinstance(block, Table))
    assert [plain(cell) for cell in table.rows[0]] == ["Deployment default/web", "4", "2", "0 s", "4", "4"]


def test_the_picture_has_a_bar_for_each_pod_and_tells_it_in_words() -> None:
    report = _report()
    assert report.timeline
    picture = timeline_figures(report.timeline, report.steps)
    assert picture.count('<li><span class="name"') == 8
    assert "default/web-h1-000: ready 0 s to 0 s" not in picture
    assert "stopping 0 s to 5 s" in picture
    assert "Deployment default/web: 4 ready before, at least 2 (after 0 s), 4 of 4 at the end" in picture
    assert "<script" not in picture


def test_an_end_at_which_replicas_are_missing_is_not_called_done() -> None:
    lacks = WorkloadHealth(workload="Deployment/web/api", wanted=8, pods=5, ready=5, states=("refused",))
    at_rest = Timeline(end=0.0, until=None, is_over=True, stuck_at=None, workloads={})
    assert _text(end_line(at_rest, [lacks])) == "Time: nothing happens; Deployment web/api lacks 3 of 8 replicas"
    assert _text(end_line(at_rest)) == "Time: nothing happens"


def test_the_end_names_the_workloads_with_too_few_ready_pods_and_what_waits_for_a_node() -> None:
    timeline = _report().timeline
    assert timeline
    workloads = {name: replace(workload, ready_over_time=((0.0, 3),)) for name, workload in timeline.workloads.items()}
    waits = WorkloadWaits(pods=1, waiting=1, mean=40.0, longest=40.0, pod="ml/eval")
    queue = QueueTimeline(most=1, most_at=0.0, over_time=((0.0, 1),), workloads={"Pod/ml/eval": waits})
    assert _text(end_line(replace(timeline, workloads=workloads, queue=queue))) == (
        "Time: nothing more happens after 40 s; Deployment default/web has 3 of 4 pods ready, ml/eval waits for a node"
    )


def _text(block: Block) -> str:
    assert isinstance(block, Line)
    return plain(block.spans)


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
