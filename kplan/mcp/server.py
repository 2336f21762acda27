"""The server on standard input and output, with the official SDK (``kplan[mcp]``)."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kplan.errors import UsageError
from kplan.mcp.tools import tools
from kplan.version import __version__
from kplan.visible import shown

if TYPE_CHECKING:
    from mcp.server.lowlevel import Server
    from mcp.shared._stream_protocols import WriteStream
    from mcp.shared.message import SessionMessage

    from kplan.cluster.base import Base
    from kplan.mcp.calls import Calls

_INSTRUCTIONS = (
    "kplan answers questions about the scheduling of one Kubernetes cluster, exactly as its kube-scheduler decides. "
    "It never changes anything. Start with explain for a pod, plan for everything that is pending, drain_each for "
    "maintenance, check for what people rely on."
)


def serve(base: Base, seconds: float) -> None:
    """Answer the requests on standard input until it ends; a call ends without an answer after so many seconds.

    Raises UsageError when the SDK is not installed, and KplanError for settings of the cluster that cannot be used.
    """
    try:
        import anyio
        from mcp.server.stdio import stdio_server
    except ImportError:
        message = "the SDK of the Model Context Protocol is not installed"
        raise UsageError(message, hint="pip install 'kplan[mcp]'") from None
    from kplan.mcp.calls import Calls

    # Cached properties: what is wrong with the settings is told now, and calls open none of their files.
    base.session, base.followed  # noqa: B018 - asked for what they read and refuse
    calls = Calls(base, seconds)
    server = server_of(calls)

    async def run() -> None:
        async with stdio_server() as (requests, responses):
            await server.run(requests, _Visible(responses), server.create_initialization_options())

    try:
        anyio.run(run)
    finally:
        calls.close()


def server_of(calls: Calls) -> Server[Any]:
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

    async def list_tools(_context: Any, _parameters: Any) -> types.ListToolsResult:
        return listed

    async def call_tool(_context: Any, parameters: types.CallToolRequestParams) -> types.CallToolResult:
        answer = await calls.answer(parameters.name, parameters.arguments or {})
        text = types.TextContent(type="text", text=answer.text)
        return types.CallToolResult(content=[text], structured_content=answer.facts or None, is_error=answer.is_error)

    return Server(
        "kplan", version=__version__, instructions=_INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool
    )


class _Visible:
    """A stream of messages in which errors of the SDK, which repeat what it is told, show what they hold."""

    def __init__(self, stream: WriteStream[SessionMessage]) -> None:
        self._stream = stream

    async def send(self, item: SessionMessage, /) -> None:
        from mcp_types import ErrorData, JSONRPCError

        message = item.message
        if isinstance(message, JSONRPCError):
            message.error = ErrorData(**shown(message.error.model_dump(exclude_unset=True)))
        await self._stream.send(item)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        await self._stream.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None:
        return await self._stream.__aexit__(kind, error, trace)
