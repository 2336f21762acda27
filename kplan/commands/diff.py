"""`kplan diff`: the differences between two answers."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from kplan.cli.answer import emit, formats_of, located, showing_of
from kplan.cli.flags import CommonFlags, ManifestFlags, OutputFlags, RunCronJobsOption, SavedOutputFlags, SchedulerFlags
from kplan.cli.options import OPTIONS, Flags, arguments, flag, with_flags
from kplan.cli.subject import load_base, load_subject
from kplan.commands.revisions import GIT, manifests_of_both
from kplan.errors import UsageError

if TYPE_CHECKING:
    from kplan.documents.base import Condition
    from kplan.questions.diff.document import ComparedAnswer
CONDITIONS = ("regression", "warning", "none")
_HINT = "kplan diff BEFORE.json AFTER.json, or one question with --against, --against-config or --against-version"


class _AgainstFlags(Flags, panel=OPTIONS):
    """What is other about the question that the answer is compared with, or about the one that is asked."""

    against: str = flag(
        "--against PATH|git:REV", "Compare with this snapshot, or git revision of the manifests: before."
    )
    against_config: str = flag("--against-config PATH", "Compare with this scheduler configuration: after.")
    against_version: str = flag("--against-version MINOR", "Compare with this minor of Kubernetes: after.")
    against_manifests: str = flag(
        "--against-manifests PATH|git:REV", "Compare with these manifests, or those of a git revision: before."
    )

    def with_manifests_of(self, names: list[str]) -> "tuple[_AgainstFlags, list[str]]":
        """Return the same with the earlier manifests, where another option or the first of two arguments names them."""
        flags = self
        if self.against.startswith(GIT) and not self.against_manifests:
            flags = replace(self, against="", against_manifests=self.against)
        if not flags.against_manifests and len(names) == 2 and (names[0].startswith(GIT) or Path(names[0]).is_dir()):
            return replace(flags, against_manifests=names[0]), names[1:]
        return flags, names

    @property
    def is_about_manifests(self) -> bool:
        """Whether the two answers differ in their manifests alone."""
        return not (self.against or self.against_config or self.against_version)

    @property
    def is_revision(self) -> bool:
        return self.against_manifests.startswith(GIT)

    def titles(self, snapshot: str, scheduler: SchedulerFlags, names: Sequence[str]) -> tuple[str, str]:
        """Return titles of the two questions: what they differ in; `snapshot`, `scheduler`, `names`: of the second."""
        pairs = []
        if self.against:
            pairs.append((f"snapshot {self.against}", f"snapshot {snapshot or 'live'}"))
        if self.against_config:
            before = scheduler.scheduler_config or "default"
            pairs.append((f"configuration {before}", f"configuration {self.against_config}"))
        if self.against_version:
            pairs.append((f"version {scheduler.kubernetes_version}", f"version {self.against_version}"))
        if self.is_revision:
            pairs.append((f"manifests of {self.against_manifests}", "manifests as they are"))
        elif self.against_manifests:
            pairs.append((f"manifests {self.against_manifests}", f"manifests {', '.join(names)}"))
        if not pairs:
            pairs.append(("the cluster as it is", "the cluster as changed"))
        return ", ".join(first for first, _ in pairs), ", ".join(second for _, second in pairs)


class DiffOutputFlags(SavedOutputFlags):
    """How differences are printed, and which of them count."""

    fail_on: str = flag("--fail-on LIST", "Exit with 1 if one of these happens: regression, warning; or none.")


class _DiffFlags(CommonFlags):
    output: DiffOutputFlags


EXAMPLES = """
kplan diff before.json after.json  # two saved reports
kplan diff --add-nodes 3=general-a-1  # all pending pods, without and with three more nodes
kplan diff web.yaml --against-version 1.34 --fail-on regression  # with another minor; exit code 1 if worse
"""


@with_flags
def diff(
    what: list[str] | None = arguments(
        "BEFORE AFTER|FILE|NS/POD",
        "Two saved reports; or manifests or pods to ask about twice (default: all pending pods).",
    ),
    *,
    other: _AgainstFlags,
    run_cronjobs: RunCronJobsOption = False,
    manifests: ManifestFlags,
    flags: _DiffFlags,
) -> None:
    """Compare two answers, and show why they differ.

    Compares two saved reports, or two answers to one question: with another snapshot, scheduler configuration, version
    or set of manifests, or without and with the changes of --with, --add-nodes and the like. Shows which pods move,
    are newly pending, placed or evicted, and the scores or rejections behind it. Exits with 0, unless --fail-on
    regression is given and more pods of a workload are pending, pods are newly evicted, or fewer replicas fit.
    """
    cluster, scheduler, output, verbosity = flags.cluster, flags.scheduler, flags.output, flags.verbosity
    fail_on = _fail_on(output)
    formats_of(output)
    from kplan.questions.diff.document import diff_report
    from kplan.questions.diff.sides import compare, without_deleted, without_manifests

    other, names = other.with_manifests_of([*(what or ()), *(manifests.filename or ())])
    if other.is_about_manifests and not (other.against_manifests or cluster.is_changed):
        before, after = _saved(names)
        emit(diff_report(before, after, fail_on=fail_on), output, verbosity)
        return
    again = replace(
        scheduler,
        scheduler_config=other.against_config or scheduler.scheduler_config,
        kubernetes_version=other.against_version or scheduler.kubernetes_version,
    )
    earlier = replace(flags, cluster=cluster.unchanged(other.against or cluster.snapshot))
    # What a commit changes is not only manifests: values of a chart, a kustomization.yaml, a text.
    manifests = replace(manifests, filename=None, skip_others=manifests.skip_others or other.is_revision)
    kustomizations = manifests.kustomize or []
    later = replace(flags, scheduler=again)
    with manifests_of_both(names, other.against_manifests, kustomizations) as first:
        # Where only the manifests differ, both answers are about one cluster, which is read once.
        read = load_base(later, names) if other.is_about_manifests and not cluster.is_changed else None
        load = partial(load_subject, run_cronjobs=run_cronjobs, may_be_idle=True, base=read)
        question = load([name for name in names if name not in first.deleted.values()], later, manifests)
        if other.is_revision:
            # What is passed over there is here as well, under a name that means something.
            earlier = replace(earlier, verbosity=replace(verbosity, quiet=True))
            manifests = replace(manifests, kustomize=list(first.kustomizations))
        if first.manifests or first.kustomizations or not (names or kustomizations):
            base = load(first.manifests, earlier, manifests)
        else:
            base = without_manifests(load((), earlier))  # they do not exist yet
        if first.deleted:
            question = without_deleted(question, base, first.deleted)
        titles = other.titles(cluster.snapshot, scheduler, names)
        document = compare((base, question), titles, showing_of(output, fail_on))
    emit(located(document, question), output, verbosity)


def _fail_on(output: OutputFlags) -> "tuple[Condition, ...]":
    words = [word.strip() for word in (output.fail_on or "none").split(",") if word.strip()]
    unknown = [word for word in words if word not in CONDITIONS]
    if unknown or not words or ("none" in words and len(words) > 1):
        message = f"--fail-on {output.fail_on}: a difference fails on regression, warning or none"
        raise UsageError(message, hint="for example --fail-on regression")
    return tuple(dict.fromkeys(words))  # type: ignore[arg-type] # each is one of the conditions


def _saved(names: Sequence[str]) -> "tuple[ComparedAnswer, ComparedAnswer]":
    if len(names) != 2:
        of_git = next((name for name in names if name.startswith(GIT)), "")
        hint = "name the manifests beside the revision, such as kplan diff git:HEAD web.yaml" if of_git else _HINT
        raise UsageError("nothing to compare with", hint=hint)
    from kplan.documents.kinds import read_report
    from kplan.questions.diff.document import ComparedAnswer

    first, second = (ComparedAnswer(name, read_report(name)) for name in names)
    return first, second
