"""Whole queues and capacities of the conformance scenarios, with_sentence in every format."""

import msgspec
import pytest

from kplan.capacity.counting import Template
from kplan.diagnosis.explanation import Shown
from kplan.documents.base import Report, with_sentence
from kplan.report.options import ReportOptions
from kplan.report.registry import FORMATS, render
from kplan.rules.pod_info import PodInfo
from tests.scenarios import key, pending, planner, scenarios
from tests.schemas import assert_keeps_to_its_schema

AREAS = ("mixed", "volumes", "dra", "preemption", "settle", "gates", "podaffinity")
OPTIONS = (ReportOptions(), ReportOptions(None, explain=True, is_wide=True), ReportOptions(has_colour=True))


def check_formats(document: Report) -> None:
    """Hold a document against its schema, and write it in all formats."""
    written = document.to_dict()
    assert_keeps_to_its_schema(written)
    assert msgspec.convert(written, type(document)) == with_sentence(document)
    for output in FORMATS:
        for options in OPTIONS:
            assert render(document, output, options).endswith("\n")


@pytest.mark.parametrize("area", AREAS)
@pytest.mark.parametrize("number", range(2))
def test_queues(area: str, number: int) -> None:
    scenario = scenarios(area)[number]
    check_formats(planner(scenario).plan_queue().report())


@pytest.mark.parametrize("area", AREAS)
def test_capacities(area: str) -> None:
    scenario = scenarios(area)[1]
    for preempt in (False, True):
        asking = planner(scenario)
        pod = asking.objects.pod_by_key[key(pending(scenario)[0])]
        fit = asking.capacity([Template("replicas", (PodInfo(pod),))], wanted=40, limit=60, preempt=preempt)
        check_formats(fit.report(nodes=Shown()))
