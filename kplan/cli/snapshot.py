"""`kplan snapshot`: capture a cluster read-only into a file, look into one, validate one."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated

import typer

from kplan.cli.answer import write_out
from kplan.cli.choosing import PodChoiceFlags
from kplan.cli.faults import say
from kplan.cli.flags import with_flags
from kplan.cli.formats import as_data, check_template
from kplan.cli.help import KplanCommand
from kplan.cli.live_options import print_warnings
from kplan.cli.on_paper import ChangedClusterFlags, changed_cluster
from kplan.cli.pipelines import remember_formats, repository
from kplan.report.options import JsonFormat
from kplan.visible import shown
from kplan.writing import check_writable

if TYPE_CHECKING:
    from kplan.snapshot.model import Snapshot

app = typer.Typer(
    name="snapshot",
    help="Save a cluster into a file, look into one, or check one.",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
)

_STANDARD_OUTPUT = "-"


class SnapshotFormat(JsonFormat):
    """What `kplan snapshot show` can print."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class CheckFormat(JsonFormat):
    """What `kplan snapshot check` can print."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    JUNIT = "junit"
    GITHUB = "github"
    SARIF = "sarif"


class RoleFormat(JsonFormat):
    """What `kplan snapshot rbac` can print."""

    YAML = "yaml"
    JSON = "json"


FileArgument = Annotated[
    str, typer.Argument(metavar="[FILE]", help="Snapshot to read, as --snapshot; without one, the live cluster.")
]
QuietOption = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no warnings on standard error.")]
NamespaceOption = Annotated[
    str, typer.Option("--namespace", "-n", metavar="NS", help="Count pods of this namespace only.")
]
FormatOption = Annotated[SnapshotFormat, typer.Option("--output", "-o", help="How to print it.")]


@app.command(
    "save",
    cls=KplanCommand,
    epilog="""
    kplan snapshot save cluster.json.gz  # what scheduling reads of the cluster that kubectl speaks to
    kplan snapshot save cluster.yaml --redact  # to hand on: names, labels and images hidden
    kplan snapshot save after.json -s demo --without node/gpu-a-1  # as it would be
    """,
    short_help="Save what scheduling reads of a cluster; --redact hides names.",
)
@with_flags
def save(
    path: Annotated[
        str, typer.Argument(metavar="FILE", help=".json, .yaml, .json.gz or .yaml.gz; - for JSON on standard output.")
    ],
    *,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Replace names, label values, images and namespaces; decisions stay the same."),
    ] = False,
    cluster: ChangedClusterFlags,
    quiet: QuietOption = False,
) -> None:
    """Save what scheduling reads of a cluster: no environment, no arguments, no secrets, no mount options.

    No annotations go in but the few that decide. A new file is for its owner only.

    With --redact, one pseudonym stands for each name wherever it occurs, in the same order; the key is not kept.
    These stay as they are, and the file lists them: quantities, numbers, times, versions, phases and reasons;
    keys of labels, taints, annotations and selectors, and the annotations that storage decides by; names of
    resources, drivers, provisioners, schedulers, scheduling gates, conditions and API groups; values of the
    labels for operating system, architecture, Windows build and instance type; label values that are compared as
    numbers (Gt, Lt), short numbers in labels of nodes, true and false; the priority classes that every cluster
    has; attributes, capacities and counters of devices, and the CEL expressions over them; the alphabetical order
    of the names that are replaced, and which of them are the same.
    """
    from kplan.snapshot.save import check_name, encode_snapshot, save_snapshot

    if path != _STANDARD_OUTPUT:
        check_name(path)
        check_writable(path)
    snapshot = _open("", cluster, quiet=quiet)
    if redact:
        from kplan.snapshot.redact import redact_snapshot

        snapshot = redact_snapshot(snapshot)
    print_warnings(snapshot, quiet=quiet)
    if path == _STANDARD_OUTPUT:
        write_out(encode_snapshot(snapshot, "snapshot.json").decode())
        return
    size = save_snapshot(snapshot, path)
    if not quiet:
        counted = f"{len(snapshot.nodes)} nodes, {len(snapshot.pods)} pods"
        say(f"saved {path}: {counted}, {size:,} bytes, {snapshot.digest}")


@app.command(
    "show",
    cls=KplanCommand,
    epilog="""
    kplan snapshot show cluster.json.gz  # what is in it, and what is missing
    kplan snapshot show demo -o json  # for programs
    kplan snapshot show demo --add-nodes 2=gpu-a-1  # as it would be with two more nodes
    """,
    short_help="Show what is in a snapshot, and what is missing.",
)
@with_flags
def show(
    file: FileArgument = "",
    *,
    output: FormatOption = SnapshotFormat.TABLE,
    namespace: NamespaceOption = "",
    choice: PodChoiceFlags,
    cluster: ChangedClusterFlags,
    quiet: QuietOption = False,
) -> None:
    """Show what is in a snapshot: counts, versions, resources, and what is missing.

    With --namespace or --selector only the pods that are meant count, in what is requested, too.
    """
    from kplan.report.snapshot_view import overview_report, render_overview

    check_template(output)
    snapshot = _open(file, cluster, quiet=quiet)
    if choice.selector or namespace:
        snapshot = dataclasses.replace(snapshot, pods=tuple(choice.of(snapshot.pods, namespace)))
    report = overview_report(snapshot)
    is_table = output is SnapshotFormat.TABLE
    write_out(f"{render_overview(shown(report))}\n" if is_table else as_data(report.to_dict(), output))


@app.command(
    "check",
    cls=KplanCommand,
    epilog="""
    kplan snapshot check cluster.json.gz  # exit code 1 where something does not fit together
    kplan snapshot check demo  # the cluster that comes with kplan
    """,
    short_help="Find what is odd or wrong in a snapshot.",
)
@with_flags
def check(
    file: FileArgument = "",
    *,
    output: Annotated[CheckFormat, typer.Option("--output", "-o", help="How to print it.")] = CheckFormat.TABLE,
    cluster: ChangedClusterFlags,
    quiet: QuietOption = False,
) -> None:
    """Check a snapshot: dangling references, odd values, kinds that nobody reads.

    Exit code 1 when something is wrong, 0 when all that was found is only worth knowing, 2 when it cannot be read.
    """
    from kplan.report.snapshot_view import check_report, render_check

    check_template(output)
    remember_formats([(output, "")])
    report = check_report(_open(file, cluster, quiet=quiet))
    if output in (CheckFormat.JUNIT, CheckFormat.GITHUB, CheckFormat.SARIF):
        from kplan.report.checks import snapshot_cases
        from kplan.report.registry import render_for_programs

        write_out(render_for_programs(snapshot_cases(report, repository()), output))
    else:
        is_table = output is CheckFormat.TABLE
        write_out(f"{render_check(shown(report))}\n" if is_table else as_data(report.to_dict(), output))
    if not report.valid:
        raise typer.Exit(1)


@app.command(
    "rbac",
    cls=KplanCommand,
    epilog="""
    kplan snapshot rbac  # a ClusterRole for kubectl apply -f -
    kplan snapshot rbac -o json  # the same as JSON
    """,
    short_help="Print the smallest ClusterRole that kplan needs.",
)
def rbac(
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What to call the role.")] = "kplan",
    output: Annotated[RoleFormat, typer.Option("--output", "-o", help="How to print it.")] = RoleFormat.YAML,
) -> None:
    """Print the smallest ClusterRole with which kplan sees all it needs: get and list, no secrets, no config maps."""
    from kplan.live.resources import cluster_role

    write_out(as_data(cluster_role(name), output))


def _open(file: str, cluster: ChangedClusterFlags, *, quiet: bool) -> Snapshot:
    """Load the file that is named as an argument, else what the flags say, with the changes that they ask for."""
    return changed_cluster(cluster, file or cluster.snapshot, quiet=quiet)
