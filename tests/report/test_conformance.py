"""Reports about clusters of every kind: all formats can tell them, and each detail has a sentence of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest

from kplan.documents.schemas import load_schema
from kplan.planner.document import placement_report
from kplan.planner.explanation import Shown
from kplan.planner.preemption_report import preemption_report
from kplan.report import details
from kplan.report.options import ReportOptions
from kplan.report.registry import FORMATS, render
from tests.scenarios import CONFORMANCE, planner, scenarios

AREAS = sorted(path.name.removesuffix(".jsonl.gz") for path in CONFORMANCE.glob("*.jsonl.gz"))
EACH = 2


def _documents(area: str) -> Iterator[tuple[dict[str, Any], ReportOptions]]:
    for scenario in scenarios(area)[:EACH]:
        asked = planner(scenario)
        settles = scenario.get("settlePreemption", False)
        placements = asked.plan(scenario["pods"], settle_preemption=settles).placements
        everything = dict.fromkeys(range(len(placements)), Shown(None, with_score_details=True))
        yield placement_report(asked, placements, nodes_of=everything), ReportOptions(None, explain=True)
        yield placement_report(asked, placements), ReportOptions()
        few = dict.fromkeys(range(len(placements)), Shown(2))
        yield preemption_report(asked, placements, nodes_of=few, explain=True), ReportOptions(2, explain=True)


@pytest.mark.parametrize("area", AREAS)
def test_every_format_tells_every_cluster(area: str) -> None:
    for document, options in _documents(area):
        plain = json.loads(json.dumps(document))
        jsonschema.Draft202012Validator(load_schema(document["kind"])).validate(plain)
        for output in FORMATS:
            assert render(document, output, options)


@pytest.mark.parametrize("area", AREAS)
def test_every_detail_has_a_sentence(area: str, monkeypatch: pytest.MonkeyPatch) -> None:
    known = [fields for fields, _ in details._SENTENCES]
    for document, _ in _documents(area):
        for placement in document["placements"]:
            for rejection in placement.get("rejections", {}).values():
                for failure in (rejection, *rejection["alsoFailing"].values()):
                    for detail in failure["details"]:
                        assert any(fields <= detail.keys() for fields in known), detail
                        assert details.detail_text(detail)
