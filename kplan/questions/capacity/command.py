"""`kplan capacity`: how many replicas fit, where, and what stops the next one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from kplan.api.kinds import DAEMON_SET
from kplan.api.references import object_name
from kplan.cli.answer import ask, emit, fail_on_of, formats_of, shown_nodes, wants_map
from kplan.cli.arguments import STANDARD_INPUT, split_arguments
from kplan.cli.flags import ManifestFlags, OutputFlags, SchedulerFlags, VerbosityFlags, with_flags
from kplan.cli.help import MORE
from kplan.cli.manifests import read_manifests
from kplan.cli.no_effect import tell_no_effect
from kplan.cli.saving import SaveOption, saving
from kplan.cli.sweeping import SweepFlags
from kplan.cli.what_if import ChangedClusterFlags
from kplan.errors import UsageError
from kplan.questions.capacity.other_commands import CapacityQuestions, OtherQuestions

if TYPE_CHECKING:
    from kplan.snapshot.model import Snapshot


@with_flags
def capacity(
    what: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="FILE|KIND/[NS/]NAME",
            help="Manifests (file, directory, - for standard input), or workloads of the cluster.",
            show_default=False,
        ),
    ] = None,
    *,
    most: Annotated[
        int | None,
        typer.Option(
            "--max",
            metavar="N",
            min=1,
            help="Stop counting at N replicas.",
            show_default=False,
            rich_help_panel=MORE,
        ),
    ] = None,
    exclude_nodes: Annotated[
        list[str] | None,
        typer.Option(
            "--exclude-nodes",
            metavar="NODE,...",
            help="Leave these nodes out; repeatable.",
            show_default=False,
            rich_help_panel=MORE,
        ),
    ] = None,
    mix: Annotated[
        str,
        typer.Option(
            "--mix",
            metavar="N:M...",
            help="Ratio in which several workloads are counted (default 1:1).",
            rich_help_panel=MORE,
        ),
    ] = "",
    preempt: Annotated[bool, typer.Option("--preempt", help="Also count room that preemption would make.")] = False,
    other: OtherQuestions,
    save: SaveOption = "",
    sweeping: SweepFlags,
    manifests: ManifestFlags,
    cluster: ChangedClusterFlags,
    scheduler: SchedulerFlags,
    output: OutputFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Count how many replicas fit, where, and what stops the next one.

    Replicas are placed one after another, as kube-scheduler would, until one does not fit. With --replicas N, if fewer
    than N fit, shows which nodes to add and exits with 1 (--fail-on).
    """
    files, names = split_arguments(what or (), manifests.filename or (), manifests.namespace)
    has_manifests = bool(files or manifests.kustomize)
    if not (names or has_manifests or other.may_ask_without_manifests):
        hint = "name a manifest or a workload: kplan capacity web.yaml, kplan capacity deploy/shop/cart"
        raise UsageError("nothing to count", hint=hint)
    if [*files, cluster.snapshot, other.shapes].count(STANDARD_INPUT) > 1:
        raise UsageError("standard input can be read only once", hint="pass all but one of them as files")
    if most is not None and manifests.replicas is not None and most < manifests.replicas:
        hint = f"leave out --max: --replicas {manifests.replicas} stops the count by itself"
        raise UsageError(f"--max {most} is below --replicas {manifests.replicas}", hint=hint)
    other.refuse(
        {
            "FILE": bool(has_manifests or names),
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
    from kplan.capacity.measure import without_nodes_and_pods

    excluded = [name for listed in exclude_nodes or () for name in listed.split(",") if name]
    if excluded:
        planner = planner.with_world(without_nodes_and_pods(planner.snapshot, excluded))
    loaded = None
    if has_manifests:
        # Replicas come on top of running ones, so they are numbered as if none of the same name ran.
        alone = dataclasses.replace(planner.snapshot, pods=())
        minor = planner.release.number
        loaded = read_manifests(files, manifests, cluster, alone, verbosity, replicas=1, minor=minor)
    workloads = _workloads(names, manifests.namespace or cluster.default_namespace(), planner.world)
    n_counted = len(workloads) + (len(loaded.pods) if loaded else 0)
    if len(shares) == 1 and n_counted == 1 and not verbosity.quiet:
        tell_no_effect("--mix", "a mix needs a number for each workload")
    questions = CapacityQuestions(
        planner,
        loaded,
        workloads,
        {"wanted": manifests.replicas, "limit": most},
        fail_on,
        shown_nodes(output),
        with_map=with_map,
        verbosity=verbosity,
    )
    if other.headroom:
        document = questions.headroom(sweeping, "" if other.all_namespaces else manifests.namespace)
    elif other.shrink:
        document = questions.shrink(other)
    else:
        document = questions.count(shares, other, preempt=preempt)
    emit(document, output, verbosity, loaded)


def _workloads(names: Sequence[str], namespace: str, world: Snapshot) -> list[str]:
    """Return the workloads of the cluster that arguments name, as KIND/NAMESPACE/NAME."""
    from kplan.subjects.names import object_named
    from kplan.subjects.workload_pods import living_pods, workloads_called

    workloads = []
    for name in names:
        meant = object_named(name, namespace, world)
        if meant.kind == "Pod":
            near = workloads_called(world, meant.key)
            hint = f"did you mean {', '.join(near)}?" if near else "name it as KIND/NAMESPACE/NAME, or name a manifest"
            raise UsageError(f"{name} is neither a manifest nor a workload", hint=hint)
        if meant.kind == DAEMON_SET:
            raise UsageError(
                f"DaemonSet {meant.key} has one pod per node, so there are no replicas to count",
                hint=f"kplan explain ds/{meant.key} shows its pods",
            )
        living_pods(world, *meant)
        workloads.append(object_name(*meant))
    return workloads


def _shares(text: str) -> list[int]:
    if not text:
        return []
    parts = text.split(":")
    if not all(part.isdecimal() and int(part) for part in parts):
        raise UsageError(f"--mix {text}: expected numbers from 1 up with colons between", hint="for example --mix 3:1")
    return [int(part) for part in parts]
