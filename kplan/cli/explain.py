"""`kplan explain`: why a pod is where it is, or nowhere."""

from __future__ import annotations

from typing import Annotated

import typer

from kplan.cli.answer import ask, emit, fail_on_of, formats_of, shown_nodes
from kplan.cli.flags import OutputFlags, SchedulerFlags, VerbosityFlags, with_flags
from kplan.cli.on_paper import SettledClusterFlags


@with_flags
def explain(
    pod: Annotated[str, typer.Argument(metavar="NS/POD", help="A pod of the snapshot, pending or running.")],
    *,
    cluster: SettledClusterFlags,
    scheduler: SchedulerFlags,
    output: OutputFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Say why a pod, pending or running, is where it is, or nowhere.

    A running pod is judged against the cluster without it: whether its node still takes it, and is still the best.
    """
    fail_on = fail_on_of(output, "explain")
    formats_of(output)
    planner = ask(None, cluster, scheduler, verbosity).planner
    from kplan.planner.whereabouts import explain_pod

    emit(explain_pod(planner, pod).report(fail_on=fail_on, nodes=shown_nodes(output)), output, verbosity)
