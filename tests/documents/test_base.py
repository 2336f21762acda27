"""What every document shares."""

import json

import msgspec
import pytest

from kplan.documents.base import Counted, Verdict, to_json
from kplan.documents.kinds import KINDS, REPORTS, struct_of
from kplan.documents.placement import Origin, PodRef
from kplan.facts import Document

WEB = PodRef("shop", "web-0", "u", 0, "default-scheduler", Origin("web.yaml", 1, "Deployment", "web"))


def test_names_are_camel_case_and_what_may_be_absent_is() -> None:
    pending = msgspec.structs.replace(WEB, origin=msgspec.UNSET)
    assert WEB.to_dict()["schedulerName"] == "default-scheduler"
    assert WEB.to_dict()["from"] == {"file": "web.yaml", "document": 1, "kind": "Deployment", "name": "web"}
    assert "from" not in pending.to_dict()
    assert msgspec.convert({**WEB.to_dict(), "ofALaterFormat": 1}, PodRef) == WEB
    assert json.loads(to_json(WEB)) == WEB.to_dict()
    assert WEB.key == "shop/web-0"


@pytest.mark.parametrize(
    ("counted", "line"),
    [
        (Counted("a/b", "Unschedulable"), "a/b: Unschedulable"),
        (Counted("a/b", "Preemption", node="n"), "a/b: Preemption on n"),
        (Counted("a/b", "PdbViolation", victim="c/d"), "a/b: PdbViolation of c/d"),
    ],
)
def test_a_verdict_says_in_a_line_what_it_counts(counted: Counted, line: str) -> None:
    assert Verdict.of(["unschedulable"], [counted]).because == (line,)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_a_struct_of_its_name(kind: str) -> None:
    struct = struct_of(kind)
    assert struct.__name__ == kind
    assert struct.__struct_fields__[:3] == ("api_version", "kind", "format_version")
    assert issubclass(struct, Document)


@pytest.mark.parametrize("kind", REPORTS)
def test_every_report_starts_alike(kind: str) -> None:
    fields = struct_of(kind).__struct_fields__
    assert fields[3:9] == ("generated_at", "sentence", "snapshot", "scheduler", "verdict", "warnings")
