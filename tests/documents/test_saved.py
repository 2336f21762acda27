"""Saved reports, whole and broken."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kplan.documents.base import to_json
from kplan.documents.kinds import read_report
from kplan.errors import InputError
from kplan.questions.drain import Runbook
from kplan.report.options import ReportOptions
from kplan.report.registry import FORMATS, render
from tests.cli.commands import written
from tests.recorded import examples
from tests.report.documents import demo, demo_document
from tests.whole import kept

ODD = (None, [], {}, "x", -1, 1e300, True, [1], {"a": 1})


@kept
def reports() -> list[str]:
    documents = [demo_document(kind) for kind in ("place", "preempt", "explain")]
    return [json.dumps(document.to_dict()) for document in (*documents, demo().plan_queue())]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, item in items for place in ((*path, key), *places(item, (*path, key)))]


@settings(examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_broken_report_is_refused_or_told_in_every_format(tmp_path: Path, data: st.DataObject) -> None:
    report = json.loads(data.draw(st.sampled_from(reports())))
    place = data.draw(st.sampled_from(places(report)))
    holder = report
    for key in place[:-1]:
        holder = holder[key]
    if data.draw(st.booleans()):
        del holder[place[-1]]
    else:
        holder[place[-1]] = data.draw(st.sampled_from(ODD))
    path = written(tmp_path / "broken.json", json.dumps(report))

    problems = []
    try:
        found = read_report(str(path))
    except InputError as error:
        problems = [*error.problems]
    else:
        # A report without placements has no names, and is told all the same.
        assert all(render(found, output, ReportOptions(explain=True)) or output == "name" for output in FORMATS)
    assert all(problem.json_path and "`" not in problem.message for problem in problems)


def test_a_report_of_the_first_format_is_told_with_its_details_fact_by_fact(tmp_path: Path) -> None:
    report = demo_document("place").to_dict()
    report["formatVersion"] = "1.0"
    del report["verdict"]["counted"]
    for placement in report["placements"]:
        for rejection in placement["rejections"].values():
            for failure in (rejection, *rejection["alsoFailing"].values()):
                for detail in failure["details"]:
                    del detail["kind"]
    path = written(tmp_path / "old.json", json.dumps(report))

    text = render(read_report(str(path)), "table", ReportOptions(explain=True))

    assert "resource cpu, requested" in text


def test_a_runbook_of_the_last_release_is_told_without_the_rules_of_its_stuck_nodes(tmp_path: Path) -> None:
    report = demo().ask(Runbook(nodes=("spot-b-1",))).to_dict()
    for node in report["stuck"]:
        del node["rule"]
    path = written(tmp_path / "old.json", json.dumps(report))
    assert "Blocked" in render(read_report(str(path)), "junit", ReportOptions())


@pytest.mark.parametrize("kind", ["place", "preempt", "explain"])
def test_a_report_is_read_back_as_it_was(tmp_path: Path, kind: str) -> None:
    path = written(tmp_path / "report.json", to_json(demo_document(kind)))
    assert read_report(str(path)) == demo_document(kind)


def test_a_hint_for_a_saved_report_quotes_what_is_written(tmp_path: Path) -> None:
    report = yaml.safe_dump(demo_document("place").to_dict() | {"sentence": 1.5}, sort_keys=False)
    with pytest.raises(InputError) as refused:
        read_report(str(written(tmp_path / "report.yaml", report.replace("sentence: 1.5", "sentence: 1.50"))))
    (problem,) = refused.value.problems
    assert (problem.json_path, problem.hint) == ("$.sentence", 'put quotes around it: "1.50"')
