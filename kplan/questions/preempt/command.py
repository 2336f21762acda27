"""`kplan preempt`: which pods would be evicted to make room, and why these."""

from __future__ import annotations

from typing import Annotated

import typer

from kplan.cli.answer import ask, emit, fail_on_of, formats_of, shown_nodes, wants_map
from kplan.cli.choosing import PodChoiceFlags
from kplan.cli.flags import ManifestFlags, OutputFlags, RunCronJobsOption, SchedulerFlags, VerbosityFlags, with_flags
from kplan.cli.phases import busy, counted
from kplan.cli.what_if import ChangedClusterFlags


@with_flags
def preempt(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|NS/POD",
            help="Manifests, or pending pods of the cluster (default: every pending pod that fits nowhere).",
            show_default=False,
        ),
    ] = None,
    *,
    settle_preemption: Annotated[
        bool,
        typer.Option(
            "--settle-preemption", help="Carry out each preemption and place its pod before the next one is tried."
        ),
    ] = False,
    follow: Annotated[
        bool | None,
        typer.Option(
            "--follow/--no-follow",
            help="Show where victims go that a controller recreates (default: in tables).",
            show_default=False,
        ),
    ] = None,
    run_cronjobs: RunCronJobsOption = False,
    choice: PodChoiceFlags,
    manifests: ManifestFlags,
    cluster: ChangedClusterFlags,
    scheduler: SchedulerFlags,
    output: OutputFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Show which pods would be evicted to make room, and why those.

    Shows what the evictions free, which disruption budgets they violate, and where the victims go. Without arguments
    the question is about every pending pod that fits nowhere. Exits with 1 if preemption helps a pod nowhere, or
    would violate a disruption budget (--fail-on).
    """
    fail_on = fail_on_of(output, "preempt")
    formats = formats_of(output)
    manifests, namespace = manifests.or_pods_of_namespace(what)
    question = ask(what, cluster, scheduler, verbosity, manifests, run_cronjobs=run_cronjobs)
    planner, pods = question.planner, list(question.pods)
    from kplan.cluster.in_order import place_in_order
    from kplan.questions.preempt.document import follow_victims, pending_in_turn, preemption_report, without_room
    from kplan.report.registry import HUMAN_FORMATS

    is_all = not pods
    if is_all:
        known = planner.world.pod_by_key
        pods = list(choice.keys_of((known[key] for key in pending_in_turn(planner)), namespace))
    with counted("looking for pods to evict", planner, quiet=verbosity.quiet):
        plan = place_in_order(planner, pods, settle_preemption=settle_preemption)
    placements = without_room(plan.placements) if is_all else plan.placements
    is_followed = follow if follow is not None else not HUMAN_FORMATS.isdisjoint(formats)
    with busy("following the victims", quiet=verbosity.quiet):
        with_map = wants_map(output, formats)
        followed = follow_victims(planner, pods, with_map=with_map) if is_followed else None
    document = preemption_report(
        plan.context,
        placements,
        followed,
        fail_on=fail_on,
        nodes_of=dict.fromkeys(range(len(placements)), shown_nodes(output)),
        explain=output.explain,
    )
    emit(document, output, verbosity, question.manifests)
