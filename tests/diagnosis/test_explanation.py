from typing import Any

import numpy as np
import pytest

from kplan.diagnosis.explanation import Shown, closest_rows, explain
from kplan.engine.verdicts import Code, Reason, Verdicts
from kplan.framework.cycle import CycleResult, schedule_pod
from kplan.framework.diagnosis import FilterOutcome, absent_status
from tests.scenarios import planner, scenarios

AREAS = ("resources", "taints", "nodeaffinity", "spread", "podaffinity", "nominated", "mixed")


def _decisions(area: str, limit: int = 6) -> list[tuple[CycleResult, list[str]]]:
    decisions = []
    for scenario in scenarios(area)[:limit]:
        session = planner(scenario).session.fork()
        for key in scenario["pods"][:2]:
            pod = session.find(key)
            assert pod is not None
            result = schedule_pod(session, pod)
            if result.filter is not None:
                decisions.append((result, session.cluster.nodes.names))
    return decisions


def _plain_closest(outcome: FilterOutcome) -> dict[tuple[str, str], list[int]]:
    """Rank the nodes of each group one by one."""
    ranked: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for row in range(outcome.n_nodes):
        status = outcome.status(row)
        position = outcome.position(row)
        if status is None:
            continue
        for text in status.texts:
            if row in outcome.overrides or position is None or outcome.first[position] < 0:
                rank: tuple[Any, ...] = (1, row not in outcome.overrides, 0, 0, row)
            else:
                n_reasons = sum(len(verdict.reasons_at(position)) for _, verdict in outcome.verdicts)
                reason = next(reason for reason in status.reasons if reason.text == text)
                missing = 0 if reason.shortfall is None else int(reason.shortfall(np.asarray([position]))[0])
                rank = (0, 0, n_reasons, missing, row)
            ranked.setdefault((status.plugin, text), []).append(rank)
    return {group: [rank[-1] for rank in sorted(ranks)] for group, ranks in ranked.items()}


@pytest.mark.parametrize("area", AREAS)
def test_closest_nodes_are_those_of_a_plain_ranking(area: str) -> None:
    for result, _ in _decisions(area):
        outcome = result.filter
        assert outcome is not None
        if outcome.pre_filter_status is None:
            assert closest_rows(outcome, None) == _plain_closest(outcome)
            some = closest_rows(outcome, 2)
            assert some == {group: rows[:2] for group, rows in closest_rows(outcome, None).items()}


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("top", [1, 3, None])
def test_narrowing_an_explanation_is_explaining_less(area: str, top: int | None) -> None:
    for result, names in _decisions(area):
        shown = Shown(top, also=(names[-1],))
        narrowed, less = explain(result, names).narrowed(shown), explain(result, names, shown)
        assert narrowed == less


def test_what_counts_all_nodes_does_so_however_few_are_shown() -> None:
    for result, names in _decisions("mixed"):
        whole, part = explain(result, names), explain(result, names, Shown(1))
        assert (part.ties, part.feasible_count, part.not_evaluated_count) == (
            whole.ties,
            whole.feasible_count,
            whole.not_evaluated_count,
        )
        assert [(count.reason, count.nodes) for count in part.rejection_summary] == [
            (count.reason, count.nodes) for count in whole.rejection_summary
        ]


def test_nodes_that_pre_filter_left_out_follow_under_a_reason_of_their_own() -> None:
    rejected = [("P", Verdicts.where(np.asarray([True]), Reason("one", Code.UNSCHEDULABLE)))]
    left_out = absent_status(frozenset({"A"}))
    outcome = FilterOutcome(4, np.zeros(4, np.bool_), rows=np.asarray([2]), verdicts=rejected, absent=left_out)
    assert closest_rows(outcome, 2) == {("P", "one"): [2], ("", left_out.texts[0]): [0, 1]}
