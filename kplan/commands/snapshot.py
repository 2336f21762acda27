"""`kplan snapshot`: save a cluster to a file, show what is in it, or check it."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from msgspec.structs import replace

from kplan.cli.answer import as_data, check_template, write_document, write_out
from kplan.cli.arguments import PodChoiceFlags, refuse_beside
from kplan.cli.cluster import ChangedClusterFlags, changed_cluster
from kplan.cli.help import subcommand, subgroup
from kplan.cli.messages import say, warn_of
from kplan.cli.options import OPTIONS, argument, flag, repeated, switch, with_flags
from kplan.cli.pipelines import remember_formats
from kplan.report.options import CheckFormat, DataFormat, JsonFormat
from kplan.visible import shown
from kplan.writing import check_writable

if TYPE_CHECKING:
    from kplan.snapshot.model import Snapshot

app = subgroup("snapshot", "Save a cluster to a file, show what is in it, or check it.")

_STANDARD_OUTPUT = "-"


class RoleFormat(JsonFormat):
    """What `kplan snapshot rbac` can print."""

    YAML = "yaml"
    JSON = "json"


FileArgument = Annotated[str, argument("FILE", "Snapshot to read (default: --snapshot, else the live cluster).")]
_ROLE_FORMAT = flag("--output -o", "Output format.", default=RoleFormat.YAML)


class _SourceFlags(ChangedClusterFlags):
    """The cluster, with changes on paper, and whether anything is told about it."""

    quiet: bool = switch("--quiet -q", "Print no progress and no warnings on standard error.", panel=OPTIONS)

    def open(self, file: str = "") -> "Snapshot":
        """Load the file of the argument, else the cluster of the flags, with the flags' changes."""
        return changed_cluster(self, file or self.snapshot, quiet=self.quiet)


@subcommand(
    app,
    "Save what scheduling reads of a cluster; --redact replaces names.",
    """
    kplan snapshot save cluster.json.gz  # the cluster of the current context
    kplan snapshot save cluster.yaml --redact  # to share: names, labels and images are replaced
    kplan snapshot save after.json -s demo --without node/gpu-a-1  # without one node
    """,
)
@with_flags
def save(
    path: Annotated[str, argument("FILE", "A .json, .yaml, .json.gz or .yaml.gz file; - for JSON on standard output.")],
    *,
    redact: bool = switch("--redact", "Replace names, label values, images and namespaces; decisions stay the same."),
    cluster: _SourceFlags,
) -> None:
    """Save what scheduling reads of a cluster to a file.

    The file holds no environment variables, arguments, secrets or mount options, and only the annotations that
    scheduling reads. Only its owner can read a new file.

    --redact replaces each name by a pseudonym, the same everywhere and in the same alphabetical order; the key is not
    kept. These stay as they are, and the file lists them: quantities, numbers, times, versions, phases and reasons;
    keys of labels, taints, annotations and selectors, and annotations about storage; names of resources, drivers,
    provisioners, schedulers, scheduling gates, finalizers, conditions and API groups; values of the labels for
    operating system, architecture, Windows build, instance type and capacity type; label values that are compared as
    numbers (Gt, Lt), short numbers in labels of nodes, true and false; the priority classes that every cluster has;
    attributes, capacities and counters of devices, and the CEL expressions over them; the alphabetical order of the
    names that are replaced, and which of them are the same.
    """
    from kplan.snapshot.own_file import check_name, encode_snapshot, save_snapshot

    if path != _STANDARD_OUTPUT:
        check_name(path)
        check_writable(path)
    snapshot = cluster.open()
    if redact:
        from kplan.snapshot.redact import redact_snapshot

        snapshot = redact_snapshot(snapshot)
    warn_of(snapshot.warnings, quiet=cluster.quiet)
    if path == _STANDARD_OUTPUT:
        write_out(encode_snapshot(snapshot, "snapshot.json").decode())
        return
    size = save_snapshot(snapshot, path)
    if not cluster.quiet:
        counted = f"{len(snapshot.nodes)} nodes, {len(snapshot.pods)} pods"
        say(f"saved {path}: {counted}, {size:,} bytes, {snapshot.digest}")


@subcommand(
    app,
    "Show what a snapshot holds, and what is missing.",
    """
    kplan snapshot show cluster.json.gz  # what it holds, and what is missing
    kplan snapshot show demo -o json  # for programs
    kplan snapshot show demo --add-nodes 2=gpu-a-1  # with two more nodes
    """,
)
@with_flags
def show(
    file: FileArgument = "",
    *,
    output: DataFormat = flag("--output -o", "Output format.", default=DataFormat.TABLE),
    namespace: str = flag("--namespace -n NS", "Count only pods of this namespace."),
    durations: bool = switch("--durations", "Also show how long the pods of each workload took to start and run."),
    choice: PodChoiceFlags,
    cluster: _SourceFlags,
) -> None:
    """Show what a snapshot holds: counts, versions, resources, and what is missing.

    With --namespace or --selector, only these pods count, also towards the requested resources.
    """
    from kplan.report.snapshot_view import overview_report, render_overview

    check_template(output)
    snapshot = cluster.open(file)
    if choice.selector or namespace:
        snapshot = replace(snapshot, pods=tuple(choice.of(snapshot.pods, namespace)))
    report = overview_report(snapshot, with_durations=durations)
    write_document(report, output, lambda width: render_overview(shown(report), width))


