"""`kplan pods`: the pods that manifests create, as the API server stores them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import typer

from kplan.cli.answer import check_template, write_document, write_out
from kplan.cli.arguments import check_read_once, split_arguments
from kplan.cli.cluster import ChangedClusterFlags, changed_cluster
from kplan.cli.flags import ManifestFlags, VerbosityFlags
from kplan.cli.messages import say, warn_of
from kplan.cli.options import arguments, flag, with_flags
from kplan.cli.pipelines import remember_formats
from kplan.cli.subject import read_manifests
from kplan.errors import UsageError
from kplan.report.options import JsonFormat

if TYPE_CHECKING:
    from kplan.documents.files import PodsReport


class PodsFormat(JsonFormat):
    """What `kplan pods` can print."""

    YAML = "yaml"
    JSON = "json"
    TABLE = "table"
    NAME = "name"
    JUNIT = "junit"
    GITHUB = "github"
    SARIF = "sarif"
    CODEQUALITY = "codequality"


EXAMPLES = """
kplan pods web.yaml  # as YAML, with what filled in each value
kplan pods web.yaml -o name  # their names only
"""


@with_flags
def pods(
    what: list[str] | None = arguments("FILE", "Manifests (file, directory, - for standard input)."),
    *,
    output: PodsFormat = flag(
        "--output -o FORMAT",
        "Output format: yaml (the pods), json (a report), table (one line per object), name, junit, github, sarif or "
        "codequality.",
        default=PodsFormat.YAML,
    ),
    manifests: ManifestFlags,
    cluster: ChangedClusterFlags,
    verbosity: VerbosityFlags,
) -> None:
    """Print the pods that manifests create, as the API server would store them.

    For a workload this is the pod that its controller creates. Comments name what fills in each value: limit ranges,
    priority and runtime classes, default tolerations. Exits with 1 if a pod is refused.

    Limits, quotas and the Pod Security level of the namespace are checked; webhooks, admission policies and the
    existence of service accounts are not.
    """
    files, names = split_arguments(what or (), manifests.filename or ())
    if names or not (files or manifests.kustomize):
        message = f"{names[0]} is not a manifest" if names else "no manifest given"
        raise UsageError(message, hint="name a manifest: kplan pods web.yaml")
    check_template(output)
    remember_formats([(output, "")])
    check_read_once([*files, *(cluster.with_ or ()), cluster.snapshot])
    snapshot = changed_cluster(cluster, cluster.snapshot, quiet=verbosity.quiet)
    from kplan.config.releases import nearest

    minor = nearest(snapshot.server_version).number
    loaded = read_manifests(files, manifests, cluster, snapshot, verbosity, minor=minor, may_be_idle=True)
    from kplan.questions.pods import pods_report

    report = pods_report(loaded, snapshot, minor=minor)
    warn_of(report.warnings, quiet=verbosity.quiet)
    for entry in report.pods if output is PodsFormat.NAME else ():
        if entry.refusal:
            say(f"refused: {entry.source.kind} {entry.source.namespace}/{entry.source.name}: {entry.refusal}")
    write_pods(report, output)
    if report.summary.refused or any(pod.refusal for pod in report.pods):
        raise typer.Exit(1)


def write_pods(report: PodsReport, output: PodsFormat) -> None:
    from kplan.questions.pods.view import pods_cases, render_names, render_table, render_yaml

    if output is PodsFormat.YAML:
        write_out(render_yaml(report))
    elif output is PodsFormat.NAME:
        write_out(render_names(report))
    else:
        write_document(report, output, partial(render_table, report), partial(pods_cases, report))
