"""`kplan plan`: the whole scheduling queue, until nothing changes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from kplan.cli.answer import ask, emit, fail_on_of, formats_of, shown_nodes, wants_map
from kplan.cli.choosing import PodChoiceFlags
from kplan.cli.flags import (
    ManifestFlags,
    OutputFlags,
    RunCronJobsOption,
    RunsOption,
    SchedulerFlags,
    VerbosityFlags,
    with_flags,
)
from kplan.cli.help import MORE
from kplan.cli.no_effect import tell_no_effect
from kplan.cli.phases import busy, counted
from kplan.cli.runs import odds_document, question_of_runs
from kplan.cli.sweeping import SweepFlags
from kplan.cli.timeline import TimelineFlags, check_alone, timed_change
from kplan.cli.updates import RolloutMode, RolloutOption, change_document
from kplan.cli.what_if import ChangedClusterFlags
from kplan.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kplan.answers.placement_report import NodesOf
    from kplan.documents.base import Condition, Report
    from kplan.documents.plan import PlanReport
    from kplan.effects.queue_plan import QueuePlan

Flags = TypeVar("Flags", bound=OutputFlags)

_DEFAULT_ROUNDS = 10
_OUTLINE_FORMATS = frozenset({"table", "wide", "markdown", "name"})
"""Formats that show pods that stay pending in full, and only the nodes of the others."""

SaveOption = Annotated[
    str,
    typer.Option(
        "--save", metavar="FILE", help="Also save the report as JSON, for kplan show.", rich_help_panel="Output"
    ),
]


@with_flags
def plan(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Manifests (file, directory, - for standard input) whose pods join the queue.",
            show_default=False,
        ),
    ] = None,
    *,
    queue: Annotated[bool, typer.Option("--queue", help="Only show the order of the queue, and why.")] = False,
    excludes_pending: Annotated[
        bool, typer.Option("--only-given", help="Only the pods given here, not the other pending pods of the cluster.")
    ] = False,
    recreate: Annotated[
        bool,
        typer.Option(
            "--recreate/--no-recreate",
            help="Recreate evicted pods as their controllers do, or not.",
            rich_help_panel=MORE,
        ),
    ] = True,
    max_rounds: Annotated[
        int,
        typer.Option(
            "--max-rounds",
            metavar="N",
            min=1,
            help="Stop after N rounds over the pods that are left.",
            rich_help_panel=MORE,
        ),
    ] = _DEFAULT_ROUNDS,
    rollout: RolloutOption = RolloutMode.AUTO,
    save: SaveOption = "",
    runs: RunsOption = None,
    run_cronjobs: RunCronJobsOption = False,
    time: TimelineFlags,
    choice: PodChoiceFlags,
    manifests: ManifestFlags,
    sweeping: SweepFlags,
    cluster: ChangedClusterFlags,
    scheduler: SchedulerFlags,
    output: OutputFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Work through the whole scheduling queue and every rollout, to the end.

    Pending pods are tried in the order of the queue. Pods that fit nowhere preempt others, controllers recreate the
    evicted pods, and these join the queue, until nothing changes. A manifest of a workload that runs already is an
    update, carried out as its controller does it. Exits with 1 if a pod stays unschedulable or a disruption budget is
    violated (--fail-on).
    """
    if excludes_pending and not what and not manifests.filename and not manifests.kustomize:
        hint = "name a manifest, or a pending pod as NAMESPACE/NAME"
        raise UsageError("--only-given needs manifests or pods", hint=hint)
    if queue and runs is not None:
        raise UsageError("--queue and --runs do not go together", hint="leave one of them out")
    check_alone(time, {"--queue": queue, "--runs": runs, "--only-given": excludes_pending})
    sweeping.check()
    output = saving(output, save)
    fail_on = fail_on_of(output, "plan")
    formats = formats_of(output)
    manifests, namespace = manifests.or_pods_of_namespace(what)
    question = ask(what, cluster, scheduler, verbosity, manifests, run_cronjobs=run_cronjobs)
    doing, planner = "working through the scheduling queue", question.planner
    pods, with_pending = question.pods, not excludes_pending
    if with_pending and (choice.selector or namespace):
        known = planner.world.pod_by_key
        pods = [*pods, *choice.keys_of((known[key] for key in planner.pending_keys()), namespace)]
        with_pending = False
    runs_once = runs is None and not queue
    with counted(doing, planner, quiet=verbosity.quiet) if runs_once else busy(doing, quiet=verbosity.quiet):
        if queue:
            from kplan.effects.queue_plan import queue_report

            queued = planner.queue_of(pods, with_pending=with_pending)
            document: Report = queue_report(planner, queued, fail_on=fail_on)
        elif time.has_clock:
            document = timed_change(
                question,
                "plan",
                time,
                rollout=rollout.value,
                output=output,
                fail_on=fail_on,
                replicas=manifests.replicas,
                quiet=verbosity.quiet,
            )
        elif runs is not None:
            from kplan.odds.of_pods import InQueue

            in_queue = InQueue(tuple(pods), with_pending, recreate, max_rounds)
            document = odds_document(
                *question_of_runs(question, in_queue, rollout, manifests.replicas),
                command="plan",
                runs=runs,
                fail_on=fail_on,
                scheduler=scheduler,
                sweeping=sweeping,
                verbosity=verbosity,
            )
        elif (
            change := change_document(
                question, "plan", rollout=rollout, output=output, fail_on=fail_on, replicas=manifests.replicas
            )
        ) is not None:
            document = change
            if not verbosity.quiet:
                options = _passed_over(
                    choice, excludes_pending=excludes_pending, recreate=recreate, max_rounds=max_rounds
                )
                for option in options:
                    tell_no_effect(option, "a workload runs already, and its change is followed with the whole cluster")
        else:
            from kplan.effects.queued import work_off

            planned = work_off(planner, pods, with_pending=with_pending, recreate=recreate, max_rounds=max_rounds)
            document = plan_document(planned, "plan", output, fail_on, formats)
    emit(document, output, verbosity, question.manifests)


