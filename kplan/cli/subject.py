"""From the flags of a command to what its question is about: cluster, scheduler, manifests and pods.

Kustomizations among the manifests are built with the user's kustomize or kubectl.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from kplan.api.quantity import listing
from kplan.cli import process
from kplan.cli.answer import OUTLINE_FORMATS, formats_of
from kplan.cli.arguments import check_read_once, split_arguments
from kplan.cli.cluster import ClusterFlags, open_cluster, requested_changes
from kplan.cli.effects import tell_no_effect
from kplan.cli.flags import (
    CommonFlags,
    ExtenderMode,
    GrowingClusterFlags,
    ManifestFlags,
    SchedulerFlags,
    ValidateMode,
    VerbosityFlags,
)
from kplan.cli.messages import noted_when_interrupted, say
from kplan.errors import ManifestError, Problem, UsageError

if TYPE_CHECKING:
    from kplan.cluster.base import Base, PodLike
    from kplan.config.model import SchedulerConfiguration
    from kplan.course.subject import Subject
    from kplan.framework.interface import Extender
    from kplan.snapshot.model import Snapshot
    from kplan.workloads import Manifests
    from kplan.workloads.sources import Text

_TIMEOUT = 60  #: seconds; remote bases may have to be fetched
_MOST_SAID = 2000  #: characters of what a program says about its failure; the rest would hide the first error
_PROGRAMS = (("kustomize", "build"), ("kubectl", "kustomize"))


def load_subject(
    what: Sequence[str] | None,
    flags: CommonFlags,
    manifests: ManifestFlags | None = None,
    *,
    run_cronjobs: bool = False,
    may_be_idle: bool = False,
    adds_next: bool = True,
    base: Base | None = None,
    needs_nodes: bool = True,
) -> Subject:
    """Load cluster, configuration and manifests, and return the subject of a question; raises KplanError.

    `what`: manifests, and pods or workloads of the snapshot; of a workload its pending pods, or else its next one.
    `run_cronjobs`: cron jobs among other manifests start a run now.
    `may_be_idle`: manifests without a pod and without a workload are no error.
    `adds_next`: otherwise a workload without a pending pod is refused.
    `base`: the cluster of the flags, where it is loaded already.
    `needs_nodes`: a file of a cluster that has none is refused, unless the flags name node groups.
    """
    cluster, verbosity = flags.cluster, flags.verbosity
    manifests = manifests or ManifestFlags()
    files, names = split_arguments(what or (), manifests.filename or (), manifests.namespace)
    _check(flags, manifests, files, names_pods=bool(names))
    base = load_base(flags, files, needs_nodes=needs_nodes) if base is None else base
    from kplan.course.subject import Subject, loaded_subject

    subject = Subject(base)
    if files or manifests.kustomize:
        minor, held = base.release.number, base.snapshot
        loaded = read_manifests(files, manifests, cluster, held, verbosity, minor=minor, may_be_idle=may_be_idle)
        subject = loaded_subject(base, loaded, (), manifests.replicas, run_cron_jobs=run_cronjobs)
    if not names:
        return subject
    base = subject.base
    named: list[PodLike] = []
    for name in names:
        namespace = manifests.namespace or cluster.default_namespace()
        base, pods = _pods_of(name, base, namespace, verbosity, adds_next=adds_next)
        named += pods
    return replace(subject, base=base, pods=[*subject.pods, *named], names_pods=True)


def load_base(flags: CommonFlags, files: Sequence[str] = (), *, needs_nodes: bool = True) -> Base:
    """Return the cluster of the flags, as changed on paper, and who decides in it; `files`: what else will be read."""
    cluster, scheduler, verbosity = flags.cluster, flags.scheduler, flags.verbosity
    from kplan.config.loading import read_configuration
    from kplan.config.releases import chosen_release, nearest, parse_gates, with_gates

    gates = parse_gates(scheduler.feature_gates)
    release = chosen_release(scheduler.kubernetes_version, gates)
    # The configuration is checked before the cluster is read, unless its rules depend on the cluster's version.
    config = read_configuration(scheduler.scheduler_config or None, release) if release else None
    following = cluster if isinstance(cluster, GrowingClusterFlags) else None
    if following is not None:
        following.check()
    changes = requested_changes(cluster)
    needs_nodes &= following is None or not following.node_groups  # which may be empty as yet
    others = (*files, *(cluster.with_ or ()), scheduler.scheduler_config)
    snapshot = open_cluster(cluster, cluster.snapshot, others, quiet=verbosity.quiet, needs_nodes=needs_nodes)
    if config is None:
        release = with_gates(nearest(snapshot.server_version), gates)
        config = read_configuration(scheduler.scheduler_config or None, release)
    if verbosity.verbose:
        say(f"snapshot: {snapshot.source}: {len(snapshot.nodes)} nodes, {len(snapshot.pods)} pods, {snapshot.digest}")
        _say_left_out("snapshot", snapshot.skipped)
    from kplan.cluster.base import Base

    base = Base(
        snapshot,
        config,
        kubernetes=scheduler.kubernetes_version,
        feature_gates=gates,
        sampling=scheduler.sampling.value,
        start_index=scheduler.start_index or 0,
        ties=None if scheduler.ties is None else scheduler.ties.value,
        seed=scheduler.seed,
        extenders=_extenders(config, scheduler, verbosity),
        autoscaler=None if following is None else following.settings_for(snapshot),
    )
    base.gives_digest = not OUTLINE_FORMATS.issuperset(formats_of(flags.output))
    if changes:
        from kplan.course.what_if import edited

        base = edited(base, changes)
    if following is not None and base.autoscaler is None:
        base.autoscaler = following.settings_for(base.objects)
    process.finish_loading(base)
    return base


def _say_left_out(where: str, skipped: Mapping[str, int]) -> None:
    if skipped:
        kinds = ", ".join(f"{kind} {number}" for kind, number in skipped.items())
        say(f"{where}: left out, because scheduling does not use them: {kinds}")


def _pods_of(
    name: str, base: Base, namespace: str, verbosity: VerbosityFlags, *, adds_next: bool
) -> tuple[Base, list[PodLike]]:
    """Return the pods to place of a pod or workload, and the cluster with their claims."""
    from kplan.cluster.workload_pods import object_named

    named = object_named(name, namespace, base.objects)
    if named.kind == "Pod":
        return base, [named.key]
    from kplan.capacity.templates import next_pod
    from kplan.cluster.workload_pods import living_pods

    pods = living_pods(base.objects, *named)
    if waiting := [pod.metadata.key for pod in pods if not pod.spec.node_name]:
        return base, [*waiting]
    if not adds_next:
        raise UsageError(
            f"{name} has no pending pod", hint=f"kplan place {'/'.join(named)} shows where its next one would go"
        )
    next_one, claims = next_pod(base, *named)
    if not verbosity.quiet:
        say(f"{name} has no pending pod; this is where its next one would go")
    return base.with_additions(claims) if claims else base, [next_one]


def _check(flags: CommonFlags, manifests: ManifestFlags, files: Sequence[str], *, names_pods: bool) -> None:
    cluster = flags.cluster
    check_read_once([*files, *(cluster.with_ or ()), cluster.snapshot, flags.scheduler.scheduler_config])
    if files or manifests.kustomize:
        return
    options = {"--namespace": "" if names_pods else manifests.namespace, "--replicas": manifests.replicas}
    options["--validate"] = "" if manifests.validate is ValidateMode.STRICT else manifests.validate
    options["--as-deployment"] = ", ".join(manifests.as_deployment or ())
    for option, value in options.items():
        if value not in ("", None):
            raise UsageError(f"{option} is for manifests, but there are none", hint="name a manifest, or leave it out")


def _extenders(
    config: SchedulerConfiguration, scheduler: SchedulerFlags, verbosity: VerbosityFlags
) -> Sequence[Extender]:
    if scheduler.extenders is ExtenderMode.IGNORE:
        return ()
    if not config.extenders:
        if not verbosity.quiet:
            tell_no_effect("--extenders call", "the scheduler configuration has no extenders")
        return ()
    from kplan.live.extenders import http_extenders

    return http_extenders(config)


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
    from kplan.workloads.manifests import ReadOptions, load_manifests

    built = [build(directory) for directory in flags.kustomize or ()]
    options = ReadOptions(
        snapshot=snapshot,
        minor=minor,
        namespace=flags.namespace or cluster.default_namespace(),
        takes_others=not flags.namespace,
        replicas=flags.replicas,
        keeps_groups=keeps_groups,
        validate=flags.validate.value,
        as_deployments=flags.as_deployment or (),
        may_be_idle=may_be_idle,
        skips_others=flags.skip_others,
    )
    with noted_when_interrupted("reading manifests"):
        manifests = load_manifests([*files, *built], options)
    if not verbosity.quiet:
        if not manifests.workloads:
            say(f"no pod and no workload in {listing([*files, *(flags.kustomize or ())])}")
        for reason in dict.fromkeys(file.reason for file in manifests.passed_over):
            paths = [file.path for file in manifests.passed_over if file.reason == reason]
            say(f"skipped: {listing(paths)}: {reason}")
    if verbosity.verbose:
        _say_left_out("manifests", manifests.skipped)
    return manifests


def build(directory: str) -> Text:
    """Build a kustomization with kustomize or kubectl; raises UsageError without them, ManifestError if they fail."""
    from kplan.workloads.sources import Text

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
