"""The server on standard input and output, with the official SDK (``kplan[mcp]``)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kplan.errors import UsageError
from kplan.mcp.tools import call, tools
from kplan.version import __version__

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server

    from kplan.cluster.base import Base

_INSTRUCTIONS = (
    "kplan answers questions about the scheduling of one Kubernetes cluster, exactly as its kube-scheduler decides. "
    "It never changes anything. Start with explain for a pod, plan for everything that is pending, drain_each for "
    "maintenance."
)


def serve(planner: Base) -> None:
    """Answer the requests on standard input until it ends; raises UsageError when the SDK is not installed."""
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ImportError:
        raise UsageError(
            "the SDK of the Model Context Protocol is not installed", hint="pip install 'kplan[mcp]'"
        ) from None
    server = server_of(planner)

    async def run() -> None:
        async with stdio_server() as (requests, responses):
            await server.run(requests, responses, server.create_initialization_options())

    anyio.run(run)


def server_of(planner: Base) -> Server[Any]:
    """Return a server of which each tool is a question to the planner."""
    import anyio
    import mcp_types as types
    from mcp.server.lowlevel import Server

    listed = types.ListToolsResult(
        tools=[
            types.Tool(
                name=tool.name,
                description=tool.description,
                input_schema=tool.input_schema,
                annotations=types.ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False),
            )
            for tool in tools()
        ]
    )
    one_at_a_time = anyio.Lock()

    async def list_tools(_context: Any, _parameters: Any) -> types.ListToolsResult:
        return listed

    async def call_tool(_context: Any, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        async with one_at_a_time:
            answer = await anyio.to_thread.run_sync(call, planner, parameters.name, parameters.arguments or {})
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=answer.text)],
            structured_content=answer.facts or None,
            is_error=answer.is_error,
        )

    return Server(
        "kplan", version=__version__, instructions=_INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )
