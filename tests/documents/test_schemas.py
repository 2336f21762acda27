import json
import re
from typing import Any

import jsonschema
import pytest

import kplan
from kplan.documents.kinds import SCHEMA_KINDS, schema_text
from kplan.errors import Problem, UsageError
from kplan.report.config_view import config_check as check_report
from kplan.report.config_view import config_report
from kplan.report.registry import KINDS
from tests.recorded import sample
from tests.remedies.everyday import on_node
from tests.report.documents import demo_document, node, placed, pod
from tests.schemas import assert_keeps_to_its_schema

DRAFT = jsonschema.Draft202012Validator


def test_schemas_are_schemas_and_hold_all_they_refer_to() -> None:
    parts: dict[str, Any] = {}  # each text once, as most schemas hold the same definitions
    for kind in SCHEMA_KINDS:
        text = schema_text(kind)
        schema = json.loads(text)
        assert schema["title"] == kind
        assert schema["properties"]["kind"] == {"const": kind}
        definitions = schema.pop("$defs")
        assert set(re.findall(r'"#/\$defs/([^"]*)"', text)) <= definitions.keys()
        assert not [name for name in definitions if "." in name]
        parts |= {json.dumps(part): part for part in (schema, *definitions.values())}
    DRAFT.check_schema({"$defs": dict(sample([*parts.items()], 12))})


def test_every_kind_that_is_told_has_a_schema() -> None:
    assert set(KINDS) <= set(SCHEMA_KINDS)


@pytest.mark.parametrize("explain", [False, True])
@pytest.mark.parametrize("kind", ["place", "preempt", "explain"])
def test_documents_about_the_demo_cluster(kind: str, explain: bool) -> None:
    assert_keeps_to_its_schema(demo_document(kind, explain=explain).to_dict())


@pytest.mark.parametrize(
    "objects",
    [
        [node("n"), pod("p")],
        [node("n", cpu="1"), pod("p", cpu="2")],
        [node("n", cpu="1"), pod("q", cpu="1", node="n"), pod("p", cpu="1", priority=10)],
        [node("n"), pod("p", schedulingGates=[{"name": "wait"}])],
        [node("n"), pod("p", schedulerName="nobody")],
        [node("n"), node("m"), pod("p", **on_node("m"))],
    ],
    ids=["scheduled", "unschedulable", "preempting", "gated", "without a profile", "named by PreFilter"],
)
def test_documents_about_every_outcome(objects: list[dict[str, Any]]) -> None:
    assert_keeps_to_its_schema(placed(objects, ["default/p"]).to_dict())


def test_a_field_that_is_not_described_is_found() -> None:
    document = demo_document("place").to_dict()
    document["placements"][0]["surprise"] = 1
    with pytest.raises(jsonschema.ValidationError, match="surprise"):
        assert_keeps_to_its_schema(document)


def test_unknown_kinds_are_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match="no document is of kind 'placement'") as refusal:
        schema_text("placement")
    assert refusal.value.hint == "did you mean PlacementReport?"


@pytest.mark.parametrize("config", [None, {"profiles": [{"schedulerName": "mine"}]}])
def test_documents_about_configurations(config: dict[str, Any] | None) -> None:
    about = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = kplan.load_scheduler_config(None if config is None else {**about, **config})
    assert_keeps_to_its_schema(config_report(config).to_dict())
    assert_keeps_to_its_schema(check_report("x", config, ()).to_dict())
    assert_keeps_to_its_schema(check_report("x", None, [Problem("is odd", json_path="$.a")]).to_dict())
