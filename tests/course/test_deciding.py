"""Decisions that are explained at once, or when somebody asks."""

from __future__ import annotations

import pytest

import kplan
from kplan.cluster.workload_pods import Replay
from kplan.course.in_order import place_in_order
from kplan.diagnosis.explanation import Shown

PENDING = ("shop/voucher-api", "shop/flash-sale", "ml/llm-eval", "ml/fine-tune", "batch/nightly-export")


@pytest.mark.parametrize("settle_preemption", [False, True])
def test_what_is_explained_at_once_is_what_is_explained_later(
    monkeypatch: pytest.MonkeyPatch, settle_preemption: bool
) -> None:
    monkeypatch.setattr("kplan.course.in_order._EAGER_CELLS", 0)
    planner, shown = kplan.Planner("demo"), Shown(2)
    later, at_once = (
        place_in_order(planner, PENDING, settle_preemption=settle_preemption, shown=nodes) for nodes in (None, shown)
    )

    with monkeypatch.context() as patched:
        patched.setattr(Replay, "at", None)  # nothing runs again
        written = [placement.to_dict(shown) for placement in at_once.placements]

    assert written == [placement.to_dict(shown) for placement in later.placements]
    assert at_once.placements[0].to_dict() == later.placements[0].to_dict()
