"""The server, asked by the SDK's own client in a process of its own, and by one that keeps to no rules."""

import json
import sys
from pathlib import Path
from typing import Any

import anyio

from kplan.mcp.tools import tools
from tests.cli.commands import invoke, written
from tests.mcp.raw import Server, environment
from tests.mcp.test_tools import EVIL, HIDDEN, HUGE, texts_in
from tests.objects import head


def test_a_client_lists_the_tools_and_calls_them() -> None:
    import mcp  # takes a second, in each process that collects tests

    server = mcp.StdioServerParameters(
        command=sys.executable, args=["-m", "kplan", "mcp", "--snapshot", "demo"], env=environment()
    )

    async def talk() -> tuple[Any, ...]:
        # What stands for it by default is the standard error of whichever test imported the SDK first.
        client = mcp.stdio_client(server, sys.stderr)
        async with client as (read, write), mcp.ClientSession(read, write) as session:
            await session.initialize()
            listed = await session.list_tools()
            placed = await session.call_tool("place", {"pods": [HUGE]})
            refused = await session.call_tool("drain", {"nodes": ["no-such-node"]})
            checked = await session.call_tool("check", {})
            return listed, placed, refused, checked

    listed, placed, refused, checked = anyio.run(talk)
    assert {tool.name for tool in listed.tools} == {tool.name for tool in tools()}
    assert all(tool.annotations.read_only_hint for tool in listed.tools)
    assert len(listed.model_dump_json(by_alias=True, exclude_none=True)) < 8_000 * 3
    assert placed.content[0].text.startswith("default/huge fits nowhere")
    assert placed.structured_content["verdict"]["failed"] is True
    assert refused.is_error
    assert "no-such-node" in refused.content[0].text
    assert checked.structured_content["kind"] == "ChecksReport"


def test_nothing_is_hidden_in_any_message(tmp_path: Path) -> None:
    """Also in those of the SDK, which repeats what it is told."""
    node = head("Node", name=EVIL) | {"status": {"allocatable": {"cpu": "4", "pods": "9"}}}
    snapshot = written(tmp_path / "snapshot.json", json.dumps({"apiVersion": "v1", "kind": "List", "items": [node]}))

    messages = []
    with Server("--snapshot", str(snapshot)) as server:
        server.call(1, EVIL, {})
        messages.append(server.receive())
        server.call(2, "plan", [EVIL])
        messages.append(server.receive())
        server.call(3, "what_if", {"question": {"kind": "PlanQuestion"}, "cordon": ["nosuch"]})
        messages.append(server.receive())
        server.send(4, EVIL, {})
        messages.append(server.receive())

    assert [message["id"] for message in messages] == [1, 2, 3, 4]
    assert messages[1]["error"]["message"]
    assert "\\x1b" in messages[2]["result"]["content"][0]["text"]
    assert "\\x1b" in messages[3]["error"]["data"]
    assert [part for part in HIDDEN if any(part in text for message in messages for text in texts_in(message))] == []


def test_a_bound_that_makes_no_sense_is_refused() -> None:
    result = invoke("mcp", "--snapshot", "demo", "--timeout", "0")
    assert result.exit_code == 2
    assert "--timeout" in result.stderr
