"""No file is opened for an agent; manifests may be text; the list of tools is valid and short."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from msgspec import inspect

import kplan
from kplan.catalogue import TOOLS
from kplan.errors import InputError
from kplan.mcp.tools import call, is_manifest, question_of_call, tools, type_of
from kplan.reading.arguments import is_file_path
from tests.objects import head

CANARY = "hunter2-from-a-file"
WEB = Path("fixtures/web.yaml").resolve().read_text()


def _with_files(kind: inspect.Type, path: str) -> Iterator[Any]:
    """Yield values of a type that name a file in one place, for every such place."""
    if is_file_path(kind):
        yield path
    elif isinstance(kind, inspect.VarTupleType):
        yield from ([value] for value in _with_files(kind.item_type, path))
    elif isinstance(kind, inspect.UnionType):
        for one in kind.types:
            yield from _with_files(one, path)
    elif isinstance(kind, inspect.StructType):
        for field in kind.fields:
            for value in _with_files(field.type, path):
                yield {**({"kind": kind.tag} if kind.tag else {}), field.encode_name: value}


PLACES = [(tool, arguments) for tool, kind in TOOLS.items() for arguments in _with_files(type_of(kind), "PATH")]


def _filled(value: Any, path: str) -> Any:
    if isinstance(value, dict):
        return {name: _filled(item, path) for name, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, path) for item in value]
    return path if value == "PATH" else value


def test_files_are_looked_for_at_every_depth() -> None:
    named = [str(arguments) for _, arguments in PLACES]
    assert len(named) > 50
    assert any("WhatIfQuestion" in text and "ManyRunsQuestion" in text for text in named)
    assert any("'shapes': 'PATH'" in text for text in named)


_opened: list[str] = []
_is_watching = False


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if _is_watching and event in ("open", "os.listdir", "os.scandir"):
        _opened.append(str(arguments[0]))


@pytest.fixture(scope="module")
def watched() -> list[str]:
    """The files that are opened; once a process is watched, it stays so."""
    sys.addaudithook(_watch)
    return _opened


@pytest.mark.parametrize("written", ["{0}", "./{0}", "-", "{0}/.."])
def test_what_names_a_file_is_refused_at_any_depth(
    watched: list[str], written: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "secret.json").write_text(f'[{{"name": "a", "cpu": "{CANARY}"}}]')
    planner = kplan.Planner("demo")
    for tool, arguments in PLACES:
        filled = {**_filled(arguments, written.format("secret.json"))}
        filled.pop("kind", None)
        watched.clear()
        monkeypatch.setattr(sys.modules[__name__], "_is_watching", True)
        answer = call(planner, tool, filled)
        monkeypatch.setattr(sys.modules[__name__], "_is_watching", False)

        assert answer.is_error, (tool, arguments)
        assert CANARY not in answer.text
        assert [path for path in watched if "secret" in path] == []
        assert "not read here" in answer.text or "is no kind of" in answer.text or "expected" in answer.text


@pytest.mark.parametrize(("tool", "kind"), TOOLS.items())
def test_a_question_that_needs_a_file_is_none(tool: str, kind: str) -> None:
    shapes = {"kind": "ShapesQuestion", "replicas": 3, "shapes": "shapes.json", "manifests": []}
    for arguments in ({"question": shapes}, {"before": shapes, "after": shapes}, {"checks": [{"question": shapes}]}):
        with pytest.raises(InputError):
            question_of_call(kind, arguments)


def test_manifests_of_every_kind_of_value_are_marked() -> None:
    """A parameter that takes objects takes text for them, and no path."""
    found = [
        field.encode_name
        for kind in TOOLS.values()
        for field in type_of(kind).fields  # type: ignore[attr-defined]  # every question is a struct
        if isinstance(field.type, inspect.VarTupleType) and is_manifest(field.type.item_type)
    ]
    assert set(found) == {"manifests", "objects"}


@pytest.mark.parametrize(
    "manifests",
    [
        [WEB],
        WEB,
        {"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(WEB)]},
        [f"# a comment\n{WEB}\n---\n"],
        [{"apiVersion": "v1", "kind": "List", "items": []}, WEB],
    ],
    ids=["text", "alone", "an object", "documents", "mixed"],
)
def test_manifests_may_be_yaml_text(manifests: Any) -> None:
    planner = kplan.Planner("demo")
    answer = call(planner, "place", {"manifests": manifests})
    assert not answer.is_error, answer.text
    assert answer.text.splitlines()[0] == "Deployment shop/web: all 3 replicas find a node, on 3 nodes"


def test_objects_of_a_changed_cluster_may_be_text_too() -> None:
    node = "kind: NodeList\napiVersion: v1\nitems:\n- metadata: {name: extra, annotations: {kplan/like: general-a-1}}\n"
    arguments = {"question": {"kind": "ExplainQuestion", "names": ["ml/llm-eval"]}, "objects": [node]}
    answer = call(kplan.Planner("demo"), "what_if", arguments)
    assert not answer.is_error, answer.text
    assert "none of 14 nodes" in answer.text


def test_json_text_is_text_too() -> None:
    answer = call(kplan.Planner("demo"), "pods", {"manifests": ['{"apiVersion": "v1", "kind": "Pod"}']})
    assert "name" in answer.text
    assert "not read here" not in answer.text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind: Pod\n\tx", "$.manifests[1] (document 1, line 2)"),
        ("kind: Pod\nkind: [\n", "$.manifests[1] (document 1"),
        ("just words\nand more\n", "$.manifests[1]"),
        ("apiVersion: v1\nkind: Pod\nx: " + "[" * 2000 + "]" * 2000, "nested"),
    ],
)
def test_text_that_cannot_be_read_is_told_with_its_place(text: str, words: str) -> None:
    answer = call(kplan.Planner("demo"), "place", {"manifests": [head("Pod", name="a"), text]})
    assert answer.is_error
    assert words in answer.text


@pytest.mark.parametrize("tool", tools(), ids=lambda tool: tool.name)
def test_the_schema_of_a_tool_is_valid_and_needs_no_kind(tool: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    assert not {"kind", "apiVersion"} & set(tool.input_schema["properties"])
    assert "Nothing is changed" in tool.description
    json.dumps(tool.input_schema)


def test_nothing_in_the_list_names_a_file() -> None:
    text = json.dumps([tool.input_schema for tool in tools()])
    for name in ('"shapes"', '"since"', "ShapesQuestion"):
        assert name not in text


def test_every_other_parameter_is_described() -> None:
    missing = [
        f"{tool.name}.{name}"
        for tool in tools()
        for name, schema in tool.input_schema["properties"].items()
        if not schema.get("description")
    ]
    assert missing == []


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("plan", {}),
        (
            "place",
            {"manifests": ["kind: Pod\n", {}], "replicas": 3, "timeline": {"start": {"*": 3}, "minReady": "80%"}},
        ),
        ("drain", {"nodes": ["a"], "how": "rolling", "options": {"force": True}}),
        ("what_if", {"question": {"kind": "DrainQuestion", "nodes": ["a"]}, "objects": [{}]}),
        ("check", {"checks": [{"name": "a", "question": {"kind": "PlanQuestion"}, "expect": {"pending": 0}}]}),
    ],
)
def test_arguments_match_their_schema(name: str, arguments: dict[str, Any]) -> None:
    schema = next(tool.input_schema for tool in tools() if tool.name == name)
    jsonschema.validate(arguments, schema)
