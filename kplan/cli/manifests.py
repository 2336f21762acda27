"""Manifests as the command line names them: read, and what was passed over told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kplan.cli.faults import say
from kplan.cli.flags import ManifestFlags, VerbosityFlags
from kplan.cli.phases import told_when_interrupted

if TYPE_CHECKING:
    from kplan.cli.live_options import ClusterFlags
    from kplan.snapshot import Snapshot
    from kplan.workloads import Manifests
    from kplan.workloads.sources import PassedOver

_SHOWN = 3


def read_manifests(
    files: Sequence[str],
    flags: ManifestFlags,
    cluster: ClusterFlags,
    snapshot: Snapshot,
    verbosity: VerbosityFlags,
    *,
    replicas: int | None = None,
    minor: int,
) -> Manifests:
    """Read the manifests of files and kustomizations, as an API server of a minor such as 36 does.

    Objects that name no namespace go into that of ``--namespace``, else into the context's. As by kubectl, objects that
    name another than ``--namespace`` are refused.

    Raises
    ------
    ManifestError
        With everything that is wrong, each with file, document, line and JSON path.
    KubeconfigError
        When the kubeconfig whose context counts cannot be used.
    """
    from kplan.cli.kustomize import build
    from kplan.workloads import load_manifests

    built = [build(directory) for directory in flags.kustomize or ()]
    with told_when_interrupted("reading manifests"):
        found = load_manifests(
            [*files, *built],
            snapshot=snapshot,
            namespace=flags.namespace or cluster.default_namespace() or None,
            takes_others=not flags.namespace,
            replicas=replicas,
            validate=flags.validate.value,
            minor=minor,
        )
    if not verbosity.quiet:
        for line in _told(found.passed_over):
            say(line)
    if verbosity.verbose and found.skipped:
        kinds = ", ".join(f"{kind} {number}" for kind, number in found.skipped.items())
        say(f"manifests: left out, since scheduling does not read them: {kinds}")
    return found


def _told(passed_over: Sequence[PassedOver]) -> list[str]:
    """Say which files of directories were passed over: a line for each reason."""
    reasons = Counter(each.reason for each in passed_over)
    lines = []
    for reason, number in reasons.items():
        paths = [each.path for each in passed_over if each.reason == reason][:_SHOWN]
        more = f" and {number - _SHOWN} more" if number > _SHOWN else ""
        lines.append(f"passed over: {', '.join(paths)}{more}: {reason}")
    return lines
