"""Pods pending for everyday reasons: the sentence names the cause, and each remedy works when it is carried out."""

from __future__ import annotations

import pytest

from tests.planner.diagnosis.everyday import KEY, STORIES, Story, applied
from tests.preemption.scenes import planner

STORY = pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)


@STORY
def test_the_sentence_names_the_cause(story: Story):
    told = planner(story.objects).place(KEY).diagnosis

    assert [part for part in story.says if part not in told] == [], told
    assert told.endswith(".")
    assert ".." not in told


@STORY
def test_the_remedies_that_help_are_offered(story: Story):
    offered = [each["kind"] for each in planner(story.objects).place(KEY).to_dict()["remedies"]]

    assert [kind for kind in story.remedies if kind not in offered] == [], offered
    assert [kind for kind in story.never if kind in offered] == []
    assert len(offered) <= 5


@STORY
def test_a_remedy_that_was_checked_works_when_it_is_carried_out(story: Story):
    for remedy in planner(story.objects).place(KEY).to_dict()["remedies"]:
        if not remedy["checked"]:
            assert remedy["then"] is None
            continue
        found = planner(applied(story.objects, remedy)).place(KEY)
        assert found.node is not None, remedy
        if remedy["kind"] != "add-nodes":
            assert found.node == remedy["then"], remedy


@STORY
def test_asking_why_changes_no_later_answer(story: Story):
    asking = planner(story.objects)
    first = asking.place(KEY).to_dict()

    assert asking.place(KEY).to_dict() == first


def test_a_pod_that_is_placed_has_no_diagnosis():
    placed = planner(applied(STORIES[0].objects, {"kind": "add-nodes", "change": {"nodes": 1, "like": "a"}})).place(KEY)

    assert (placed.diagnosis, placed.remedies) == ("", ())
    assert "diagnosis" not in placed.to_dict()
