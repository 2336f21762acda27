"""What recommended requests save."""

import kplan
from kplan.questions import Place, Plan
from kplan.report.options import ReportOptions
from kplan.report.registry import render
from tests.objects import planner_of
from tests.questions.remedy.test_report import deployment, node
from tests.whatif.test_resizing import vpa

GROUPS = [{"name": "g", "maxSize": 3, "nodes": ["a", "b"], "price": 2}]


def planner() -> kplan.Planner:
    objects = [node("a"), node("b"), *deployment("web", "2", ("a", "a", "b")), vpa("web", cpu="500m")]
    autoscaler = kplan.ClusterAutoscaler(node_groups=GROUPS)
    return planner_of(objects, autoscaler=autoscaler)


def test_nothing_is_said_where_nothing_is_recommended() -> None:
    assert "rightSizing" not in planner().ask(Plan()).to_dict()


def test_plan_and_place_tell_what_is_saved() -> None:
    changed = planner().changed(recommendations=["vpa"])
    documents = [changed.ask(Plan()), changed.ask(Place(pods=({"metadata": {"name": "p"}, "spec": POD},)))]

    for document in documents:
        assert document.to_dict()["rightSizing"]["freed"] == ["b"]
        for form in ("table", "markdown", "html"):
            text = render(document, form, ReportOptions())
            assert "With the recommended requests 1 of 2 nodes can go" in text
            assert "saves 2" in text


POD = {"containers": [{"name": "c", "image": "app", "resources": {"requests": {"cpu": "1"}}}]}
