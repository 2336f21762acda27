"""Reports about clusters of every kind: all formats can tell them, and each detail has a sentence of its own."""

from collections.abc import Iterator

import msgspec
import pytest

from kplan.diagnosis.explanation import Shown
from kplan.documents.base import Report, with_sentence
from kplan.documents.placement import PlacementReport, PreemptionReport
from kplan.engine.details import OtherFacts
from kplan.questions.preempt.document import preemption_report
from kplan.report.details import detail_text
from kplan.report.options import ReportOptions
from kplan.report.registry import FORMATS, render
from tests.recorded import IS_WHOLE, sample
from tests.scenarios import AREAS, planner, scenarios
from tests.schemas import assert_keeps_to_its_schema
from tests.whole import kept


@kept
def _documents(area: str) -> tuple[tuple[Report, ReportOptions], ...]:
    return tuple(_of_scenarios(area))


def _of_scenarios(area: str) -> Iterator[tuple[Report, ReportOptions]]:
    for scenario in scenarios(area)[: 2 if IS_WHOLE else 1]:
        planned_by = planner(scenario)
        settles = scenario.get("settlePreemption", False)
        plan = planned_by.plan(scenario["pods"], settle_preemption=settles)
        everything = dict.fromkeys(range(len(plan.placements)), Shown(None, with_score_details=True))
        yield plan.report(nodes_of=everything), ReportOptions(None, explain=True)
        yield plan.report(), ReportOptions()
        few = dict.fromkeys(range(len(plan.placements)), Shown(2))
        report = preemption_report(plan, plan.placements, nodes_of=few, explain=True)
        yield report, ReportOptions(2, explain=True)


@pytest.mark.parametrize("area", sample(AREAS, 4))
def test_every_format_tells_every_cluster(area: str) -> None:
    for document, options in _documents(area):
        plain = document.to_dict()
        assert_keeps_to_its_schema(plain)
        assert msgspec.convert(plain, type(document)) == with_sentence(document)
        for output in FORMATS:
            assert render(document, output, options)


@pytest.mark.parametrize("area", sample(AREAS, 4))
def test_every_detail_has_a_sentence(area: str) -> None:
    for document, _ in _documents(area):
        assert isinstance(document, PlacementReport | PreemptionReport)
        for placement in document.placements:
            for rejection in placement.rejections.values():
                for failure in (rejection, *rejection.also_failing.values()):
                    for detail in failure.details:
                        assert not isinstance(detail, OtherFacts)
                        assert detail_text(detail)
