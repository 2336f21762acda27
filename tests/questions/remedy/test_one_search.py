"""`explain` and `remedy` are one search: what one names the other tries, in the same order."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given

import kplan
from kplan.changes import remedy as r
from kplan.changes.values import AddNodes, AwaitNodes, Change, Move, Patch, Scale, Uncordon
from kplan.questions.remedy import Remedy
from kplan.questions.remedy.candidates import Candidates
from kplan.questions.remedy.carry_out import Goal, Playing
from tests.objects import planner_of
from tests.questions.remedy.test_report import clusters
from tests.questions.remedy.test_stories import STORIES
from tests.recorded import examples, sample
from tests.remedies.everyday import STORIES as EVERYDAY
from tests.remedies.everyday import Story

Way = tuple[Any, ...]


def ways_of(change: Change) -> Iterator[Way]:
    """Yield what a change does, in words that remedies and changes share."""
    match change:
        case Uncordon():
            yield ("uncordon", *change.nodes)
        case AwaitNodes():
            yield ("wait", *change.nodes)
        case AddNodes():
            yield "nodes", change.nodes, change.like
        case Move():
            yield from (("move", place.pod) for place in change.pods)
        case Scale():
            yield "scale", change.replicas
        case Patch(remedy=remedy):
            yield from ((type(one), one.change) for one in r.parts_of(remedy))


def ways_of_remedy(remedy: r.Remedy) -> Iterator[Way]:
    match remedy:
        case r.Uncordon():
            yield from (("uncordon", one.node) for one in (remedy.change, *(remedy.also or ())))
        case r.Await(change=change) if change.what == "node":
            yield "wait", change.name
        case r.AddNodes(change=change):
            yield "nodes", change.nodes, change.like
        case r.MovePod():
            yield from (("move", one.pod) for one in (remedy.change, *(remedy.also or ())))
        case r.LowerReplicas(change=change):
            yield "scale", change.to
        case r.Together(changes=changes):
            for part in changes:
                yield from ways_of_remedy(part)
        case _:
            yield type(remedy), remedy.change


def assert_one_search(planner: kplan.Planner) -> None:
    """Check the waiting pods one by one: the ways of each in `explain`, the candidates of `remedy`, and its answer."""
    for pod in planner.snapshot.pods:
        placement = planner.place(pod.metadata.key) if not pod.spec.node_name else None
        if placement is None or placement.node is not None:
            continue
        named = [tuple(ways_of_remedy(remedy)) for remedy in placement.remedies]
        playing = Playing(planner)
        start, anyway = playing.begin()[1].waiting(), playing.play(()).waiting
        goal = Goal(start, anyway, [pod.metadata.key])
        if goal.runs(playing.play(())) == goal.of:  # it gets its node without anybody's doing, now or when others end
            continue
        offered = Candidates(playing, (), goal, by_hand=True).offered()
        tried = [tuple(way for act in acts for way in ways_of(act)) for acts in offered]
        beside = {tuple(ways_of_remedy(remedy)) for remedy in playing.beside}
        assert [way for way in named if way not in tried and way not in beside] == [], tried
        assert [way for way in tried if way in named] == [way for way in named if way in tried]
        answer = planner.ask(Remedy(pods=(pod.metadata.key,))).remedy
        if len(answer.actions) == 1 and not isinstance(answer.actions[0], Scale):
            assert named, answer.actions[0].text


@pytest.mark.parametrize("story", sample(EVERYDAY, 6), ids=lambda story: story.name)
def test_what_explain_names_is_tried_by_remedy_for_everyday_reasons(story: Story) -> None:
    assert_one_search(planner_of(*story.objects))


@pytest.mark.parametrize("story", sample([*STORIES], 6))
def test_what_explain_names_is_tried_by_remedy_for_replicas(story: str) -> None:
    assert_one_search(planner_of(*STORIES[story][0]))


def test_what_explain_names_is_tried_by_remedy_in_the_demo() -> None:
    assert_one_search(kplan.Planner("demo"))


@examples(30)
@given(clusters())
def test_what_explain_names_is_tried_by_remedy_wherever_pods_run(objects: list[Any]) -> None:
    assert_one_search(planner_of(*objects))