@subcommand(
    app,
    "Check a snapshot for what is wrong or odd.",
    """
    kplan snapshot check cluster.json.gz  # exit code 1 if something is wrong
    kplan snapshot check demo  # the example cluster
    """,
)
@with_flags
def check(
    file: FileArgument = "",
    *,
    output: CheckFormat = flag(
        "--output -o FORMAT",
        "Output format: table, json, yaml, junit, github, sarif or codequality.",
        default=CheckFormat.TABLE,
    ),
    cluster: _SourceFlags,
) -> None:
    """Check a snapshot: references to missing objects, invalid and odd values, kinds that kplan does not read.

    Exits with 1 if something is wrong, with 0 if there are only notes, and with 2 if it cannot be read.
    """
    from kplan.report.snapshot_view import render_snapshot_check, snapshot_cases, snapshot_check

    check_template(output)
    remember_formats([(output, "")])
    report = snapshot_check(cluster.open(file))
    cases = partial(snapshot_cases, report)
    write_document(report, output, lambda width: render_snapshot_check(shown(report), width), cases)
    if not report.valid:
        raise typer.Exit(1)


@subcommand(
    app,
    "Print the ClusterRole that kplan needs to read a cluster.",
    """
    kplan snapshot rbac  # a ClusterRole for kubectl apply -f -
    kplan snapshot rbac -o json  # the same as JSON
    """,
)
@with_flags
def rbac(
    *, name: str = flag("--name NAME", "Name of the role.", default="kplan"), output: RoleFormat = _ROLE_FORMAT
) -> None:
    """Print the smallest ClusterRole that kplan needs: get and list, without Secrets.

    Of ConfigMaps it opens only the two of the cluster-autoscaler, by name.
    """
    from kplan.live import cluster_role

    write_out(as_data(cluster_role(name), output))


@subcommand(
    app,
    "Print the instance types of Karpenter that a cluster shows, or that AWS has.",
    """
    kplan snapshot types  # those of the cluster, to be completed with prices
    kplan snapshot types --ec2 instance-types.json  # from aws ec2 describe-instance-types, or - for a pipe
    kplan snapshot types --ec2 instance-types.json --ec2 spot-prices.json -o json  # with prices of spot capacity
    """,
)
@with_flags
def types(
    file: FileArgument = "",
    *,
    ec2: list[str] | None = repeated(
        "--ec2 FILE",
        "Answer of aws ec2 describe-instance-types, describe-spot-price-history or "
        "describe-instance-type-offerings, or of aws pricing get-products; repeatable.",
    ),
    output: RoleFormat = _ROLE_FORMAT,
    cluster: _SourceFlags,
) -> None:
    """Print instance types in the format of --instance-types, to be completed by hand.

    They are those of Karpenter's nodes and NodeClaims, with their labels and zones, and what pods cannot use of them.
    Nodes do not show prices: the size of a machine stands in their place. With --ec2 they are those that AWS has.
    """
    from kplan.autoscaling.karpenter.catalogue import learned_catalogue, plain_entries
    from kplan.autoscaling.karpenter.ec2 import convert_ec2

    check_template(output)
    if ec2:
        refuse_beside("--ec2", {"FILE": file})
        converted = convert_ec2(ec2)
        entries, notes = converted.entries, converted.guesses
    else:
        entries = learned_catalogue(cluster.open(file))
        notes = ("prices are unknown: the size of the machine is written, which is no price",)
        if not entries:
            notes = ("no node of Karpenter shows an instance type: kplan snapshot types --ec2 makes a list of AWS'",)
    if not cluster.quiet:
        for note in notes:
            say(f"warning: {note}")
    write_out(as_data(plain_entries(entries), output))


@subcommand(
    app,
    "Print the node groups of the cluster-autoscaler that a cluster shows.",
    """
    kplan snapshot groups  # to save, correct and complete, for kplan nodes --node-groups
    kplan snapshot groups cluster.json.gz -o json  # of a snapshot, as JSON
    """,
)
@with_flags
def groups(file: FileArgument = "", *, output: RoleFormat = _ROLE_FORMAT, cluster: _SourceFlags) -> None:
    """Print the node groups that a cluster shows, in the format of --node-groups.

    They are found by the labels that clouds give to nodes, by Cluster API objects, in the status that the
    cluster-autoscaler writes, and in the command line of its Deployment.
    """
    from kplan.autoscaling.cluster_autoscaler.setup import found_list

    check_template(output)
    content, warnings = found_list(cluster.open(file))
    warn_of(warnings, quiet=cluster.quiet)
    if not cluster.quiet and not content["nodeGroups"]:
        say("no node groups were found; write a list by hand: nodeGroups: [{name: …, minSize: 0, maxSize: 10}]")
    write_out(as_data(content, output))
