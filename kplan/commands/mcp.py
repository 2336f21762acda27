"""`kplan mcp`: the questions as tools for agents."""

from __future__ import annotations

from kplan.cli.flags import CommonFlags, GrowingClusterFlags, OutputFlags, SchedulerFlags, VerbosityFlags
from kplan.cli.options import flag, with_flags
from kplan.cli.subject import load_subject

DEFAULT_SECONDS = 300

EXAMPLES = """
kplan mcp --snapshot demo  # about the example cluster
kplan mcp --context prod-eu  # about a live cluster, read once
"""


@with_flags
def mcp(
    *,
    timeout: int = flag(
        "--timeout SECONDS", "A call without an answer by then ends with an error.", default=DEFAULT_SECONDS, min=1
    ),
    cluster: GrowingClusterFlags,
    scheduler: SchedulerFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Serve the questions as tools of the Model Context Protocol, on standard input and output.

    The cluster is read once, when the server starts. Tools only read: nothing is changed, no file is opened for an
    agent, and every answer is bounded in size. Calls run side by side, each in a process that ends with it, or when it
    is cancelled. Needs the extra kplan[mcp].
    """
    base = load_subject(
        None, CommonFlags(cluster=cluster, scheduler=scheduler, output=OutputFlags(), verbosity=verbosity)
    ).base
    from kplan.mcp.server import serve

    serve(base, timeout)
