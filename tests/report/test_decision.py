"""A remedy as a sentence, and why a pod has no node."""

import pytest

from kplan.changes import remedy as r
from kplan.documents.placement import PodPlacement, PodRef
from kplan.framework.results import Outcome
from kplan.report.decision import decision_blocks, remedy_text
from kplan.report.options import ReportOptions


@pytest.mark.parametrize(
    ("helps", "end"),
    [
        (None, "1420m -> a"),
        (r.Helped(1, 4), "1420m -> a (1 of 4 pods)"),
        (r.Helped(2, 2), "1420m (both pods, the first on a)"),
        (r.Helped(3, 4), "1420m (3 of 4 pods, the first on a)"),
        (r.Helped(4, 4), "1420m (all 4 pods, the first on a)"),
    ],
)
def test_a_node_is_only_told_for_the_pod_that_goes_there(helps: r.Helped | None, end: str) -> None:
    change = r.RequestChange(container="app", resource="cpu", old="2", to="1420m")
    remedy = r.LowerRequest(change=change, then="a", helps=helps or r.UNSET)
    assert remedy_text(remedy) == f"lower the cpu request of container app from 2 to {end}"


def test_a_saved_report_with_an_empty_diagnosis_says_once_why() -> None:
    pod = PodRef(namespace="shop", name="web-0", uid="", priority=0, scheduler_name="default-scheduler")
    placement = PodPlacement(pod=pod, outcome=Outcome.GATED, node=None, message="It waits.", diagnosis="")
    assert list(decision_blocks(placement, 1, ReportOptions(), is_answer=True)) == []
