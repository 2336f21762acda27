"""`kplan capacity`: how many replicas fit, where, and what stops the next one."""

from __future__ import annotations

import dataclasses
from typing import Annotated

import typer

from kplan.cli.answer import ask, emit, fail_on_of, formats_of, shown_nodes, split_arguments, wants_map
from kplan.cli.capacity_questions import CapacityQuestions, OtherQuestions
from kplan.cli.flags import ManifestFlags, OutputFlags, SchedulerFlags, VerbosityFlags, with_flags
from kplan.cli.manifests import read_manifests
from kplan.cli.no_effect import tell_no_effect
from kplan.cli.on_paper import ChangedClusterFlags
from kplan.cli.plan import SaveOption, saving
from kplan.cli.sweeping import SweepFlags
from kplan.errors import UsageError

_STANDARD_INPUT = "-"


@with_flags
def capacity(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE",
            help="Manifests (file, directory, - for standard input) of workloads.",
            show_default=False,
        ),
    ] = None,
    *,
    most: Annotated[
        int | None, typer.Option("--max", metavar="N", min=1, help="Stop counting at N replicas.", show_default=False)
    ] = None,
    exclude_nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude-nodes",
            metavar="NODE,...",
            help="Leave these nodes out; repeatable.",
            show_default=False,
        ),
    ] = None,
    mix: Annotated[
        str, typer.Option("--mix", metavar="N:M...", help="Ratio in which several workloads are counted (default 1:1).")
    ] = "",
    preempt: Annotated[
        bool, typer.Option("--preempt", help="Also count the room of pods that preemption would evict.")
    ] = False,
    other: OtherQuestions,
    save: SaveOption = "",
    sweeping: SweepFlags,
    manifests: ManifestFlags,
    cluster: ChangedClusterFlags,
    scheduler: SchedulerFlags,
    output: OutputFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Count how many replicas fit, where, and what stops the next.

    Replicas are placed one after another, as kube-scheduler would, until one does not fit. With --replicas N, if fewer
    than N fit, shows which nodes to add and exits with 1 (--fail-on).
    """
    files, names = split_arguments(what or (), manifests.filename or ())
    has_manifests = bool(files or manifests.kustomize)
    if names or not (has_manifests or other.may_ask_without_manifests):
        hint = "name a manifest: kplan capacity web.yaml"
        raise UsageError(f"{names[0]} is not a manifest" if names else "nothing to count", hint=hint)
    if [*files, cluster.snapshot, other.shapes].count(_STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read once only", hint="give all but one as files")
    if most is not None and manifests.replicas is not None and most < manifests.replicas:
        hint = f"leave out --max: --replicas {manifests.replicas} stops the count by itself"
        raise UsageError(f"--max {most} is below --replicas {manifests.replicas}", hint=hint)
    other.refuse(
        {
            "FILE": has_manifests,
            "--replicas": manifests.replicas is not None,
            "--mix": bool(mix),
            "--preempt": preempt,
            "--max": most is not None,
        }
    )
    if other.shapes and manifests.replicas is None:
        raise UsageError("--shapes needs --replicas", hint="for example --replicas 40")
    sweeping.check()
    shares = _shares(mix)
    output = saving(output, save)
    fail_on = fail_on_of(output, "capacity") if output.fail_on else None
    with_map = wants_map(output, formats_of(output))
    planner = ask(None, cluster, scheduler, verbosity).planner
    from kplan.planner.capacity_plan import without_nodes_and_pods

    excluded = [name for listed in exclude_nodes or () for name in listed.split(",") if name]
    if excluded:
        planner = planner.with_world(without_nodes_and_pods(planner.snapshot, excluded))
    loaded = None
    if has_manifests:
        # Replicas come on top of running ones, so they are numbered as if none of the same name ran.
        alone = dataclasses.replace(planner.snapshot, pods=())
        minor = planner.release.number
        loaded = read_manifests(files, manifests, cluster, alone, verbosity, replicas=1, minor=minor)
    if len(shares) == 1 and loaded and len(loaded.pods) == 1 and not verbosity.quiet:
        tell_no_effect("--mix", "one number is no mix; give one for each workload")
    questions = CapacityQuestions(
        planner,
        loaded,
        {"wanted": manifests.replicas, "limit": most},
        fail_on,
        shown_nodes(output),
        with_map=with_map,
        verbosity=verbosity,
    )
    if other.headroom:
        document = questions.headroom(sweeping)
    elif other.shrink:
        document = questions.shrink(other)
    else:
        document = questions.count(shares, other, preempt=preempt)
    emit(document, output, verbosity, loaded)


def _shares(text: str) -> list[int]:
    if not text:
        return []
    parts = text.split(":")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise UsageError(f"--mix {text}: expected numbers from 1 up with colons between", hint="for example --mix 3:1")
    return [int(part) for part in parts]
