"""The server, asked by the SDK's own client in a process of its own."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import jsonschema
import mcp
import pytest

import kplan
from kplan.mcp.tools import MAX_TEXT, call, tools
from tests.objects import head

ROOT = Path(__file__).parents[2]
HUGE = head("Pod", name="huge") | {
    "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "60"}}}]}
}


@pytest.fixture(scope="module")
def planner() -> kplan.Planner:
    return kplan.Planner(kplan.load_snapshot("demo"))


def test_a_client_lists_the_tools_and_calls_them() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "kplan", "mcp", "--snapshot", "demo"], env=environment
    )

    async def talk() -> tuple[Any, Any, Any]:
        async with mcp.stdio_client(server) as (read, write), mcp.ClientSession(read, write) as session:
            await session.initialize()
            listed = await session.list_tools()
            placed = await session.call_tool("place", {"pods": [HUGE]})
            refused = await session.call_tool("drain", {"nodes": ["no-such-node"]})
            return listed, placed, refused

    listed, placed, refused = anyio.run(talk)
    assert {tool.name for tool in listed.tools} == {tool.name for tool in tools()}
    assert all(tool.annotations.read_only_hint for tool in listed.tools)
    assert placed.content[0].text.startswith("default/huge: fits nowhere")
    assert placed.structured_content["verdict"]["failed"] is True
    assert refused.is_error
    assert "no-such-node" in refused.content[0].text


@pytest.mark.parametrize("tool", tools(), ids=lambda tool: tool.name)
def test_the_schema_of_a_tool_is_valid_and_needs_no_kind(tool: Any) -> None:
    jsonschema.Draft202012Validator.check_schema(tool.input_schema)
    assert not {"kind", "apiVersion"} & set(tool.input_schema["properties"])
    assert "Nothing is changed" in tool.description
    json.dumps(tool.input_schema)


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("plan", {}, "7 pods"),
        ("explain", {"names": ["ml/llm-eval"]}, "ml/llm-eval"),
        ("drain_each", {"question": {"kind": "DrainQuestion", "nodes": ["spot-a-1"]}}, "Any one node"),
        ("what_if", {"question": {"kind": "PlanQuestion"}, "addNodes": ["1=general-a-1"]}, "pods"),
        ("pods", {"manifests": [HUGE]}, "1 pods"),
    ],
)
def test_a_tool_answers_with_the_sentence_first(
    planner: kplan.Planner, name: str, arguments: dict[str, Any], words: str
) -> None:
    answer = call(planner, name, arguments)
    assert not answer.is_error, answer.text
    assert words in answer.text.splitlines()[0]


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("place", {"manifests": ["/etc/passwd"]}, "files are not read here"),
        ("what_if", {"question": {"kind": "PlaceQuestion", "manifests": ["x.yaml"]}}, "$.question.manifests[0]"),
        ("what_if", {"question": {"kind": "PlanQuestion"}, "objects": ["x.yaml"]}, "$.objects[0]"),
        ("no_such_tool", {}, "choose from explain"),
        ("drain", {"node": ["a"]}, "did you mean nodes?"),
    ],
)
def test_what_cannot_be_answered_is_an_error_that_says_why(
    planner: kplan.Planner, name: str, arguments: dict[str, Any], words: str
) -> None:
    answer = call(planner, name, arguments)
    assert answer.is_error
    assert words in answer.text


def test_an_answer_is_bounded_in_size(planner: kplan.Planner) -> None:
    pods = [{**HUGE, "metadata": {"name": f"huge-{index}"}} for index in range(400)]
    answer = call(planner, "place", {"pods": pods})
    assert len(answer.text) <= MAX_TEXT + 100
    assert len(json.dumps(answer.facts)) < 10_000
