"""`kplan place`: where pods or workloads would land, and why there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from kplan.cli.answer import Question, ask, emit, fail_on_of, formats_of, shown_nodes, wants_map
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
from kplan.cli.phases import counted
from kplan.cli.runs import odds_document, question_of_runs
from kplan.cli.sweeping import SweepFlags
from kplan.cli.timeline import TimelineFlags, check_alone, timed_change
from kplan.cli.updates import RolloutMode, RolloutOption, change_document
from kplan.cli.what_if import ChangedClusterFlags
from kplan.errors import NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kplan.answers.placement import Placement
    from kplan.diagnosis.explanation import Shown

_OUTLINE_FORMATS = frozenset({"table", "wide", "markdown", "name"})
"""Formats that show details of a few of many replicas, and only the nodes of the others."""


@with_flags
def place(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|NS/POD|KIND/[NS/]NAME",
            help="Manifests (file, directory, - for standard input), or pending pods or workloads of the cluster.",
            show_default=False,
        ),
    ] = None,
    *,
    runs: RunsOption = None,
    rollout: RolloutOption = RolloutMode.AUTO,
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
    """Show where pods or workloads would land, and why.

    Pods are placed one after another, in the order given. A manifest of a workload that runs already is an update:
    the workload is scaled or rolled out as its controller does it, or left alone if nothing changes. Exits with 1 if
    a pod is unschedulable, gated or would preempt others (--fail-on).
    """
    manifests, namespace = manifests.or_pods_of_namespace(what)
    is_chosen = bool(choice.all_namespaces or choice.selector or namespace)
    if not what and not manifests.filename and not manifests.kustomize and not is_chosen:
        hint = "name a manifest, a pod or a workload: kplan place web.yaml; or choose pending pods with -n, -l or -A"
        raise UsageError("nothing to place", hint=hint)
    check_alone(time, {"--runs": runs})
    sweeping.check()
    fail_on = fail_on_of(output, "place")
    formats = formats_of(output)
    is_outlined = _OUTLINE_FORMATS.issuperset(formats)
    question = ask(what, cluster, scheduler, verbosity, manifests, run_cronjobs=run_cronjobs)
    if is_chosen and not question.pods:
        question = _pending(question, choice, namespace)
    if time.has_clock:
        if question.names_pods or question.manifests is None:
            hint = "give manifests, or ask kplan plan --timeline for when pending pods run"
            raise UsageError("--timeline needs manifests", hint=hint)
        with counted("following what the manifests change", question.planner, quiet=verbosity.quiet):
            timed = timed_change(
                question,
                "place",
                time,
                rollout=rollout.value,
                output=output,
                fail_on=fail_on,
                replicas=manifests.replicas,
                quiet=verbosity.quiet,
            )
        emit(timed, output, verbosity, question.manifests)
        return
    if runs is not None:
        from kplan.odds.of_pods import InOrder

        odds = odds_document(
            *question_of_runs(question, InOrder(tuple(question.pods)), rollout, manifests.replicas),
            command="place",
            runs=runs,
            fail_on=fail_on,
            scheduler=scheduler,
            sweeping=sweeping,
            verbosity=verbosity,
        )
        emit(odds, output, verbosity)
        return
    with counted("following what the manifests change", question.planner, quiet=verbosity.quiet):
        change = change_document(
            question, "place", rollout=rollout, output=output, fail_on=fail_on, replicas=manifests.replicas
        )
    if change is not None:
        emit(change, output, verbosity, question.manifests)
        return
    from kplan.cluster.in_order import place_in_order

    with counted("deciding where pods go", question.planner, quiet=verbosity.quiet):
        plan = place_in_order(question.planner, question.pods)
    listed = plan.placements[: output.max_listed]
    others = shown_nodes(output, with_score_details=False)
    nodes_of = nodes_to_show(listed, shown_nodes(output), others, is_outlined=is_outlined)
    with_map = wants_map(output, formats)
    document = plan.report(fail_on=fail_on, nodes_of=nodes_of, max_listed=output.max_listed, with_map=with_map)
    emit(document, output, verbosity, question.manifests)


def _pending(question: Question, choice: PodChoiceFlags, namespace: str) -> Question:
    """Return the question about the chosen pending pods; raises NotFoundError where there are none."""
    planner = question.planner
    known = planner.world.pod_by_key
    keys = choice.keys_of((known[key] for key in planner.pending_keys()), namespace)
    if not keys:
        where = f" in namespace {namespace}" if namespace and not choice.all_namespaces else ""
        hint = "name a pod as NAMESPACE/NAME, or a manifest: kplan place web.yaml"
        raise NotFoundError(f"no such pending pod{where}", hint=hint)
    return replace(question, pods=keys, names_pods=True)


def nodes_to_show(
    placements: Sequence[Placement], in_full: Shown, else_shown: Shown, *, is_outlined: bool
) -> dict[int, Shown | None]:
    """Return the nodes to show for each placement: in full for placements that tables show in full.

    Parameters
    ----------
    in_full : for the first of each outcome of a workload
    is_outlined : the other replicas need no nodes
    """
    from kplan.questions.place.view import representatives, unplaced_daemons, workload_groups

    groups = workload_groups([placement.pod for placement in placements])
    chosen = representatives([(placement.outcome, placement.message) for placement in placements], groups)
    chosen |= unplaced_daemons([(placement.outcome, placement.pod) for placement in placements])
    return {
        index: in_full if index in chosen else else_shown
        for index in range(len(placements))
        if index in chosen or not is_outlined
    }
