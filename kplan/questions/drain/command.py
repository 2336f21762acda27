"""`kplan drain`: what happens to the pods of nodes that are drained or lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kplan.cli.answer import ask, emit, fail_on_of, formats_of, showing_of, shown_nodes, wants_map
from kplan.cli.arguments import node_names
from kplan.cli.autoscaling import GrowingClusterFlags
from kplan.cli.choosing import NodeChoiceFlags
from kplan.cli.flags import OutputFlags, RunsOption, SchedulerFlags, VerbosityFlags, with_flags
from kplan.cli.formats import has_documents
from kplan.cli.help import MORE
from kplan.cli.phases import busy, counted
from kplan.cli.saving import SaveOption, saving
from kplan.cli.sweeping import SweepFlags
from kplan.cli.timeline import TimelineFlags, check_alone
from kplan.errors import UsageError
from kplan.questions.drain.question import Drain, How
from kplan.questions.drain.upgrading import UpgradeFlags, Way, timed_drain
from kplan.questions.running import many_runs

if TYPE_CHECKING:
    from kplan.cluster.base import Base
    from kplan.documents.base import Condition
    from kplan.documents.runbook import RunbookReport
    from kplan.simulation.draining import DrainOptions


@with_flags
def drain(
    nodes: Annotated[
        list[str] | None,
        typer.Argument(metavar="NODE", help="Names of nodes, or globs; also node/NODE.", show_default=False),
    ] = None,
    *,
    choice: NodeChoiceFlags,
    lost: Annotated[bool, typer.Option("--lost", help="The nodes fail at once; budgets do not count.")] = False,
    one_by_one: Annotated[
        bool,
        typer.Option(
            "--one-by-one",
            help="Evict one pod at a time, and wait for the cluster to settle.",
            rich_help_panel=MORE,
        ),
    ] = False,
    rolling: Annotated[
        bool, typer.Option("--rolling", help="Drain one node after another; uncordon each when it is empty.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace",
            help="Drain one node after another; replace each by an empty one like it.",
            rich_help_panel=MORE,
        ),
    ] = False,
    separately: Annotated[
        bool, typer.Option("--each", help="Drain each node on its own, each time from the current cluster.")
    ] = False,
    by: Annotated[
        str,
        typer.Option(
            "--by",
            metavar="zone|pool|LABEL",
            help="Implies --each: drain all nodes of a zone, a pool or a label's value together.",
        ),
    ] = "",
    force: Annotated[bool, typer.Option("--force", help="Also evict pods without a controller.")] = False,
    delete_emptydir_data: Annotated[
        bool, typer.Option("--delete-emptydir-data", help="Also evict pods with emptyDir volumes.")
    ] = False,
    ignore_daemonsets: Annotated[  # for the habit
        bool,
        typer.Option(
            "--ignore-daemonsets",
            help="Accepted as in kubectl drain; kplan always leaves pods of daemon sets alone.",
            show_default=False,
            rich_help_panel=MORE,
        ),
    ] = True,
    disable_eviction: Annotated[
        bool,
        typer.Option(
            "--disable-eviction",
            help="Delete the pods instead of evicting them; ignores disruption budgets.",
            rich_help_panel=MORE,
        ),
    ] = False,
    runbook: Annotated[
        bool,
        typer.Option(
            "--runbook",
            help="The safe order, and changes it needs, as commands.",
        ),
    ] = False,
    save: SaveOption = "",
    runs: RunsOption = None,
    time: TimelineFlags,
    upgrading: UpgradeFlags,
    sweeping: SweepFlags,
    cluster: GrowingClusterFlags,
    scheduler: SchedulerFlags,
    output: OutputFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Show what happens to the pods of nodes that are drained or lost.

    The nodes are cordoned and their pods evicted as kubectl drain does, as far as disruption budgets allow.
    Controllers recreate the pods, and the scheduler places them. Exits with 1 if a pod cannot be evicted, or one stays
    pending because of the drain (--fail-on).
    """
    _check(lost=lost, one_by_one=one_by_one, rolling=rolling, replace=replace)
    is_separate = separately or bool(by)
    others = {"--lost": lost, "--one-by-one": one_by_one, "--each": separately, "--by": by, "--runs": runs}
    if runbook:
        _check_runbook({**others, "--lost": lost, "--replace": replace or upgrading.profile is not None})
    else:
        check_alone(time, others)
    replace = replace or upgrading.profile is not None
    upgrading.check(has_clock=time.has_clock, rolling=rolling, replace=replace)
    sweeping.check()
    if is_separate and runs is not None:
        raise UsageError("--each and --runs are two ways to ask many questions", hint="choose one of them")
    if is_separate and (rolling or replace):
        raise UsageError("--each does not go with --rolling or --replace", hint="leave one of them out")
    output = saving(output, save)
    fail_on = fail_on_of(output, "drain")
    formats = formats_of(output)
    with_map = wants_map(output, formats)
    question = ask(None, cluster, scheduler, verbosity)
    from kplan.effects.change import drain as drain_nodes
    from kplan.effects.decisions import Decisions
    from kplan.effects.report import change_report
    from kplan.odds.luck import with_luck
    from kplan.simulation.draining import DrainOptions

    planner = question.base
    options = DrainOptions(force=force, delete_emptydir_data=delete_emptydir_data, disable_eviction=disable_eviction)
    names = choice.of(planner.world, node_names(nodes or ()), or_all=is_separate)
    if runbook:
        emit(_runbook(planner, names, options, time, fail_on, rolling=rolling, verbosity=verbosity), output, verbosity)
        return
    if is_separate:
        from kplan.questions.in_turn.drains import drains_report, label_of, together

        label = label_of(planner, by) if by else None
        groups = together(planner, names, label)
        with busy("draining nodes, each on its own", quiet=verbosity.quiet) as tell:
            document = drains_report(
                planner,
                groups,
                label=label,
                lost=lost,
                one_by_one=one_by_one,
                options=options,
                fail_on=fail_on,
                with_map=with_map,
                ask_all=sweeping.ask_all,
                progress=lambda n, of: tell(f"{n:,} of {of:,}"),
            )
        emit(document, output, verbosity)
        return
    how: How = "lost" if lost else "one-by-one" if one_by_one else "replace" if replace else "together"
    drained = Drain(nodes=tuple(names), how="rolling" if rolling and not replace else how, options=options)
    if runs is not None:
        showing = showing_of(output, fail_on)
        emit(
            many_runs(drained, question, runs, showing, scheduler=scheduler, sweeping=sweeping, verbosity=verbosity),
            output,
            verbosity,
        )
        return
    if time.has_clock:
        way: Way = "replace" if replace else "rolling" if rolling else "together"
        timed = timed_drain(
            question,
            names,
            options,
            way,
            time=time,
            flags=upgrading,
            output=output,
            fail_on=fail_on,
            verbosity=verbosity,
        )
        emit(timed, output, verbosity)
        return
    decisions = Decisions(nodes=shown_nodes(output), others=shown_nodes(output, with_score_details=False))
    with counted("draining nodes", planner, quiet=verbosity.quiet):
        change = drain_nodes(
            planner,
            names,
            lost=lost,
            one_by_one=one_by_one,
            rolling=rolling,
            replace=replace,
            options=options,
            decisions=decisions if has_documents(formats) else None,
            waits=True,
        )
    emit(
        change_report(
            planner,
            with_luck(change, drained.drawn(question)[1]),
            "drain",
            fail_on=fail_on,
            nodes=decisions.nodes,
            decisions=decisions,
            with_map=with_map,
            max_listed=output.max_listed,
        ),
        output,
        verbosity,
    )


