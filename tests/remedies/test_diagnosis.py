"""Pods pending for everyday reasons: the sentence names the cause, and each remedy works when it is carried out."""

import pytest

from tests.objects import node, pod
from tests.preemption.scenes import planner
from tests.remedies.applying import applied
from tests.remedies.everyday import KEY, STORIES, Story, claim, mounting, storage_class


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_the_sentence_names_the_cause_and_the_remedies_that_help_are_offered_and_work(story: Story):
    asking = planner(story.objects)
    placement = asking.place(KEY).to_dict()
    text, remedies = placement["diagnosis"], placement["remedies"]
    assert [part for part in story.says if part not in text] == [], text
    assert text.endswith(".")
    assert ".." not in text
    offered = [remedy["kind"] for remedy in remedies]
    assert [kind for kind in story.remedies if kind not in offered] == [], offered
    assert [kind for kind in story.never if kind in offered] == []
    assert not story.best or offered[0] == story.best
    assert len(offered) <= 5
    for remedy in remedies:
        if not remedy["checked"]:
            assert remedy["then"] is None
            continue
        moved = planner(applied(story.objects, remedy)).place(KEY)
        assert moved.node is not None, remedy
        assert moved.node == remedy["then"], remedy
    assert asking.place(KEY).to_dict() == placement, "asking why changed a later answer"


def test_pods_that_end_alike_are_told_alike_in_a_plan():
    waiting = [pod(f"web-{number}", cpu="2") for number in range(3)]
    asking = planner([node("a", cpu="1"), *waiting])
    plan = asking.plan([f"default/web-{number}" for number in range(3)])
    diagnoses = [(placement.diagnosis, placement.remedies) for placement in plan.placements]
    assert diagnoses == [(asking.place("default/web-0").diagnosis, asking.place("default/web-0").remedies)] * 3


def test_in_place_of_a_class_that_is_unlike_all_the_newest_default_one_is_offered():
    classes = [storage_class(name, "WaitForFirstConsumer") for name in ("old", "fresh")]
    for year, (entry, of) in enumerate(zip(classes, ("", "beta."), strict=True)):
        entry["metadata"]["annotations"] = {f"storageclass.{of}kubernetes.io/is-default-class": "true"}
        entry["metadata"]["creationTimestamp"] = f"202{year}-01-01T00:00:00Z"
    asking = planner([node("a"), claim("data", "zzzzz"), *classes, pod("web", **mounting("data"))])
    assert asking.place("default/web").remedies[0].change.to == "fresh"
