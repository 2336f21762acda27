"""`kplan snapshot`: capture a cluster read-only into a file, look into one, validate one."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from kplan.cli.live_options import (
    AsGroupOption,
    AsOption,
    ClusterOption,
    ContextOption,
    InsecureOption,
    KubeconfigOption,
    NamespacesOption,
    QuietOption,
    RequestTimeoutOption,
    SnapshotOption,
    UserOption,
    live_options,
    open_cluster,
    print_warnings,
)

__all__ = ["app"]

app = typer.Typer(
    name="snapshot",
    help="Capture a cluster read-only into a file; look into a file; validate one.",
    no_args_is_help=True,
)

_STANDARD_OUTPUT = "-"


class OutputFormat(StrEnum):
    """What `kplan snapshot` can print."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"


class RoleFormat(StrEnum):
    """What `kplan snapshot rbac` can print."""

    YAML = "yaml"
    JSON = "json"


FileArgument = Annotated[
    str, typer.Argument(metavar="[FILE]", help="Snapshot to read, as --snapshot; without one, the live cluster.")
]
OutputOption = Annotated[OutputFormat, typer.Option("-o", "--output", help="How to print it.")]


@app.command("save")
def save(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help=".json, .yaml, .json.gz or .yaml.gz; - for JSON on standard output.")
    ],
    *,
    redact: Annotated[
        bool,
        typer.Option("--redact", help="Replace names, label values, images and namespaces; decisions stay the same."),
    ] = False,
    snapshot: SnapshotOption = "",
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    cluster: ClusterOption = "",
    user: UserOption = "",
    as_user: AsOption = "",
    as_group: AsGroupOption = None,
    request_timeout: RequestTimeoutOption = "60s",
    insecure_skip_tls_verify: InsecureOption = False,
    namespaces: NamespacesOption = None,
    quiet: QuietOption = False,
) -> None:
    """Save what scheduling reads of a cluster: no environment, no arguments, no secrets, no annotations but its own.

    With --redact, one pseudonym stands for each name wherever it occurs, in the same order; the key is not kept.
    Quantities, keys of labels and taints, names of resources, drivers and schedulers, device attributes and CEL
    expressions stay.
    """
    from kplan.snapshot.save import check_name, encode_snapshot, save_snapshot

    if file != _STANDARD_OUTPUT:
        check_name(file)
    live = live_options(
        kubeconfig=kubeconfig,
        context=context,
        cluster=cluster,
        user=user,
        as_user=as_user,
        as_groups=as_group,
        request_timeout=request_timeout,
        insecure_skip_tls_verify=insecure_skip_tls_verify,
        namespaces=namespaces,
    )
    found = open_cluster(snapshot, live, quiet=quiet)
    if redact:
        from kplan.snapshot.redact import redact_snapshot

        found = redact_snapshot(found)
    print_warnings(found, quiet=quiet)
    if file == _STANDARD_OUTPUT:
        typer.echo(encode_snapshot(found, "snapshot.json"), nl=False)
        return
    size = save_snapshot(found, file)
    if not quiet:
        counted = f"{len(found.nodes)} nodes, {len(found.pods)} pods"
        typer.echo(f"saved {file}: {counted}, {size:,} bytes, {found.digest}", err=True)


@app.command("show")
def show(
    file: FileArgument = "",
    *,
    output: OutputOption = OutputFormat.TABLE,
    snapshot: SnapshotOption = "",
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    cluster: ClusterOption = "",
    user: UserOption = "",
    as_user: AsOption = "",
    as_group: AsGroupOption = None,
    request_timeout: RequestTimeoutOption = "60s",
    insecure_skip_tls_verify: InsecureOption = False,
    namespaces: NamespacesOption = None,
    quiet: QuietOption = False,
) -> None:
    """Show what is in a snapshot: counts, versions, resources, and what is missing."""
    from kplan.report.snapshot_view import overview_report, render_overview

    live = live_options(
        kubeconfig=kubeconfig,
        context=context,
        cluster=cluster,
        user=user,
        as_user=as_user,
        as_groups=as_group,
        request_timeout=request_timeout,
        insecure_skip_tls_verify=insecure_skip_tls_verify,
        namespaces=namespaces,
    )
    found = open_cluster(file or snapshot, live, quiet=quiet)
    report = overview_report(found)
    _print(render_overview(report) if output is OutputFormat.TABLE else _dump(report, output))


@app.command("check")
def check(
    file: FileArgument = "",
    *,
    output: OutputOption = OutputFormat.TABLE,
    snapshot: SnapshotOption = "",
    kubeconfig: KubeconfigOption = "",
    context: ContextOption = "",
    cluster: ClusterOption = "",
    user: UserOption = "",
    as_user: AsOption = "",
    as_group: AsGroupOption = None,
    request_timeout: RequestTimeoutOption = "60s",
    insecure_skip_tls_verify: InsecureOption = False,
    namespaces: NamespacesOption = None,
    quiet: QuietOption = False,
) -> None:
    """Check a snapshot: dangling references, odd values, kinds that nobody reads.

    Exit code 1 when something is wrong, 0 when all that was found is only worth knowing, 2 when it cannot be read.
    """
    from kplan.report.snapshot_view import check_report, render_check

    live = live_options(
        kubeconfig=kubeconfig,
        context=context,
        cluster=cluster,
        user=user,
        as_user=as_user,
        as_groups=as_group,
        request_timeout=request_timeout,
        insecure_skip_tls_verify=insecure_skip_tls_verify,
        namespaces=namespaces,
    )
    report = check_report(open_cluster(file or snapshot, live, quiet=quiet))
    _print(render_check(report) if output is OutputFormat.TABLE else _dump(report, output))
    if not report["valid"]:
        raise typer.Exit(1)


@app.command("rbac")
def rbac(
    name: Annotated[str, typer.Option("--name", metavar="NAME", help="What to call the role.")] = "kplan",
    output: Annotated[RoleFormat, typer.Option("-o", "--output", help="How to print it.")] = RoleFormat.YAML,
) -> None:
    """Print the smallest ClusterRole with which kplan sees all it needs: get and list, no secrets, no config maps."""
    from kplan.live.rbac import cluster_role

    _print(_dump(cluster_role(name), OutputFormat(output)))


def _dump(document: dict[str, Any], output: OutputFormat) -> str:
    if output is OutputFormat.JSON:
        import json

        return json.dumps(document, indent=2, ensure_ascii=False)
    import yaml

    text: str = yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    return text.rstrip("\n")


def _print(text: str) -> None:
    typer.echo(text)