def _passed_over(choice: PodChoiceFlags, *, excludes_pending: bool, recreate: bool, max_rounds: int) -> Iterator[str]:
    """Return the options on the command line that concern only the queue."""
    options = {
        "--only-given": excludes_pending,
        "--no-recreate": not recreate,
        "--max-rounds": max_rounds != _DEFAULT_ROUNDS,
        "--selector": bool(choice.selector),
    }
    return (option for option, is_set in options.items() if is_set)


def saving(output: Flags, path: str) -> Flags:
    """Return output flags that also save the report as JSON."""
    return output if not path else dataclasses.replace(output, report=[*(output.report or ()), f"json={path}"])


def plan_document(
    planned: QueuePlan, command: str, output: OutputFlags, fail_on: Sequence[Condition], formats: Sequence[str]
) -> PlanReport:
    """Return the PlanReport, with as many details as the formats show."""
    from kplan.effects.queue_plan import MOST_TIES

    return planned.report(
        fail_on=fail_on,
        command=command,
        nodes_of=_nodes_to_show(planned, output, formats),
        most_ties=None if output.explain else MOST_TIES,
        with_map=wants_map(output, formats),
        max_listed=output.max_listed,
    )


def _nodes_to_show(planned: QueuePlan, output: OutputFlags, formats: Sequence[str]) -> NodesOf:
    """Return the nodes to show for each placement: none for those of which tables show none."""
    from kplan.questions.plan.view import attempts_in_full

    in_full = set(attempts_in_full(planned.changes))
    is_outlined = _OUTLINE_FORMATS.issuperset(formats)
    others = shown_nodes(output, with_score_details=False) if output.explain else ()
    return {
        index: shown_nodes(output) if index in in_full else others
        for index in range(len(planned.placements))
        if index in in_full or not is_outlined
    }