def _check_runbook(others: Mapping[str, object]) -> None:
    for name, is_set in others.items():
        if is_set:
            raise UsageError(f"--runbook does not go with {name}", hint="leave one of them out")


def _runbook(
    planner: Base,
    names: Sequence[str],
    options: DrainOptions,
    time: TimelineFlags,
    fail_on: Sequence[Condition],
    *,
    rolling: bool,
    verbosity: VerbosityFlags,
) -> RunbookReport:
    from kplan.effects.timeline import Drained, carry_out_in_time
    from kplan.questions.runbook.steps import runbook_report

    def seconds_of(base: Base, name: str) -> float | None:
        plan = carry_out_in_time(base, [Drained(0.0, [name], options)], time.durations(base), until=time.look)
        return plan.timeline.end if plan.is_over else None

    with busy("writing the runbook", quiet=verbosity.quiet) as tell:
        return runbook_report(
            planner,
            names,
            rolling=rolling,
            options=options,
            seconds_of=seconds_of if time.timeline else None,
            fail_on=fail_on,
            progress=lambda done, of: tell(f"{done:,} of {of:,} nodes"),
        )


def _check(*, lost: bool, one_by_one: bool, rolling: bool, replace: bool) -> None:
    ways = {"--lost": lost, "--one-by-one": one_by_one, "--rolling": rolling or replace}
    chosen = [name for name, is_set in ways.items() if is_set]
    if len(chosen) > 1:
        raise UsageError(f"{chosen[0]} and {chosen[1]} are two ways to empty nodes", hint="choose one of them")
