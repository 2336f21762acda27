"""A plugin of somebody else that goes wrong is named, and its answers are checked."""

from typing import Any, ClassVar

import numpy as np
import pytest

import kplan
from kplan.engine.verdicts import Verdicts
from kplan.errors import KplanError
from kplan.framework.interface import CycleState, Handle, Scope
from kplan.plugins.taint_toleration import TaintToleration
from tests.plugins.test_registry import configuration, planner, pod


class Scoring:
    """Scores what the test wants."""

    name: ClassVar[str] = "Scoring"
    scope: ClassVar[Scope] = Scope.NODE
    answer: ClassVar[Any] = None

    def __init__(self, args: Any, handle: Handle) -> None:
        pass

    def score(self, cycle: CycleState, nodes: Any) -> Any:
        return self.answer() if callable(self.answer) else self.answer


def asked(answer: Any, base: type = Scoring) -> kplan.Placement:
    plugin = type("Scoring", (base,), {"answer": staticmethod(answer) if callable(answer) else answer})
    return planner(configuration("Scoring"), plugin).place(pod("red"))


def test_a_plugin_may_inherit_from_one_of_kplan() -> None:
    class Mine(TaintToleration):
        name: ClassVar[str] = "Mine"

    assert planner(configuration("Mine"), Mine).place(pod("red")).outcome == "Scheduled"


def test_an_exception_names_the_plugin_and_its_method_and_keeps_its_cause() -> None:
    with pytest.raises(KplanError, match="plugin Scoring failed in score: ZeroDivisionError: ") as caught:
        asked(lambda: 1 // 0)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (None, "score returned NoneType, expected an array of integers"),
        ([1, 2, 3], "score returned list, expected an array of integers"),
        (np.array([0.5, 1, 2]), "score returned an array of float64, expected an array of integers"),
        (np.array([1, 2]), "expected 3: one for each node"),
    ],
)
def test_scores_are_integers_one_for_each_node(answer: Any, problem: str) -> None:
    with pytest.raises(KplanError, match="plugin Scoring: score returned") as caught:
        asked(answer)
    assert problem in str(caught.value)


def test_a_method_without_an_instance_is_checked_as_others_are() -> None:
    class Static(Scoring):
        score = staticmethod(lambda cycle, nodes: np.arange(len(nodes)))

    assert asked(None, Static).outcome == "Scheduled"


@pytest.mark.parametrize("score", [-1, 101])
def test_a_score_out_of_range_ends_the_cycle_as_in_kube_scheduler(score: int) -> None:
    placement = asked(np.array([0, 100, score]))
    assert (placement.outcome, placement.node) == ("Error", None)
    assert f'plugin "Scoring" returns an invalid score {score}, it should in the range of [0, 100]' in placement.message


def test_raw_scores_may_be_any_where_the_plugin_brings_them_into_range() -> None:
    class Normalizing(Scoring):
        def normalize_score(self, cycle: CycleState, scores: Any) -> Any:
            return 100 * scores // scores.max()

    assert asked(np.array([5, 5000, 50]), Normalizing).node == "b"


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (lambda nodes: [True] * len(nodes), "filter returned list, expected Verdicts"),
        (lambda nodes: Verdicts(np.ones(len(nodes), np.uint8), ()), "filter returned rejections without a reason"),
    ],
)
def test_a_filter_answers_with_verdicts_that_have_a_reason(answer: Any, problem: str) -> None:
    class Filtering(Scoring):
        def filter(self, cycle: CycleState, nodes: Any) -> Any:
            return answer(nodes)

    with pytest.raises(KplanError, match=f"plugin Scoring: {problem}"):
        asked(np.array([1, 2, 3]), Filtering)


class Final(Scoring):
    """Scores all nodes at once, normalized."""

    final: ClassVar[Any] = staticmethod(lambda: np.array([1, 2, 100]))

    def normalize_score(self, cycle: CycleState, scores: Any) -> Any:
        return scores

    def final_score(self, cycle: CycleState, nodes: Any) -> Any:
        return self.final()


def test_scores_that_are_normalized_at_once_count_instead_of_the_others() -> None:
    assert asked(np.array([100, 2, 1]), Final).node == "c"


def test_a_plugin_that_inherits_from_one_with_final_scores_is_asked_for_its_own() -> None:
    class Reversed(Final):
        def normalize_score(self, cycle: CycleState, scores: Any) -> Any:
            return 100 - scores

    assert asked(np.array([100, 2, 50]), Reversed).node == "b"


def test_scores_that_are_normalized_at_once_are_checked_as_others_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Final, "final", lambda _: 1 // 0)
    with pytest.raises(KplanError, match="plugin Scoring failed in final_score: ZeroDivisionError: "):
        asked(np.array([1, 2, 3]), Final)
    monkeypatch.setattr(Final, "final", lambda _: [1, 2, 3])
    with pytest.raises(KplanError, match="final_score returned list, expected an array of integers"):
        asked(np.array([1, 2, 3]), Final)


def test_a_plugin_that_cannot_be_created_is_named() -> None:
    class Broken(Scoring):
        def __init__(self, args: Any, handle: Handle) -> None:
            raise TypeError("no args")

    with pytest.raises(KplanError, match="plugin Scoring failed in __init__: TypeError: no args"):
        asked(np.array([1, 2, 3]), Broken)
