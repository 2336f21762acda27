"""Reading of the manifests that a command line names; kustomizations are built with the user's kustomize or kubectl."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from kplan.api.quantity import listing
from kplan.cli.cluster import ClusterFlags
from kplan.cli.flags import ManifestFlags, VerbosityFlags
from kplan.cli.messages import noted_when_interrupted, say
from kplan.errors import ManifestError, Problem, UsageError
from kplan.snapshot import Snapshot
from kplan.workloads import Manifests
from kplan.workloads.manifests import load_manifests
from kplan.workloads.sources import Text


def read_manifests(
    files: Sequence[str],
    flags: ManifestFlags,
    cluster: ClusterFlags,
    snapshot: Snapshot,
    verbosity: VerbosityFlags,
    *,
    minor: int,
    keeps_groups: bool = False,
    may_be_idle: bool = False,
) -> Manifests:
    """Read the manifests of files and kustomizations, as an API server of a minor such as 36 does.

    Objects without a namespace get that of ``--namespace``, else that of the context. As in kubectl, objects of another
    namespace than ``--namespace`` are refused. `may_be_idle`: objects without a pod or workload are no error.

    Raises ManifestError with all problems, and KubeconfigError for a context that cannot be read.
    """
    built = [build(directory) for directory in flags.kustomize or ()]
    with noted_when_interrupted("reading manifests"):
        manifests = load_manifests(
            [*files, *built],
            snapshot=snapshot,
            namespace=flags.namespace or cluster.default_namespace(),
            takes_others=not flags.namespace,
            replicas=flags.replicas,
            keeps_groups=keeps_groups,
            validate=flags.validate.value,
            minor=minor,
            as_deployments=flags.as_deployment or (),
            may_be_idle=may_be_idle,
            skips_others=flags.skip_others,
        )
    if not verbosity.quiet:
        if not manifests.workloads:
            say(f"no pod and no workload in {listing([*files, *(flags.kustomize or ())])}")
        for reason in dict.fromkeys(file.reason for file in manifests.passed_over):
            paths = [file.path for file in manifests.passed_over if file.reason == reason]
            say(f"skipped: {listing(paths)}: {reason}")
    if verbosity.verbose and manifests.skipped:
        kinds = ", ".join(f"{kind} {number}" for kind, number in manifests.skipped.items())
        say(f"manifests: left out, because scheduling does not use them: {kinds}")
    return manifests


_TIMEOUT = 60  #: seconds; remote bases may have to be fetched

_MOST_SAID = 2000
_PROGRAMS = (("kustomize", "build"), ("kubectl", "kustomize"))


def build(directory: str) -> Text:
    """Build a kustomization with kustomize or kubectl; raises UsageError without them, ManifestError if they fail."""
    if not Path(directory).is_dir():
        raise UsageError(f"-k {directory}: no such directory", hint="name the directory with the kustomization.yaml")
    for program, command in _PROGRAMS:
        if path := shutil.which(program):
            return Text(f"{directory} ({program})", _run(path, command, directory))
    pipes = " or ".join(f"{program} {command} {directory} | kplan place -" for program, command in _PROGRAMS)
    raise UsageError("neither kustomize nor kubectl is on the PATH", hint=f"run it where one is: {pipes}")


def error_of(output: bytes) -> str:
    """Return what a program says about its failure, from its first error on; its warnings are no reason."""
    lines = [line.strip() for line in output.decode("utf-8", "replace").splitlines() if line.strip()]
    starts = (n for n, line in enumerate(lines) if line.lower().startswith(("error", "fatal")))
    first = next(starts, next((n for n, line in enumerate(lines) if "warning" not in line.lower()), 0))
    return " ".join(lines[first:])[:_MOST_SAID] or "it says nothing"


def _run(program: str, command: str, directory: str) -> bytes:
    # A name that begins with a dash must not become an option.
    named = directory if not directory.startswith("-") else f"./{directory}"
    name = Path(program).name
    try:
        done = subprocess.run(  # noqa: S603 - no shell; the program is the user's own, the argument one directory
            [program, command, named], capture_output=True, timeout=_TIMEOUT, check=False, stdin=subprocess.DEVNULL
        )
    except subprocess.TimeoutExpired:
        message, hint = f"took longer than {_TIMEOUT} seconds", "build it by hand and pipe the result"
    except OSError as error:
        message, hint = f"cannot be run: {error.strerror}", "check the program on your PATH"
    else:
        if not done.returncode:
            return done.stdout
        message, hint = f"cannot build it: {error_of(done.stderr)}", f"try {name} {command} {directory}"
    raise ManifestError([Problem(f"{name} {message}", path=directory, hint=hint)])
