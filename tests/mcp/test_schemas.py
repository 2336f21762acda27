"""The list of tools: valid, short, and without anything that names a file."""

import json
from typing import Any

import jsonschema
import pytest

from kplan.mcp.schemas import tools

MOST_TOKENS = 8_000
LEAST_CHARACTERS_OF_A_TOKEN = 3  #: of JSON


@pytest.mark.parametrize("tool", tools(), ids=lambda tool: tool.name)
def test_the_schema_of_a_tool_is_valid_and_needs_no_kind(tool: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    assert not {"kind", "apiVersion"} & set(tool.input_schema["properties"])
    assert "Nothing is changed" in tool.description
    json.dumps(tool.input_schema)


def test_the_list_is_short() -> None:
    listed = [
        {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema} for tool in tools()
    ]
    assert len(json.dumps(listed)) < MOST_TOKENS * LEAST_CHARACTERS_OF_A_TOKEN


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
