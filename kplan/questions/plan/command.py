"""`kplan plan`: the whole scheduling queue, until nothing changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from kplan.cli.answer import ask, emit, fail_on_of, showing_of
from kplan.cli.autoscaling import GrowingClusterFlags
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
from kplan.cli.saving import SaveOption, saving
from kplan.cli.sweeping import SweepFlags
from kplan.cli.timeline import TimelineFlags, check_alone, timed_change
from kplan.cli.updates import RolloutMode, RolloutOption
from kplan.errors import UsageError
from kplan.questions.running import many_runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kplan.documents.base import Report

_DEFAULT_ROUNDS = 10


EXAMPLES = """
kplan plan  # all pending pods
kplan plan web.yaml --save plan.json  # also those of a manifest; save the report
kplan plan --queue  # only the order of the queue
"""


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
    cluster: GrowingClusterFlags,
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
    showing = showing_of(output, fail_on_of(output, "plan"))
    manifests, namespace = manifests.or_pods_of_namespace(what)
    subject = ask(what, cluster, scheduler, verbosity, manifests, run_cronjobs=run_cronjobs)
    doing, base = "working through the scheduling queue", subject.base
    only_these = excludes_pending
    if not only_these and (choice.selector or namespace):
        known = base.world.pod_by_key
        chosen = choice.keys_of((known[key] for key in base.pending_keys()), namespace)
        subject, only_these = replace(subject, pods=[*subject.pods, *chosen]), True
    from kplan.questions.plan.question import Plan, Queue

    question = Plan(rollout=rollout.value, only_these=only_these, recreate=recreate, max_rounds=max_rounds)
    runs_once = runs is None and not queue
    with counted(doing, base, quiet=verbosity.quiet) if runs_once else busy(doing, quiet=verbosity.quiet):
        if queue:
            document: Report = Queue(only_these=only_these).answer_about(subject, showing)
        elif time.has_clock:
            document = timed_change(
                subject,
                "plan",
                time,
                rollout=rollout.value,
                output=output,
                fail_on=showing.fail_on or (),
                quiet=verbosity.quiet,
            )
        elif runs is not None:
            document = many_runs(
                question, subject, runs, showing, scheduler=scheduler, sweeping=sweeping, verbosity=verbosity
            )
        else:
            document = question.answer_about(subject, showing)
            if subject.has_updates and not verbosity.quiet:
                options = _passed_over(
                    choice, excludes_pending=excludes_pending, recreate=recreate, max_rounds=max_rounds
                )
                for option in options:
                    tell_no_effect(option, "a workload runs already, and its change is followed with the whole cluster")
    emit(document, output, verbosity, subject.manifests)


def _passed_over(choice: PodChoiceFlags, *, excludes_pending: bool, recreate: bool, max_rounds: int) -> Iterator[str]:
    """Return the options on the command line that concern only the queue."""
    options = {
        "--only-given": excludes_pending,
        "--no-recreate": not recreate,
        "--max-rounds": max_rounds != _DEFAULT_ROUNDS,
        "--selector": bool(choice.selector),
    }
    return (option for option, is_set in options.items() if is_set)
