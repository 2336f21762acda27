"""Reading of the manifests that a command line names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kplan.api.readable import listing
from kplan.cli.faults import say
from kplan.cli.flags import ManifestFlags, VerbosityFlags
from kplan.cli.phases import noted_when_interrupted

if TYPE_CHECKING:
    from kplan.cli.live_options import ClusterFlags
    from kplan.snapshot import Snapshot
    from kplan.workloads import Manifests
    from kplan.workloads.sources import PassedOver


def read_manifests(
    files: Sequence[str],
    flags: ManifestFlags,
    cluster: ClusterFlags,
    snapshot: Snapshot,
    verbosity: VerbosityFlags,
    *,
    replicas: int | None = None,
    minor: int,
    keeps_groups: bool = False,
) -> Manifests:
    """Read the manifests of files and kustomizations, as an API server of a minor such as 36 does.

    Objects without a namespace get that of ``--namespace``, else that of the context. As in kubectl, objects of another
    namespace than ``--namespace`` are refused.

    Raises
    ------
    ManifestError
        With all problems, each with file, document, line and JSON path.
    KubeconfigError
        When the kubeconfig, whose context has the namespace, cannot be used.
    """
    from kplan.cli.kustomize import build
    from kplan.workloads import load_manifests

    built = [build(directory) for directory in flags.kustomize or ()]
    with noted_when_interrupted("reading manifests"):
        manifests = load_manifests(
            [*files, *built],
            snapshot=snapshot,
            namespace=flags.namespace or cluster.default_namespace() or None,
            takes_others=not flags.namespace,
            replicas=replicas,
            keeps_groups=keeps_groups,
            validate=flags.validate.value,
            minor=minor,
            as_deployments=flags.as_deployment or (),
        )
    if not verbosity.quiet:
        for line in _passed_over_lines(manifests.passed_over):
            say(line)
    if verbosity.verbose and manifests.skipped:
        kinds = ", ".join(f"{kind} {number}" for kind, number in manifests.skipped.items())
        say(f"manifests: left out, because scheduling does not use them: {kinds}")
    return manifests


def _passed_over_lines(passed_over: Sequence[PassedOver]) -> list[str]:
    """Return messages about files of directories that were passed over, one for each reason."""
    reasons = dict.fromkeys(file.reason for file in passed_over)
    lines = []
    for reason in reasons:
        paths = [file.path for file in passed_over if file.reason == reason]
        lines.append(f"skipped: {listing(paths)}: {reason}")
    return lines
