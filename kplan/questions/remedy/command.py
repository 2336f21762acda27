"""`kplan remedy`: what to do so that pending pods run."""

from __future__ import annotations

from typing import Annotated

import typer

from kplan.cli.answer import ask, emit, fail_on_of, formats_of
from kplan.cli.arguments import spelled_out
from kplan.cli.flags import OutputFlags, SchedulerFlags, VerbosityFlags, with_flags
from kplan.cli.phases import busy
from kplan.cli.saving import SaveOption, saving
from kplan.cli.what_if import ChangedClusterFlags


@with_flags
def remedy(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NS/POD|KIND/[NS/]NAME",
            help="Pending pods, or workloads whose pending pods are meant (default: every pending pod).",
            show_default=False,
        ),
    ] = None,
    *,
    namespace: Annotated[
        str, typer.Option("--namespace", "-n", metavar="NS", help="Namespace, where the argument does not name one.")
    ] = "",
    only: Annotated[
        str,
        typer.Option(
            "--only",
            metavar="KIND,...",
            help="Take only such actions: uncordon, moves, nodes, scale, requests, selectors, tolerations, rules, "
            "names; changes for the last five.",
        ),
    ] = "",
    avoid: Annotated[str, typer.Option("--not", metavar="KIND,...", help="Take no such actions.")] = "",
    save: SaveOption = "",
    cluster: ChangedClusterFlags,
    scheduler: SchedulerFlags,
    output: OutputFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Find the least that has to be done so that pending pods run.

    Uncordons nodes, moves running pods, adds nodes, scales, and changes what pods ask for. Every set of actions is
    carried out as a whole in a simulation, within all disruption budgets. Sets of other kinds of actions are shown
    beside the least one. Exits with 1 if a pod stays pending (--fail-on).
    """
    output = saving(output, save)
    fail_on = fail_on_of(output, "remedy")
    formats_of(output)
    from kplan.actions.actions import allowed_kinds

    kinds = allowed_kinds(_words(only), _words(avoid))
    namespace = namespace or cluster.default_namespace()
    planner = ask(None, cluster, scheduler, verbosity).planner
    from kplan.questions.remedy.report import remedy_report
    from kplan.subjects.names import pods_named

    keys = None
    if what:
        named = pods_named(list(spelled_out(what)), namespace, planner.world)
        known = planner.world.pod_by_key
        waiting = [key for key in named if key not in known or not known[key].spec.node_name]
        planner.resolve(waiting or named)
        keys = waiting
    with busy("looking for what helps", quiet=verbosity.quiet) as tell:
        document = remedy_report(
            planner, keys, kinds=kinds, fail_on=fail_on, progress=lambda n: tell(f"{n:,} sets tried")
        )
    emit(document, output, verbosity)


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
