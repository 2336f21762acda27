"""The course of a change as a picture."""

import re

from kplan.documents.change import NodeTimeline, Timeline
from kplan.report.html.course import timeline_figures


def test_a_node_that_was_there_takes_pods_from_the_start_and_one_that_comes_does_not() -> None:
    nodes = {"back": NodeTimeline(draining=5, ready=20), "late": NodeTimeline(ready=5, draining=20)}
    course = Timeline(end=30, until=None, is_over=True, stuck_at=None, workloads={}, nodes=nodes)
    assert re.findall(r"<title>(.+?)</title>", timeline_figures(course, [])) == [
        "back: there 0 s to 5 s, being emptied 5 s to 20 s, there 20 s to 30 s",
        "late: there 5 s to 20 s, being emptied 20 s to 30 s",
    ]
