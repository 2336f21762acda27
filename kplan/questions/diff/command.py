"""`kplan diff`: the differences between two answers.

Manifests of a git revision, read as git stores them.

Nothing that a repository configures takes part: no filters, no attributes, no downloads of what is not there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, NamedTuple

import msgspec

from kplan.cli.answer import ask, emit, formats_of, showing_of
from kplan.cli.asking import located
from kplan.cli.common import CommonFlags
from kplan.cli.flags import ManifestFlags, OutputFlags, RunCronJobsOption, SavedOutputFlags, SchedulerFlags, with_flags
from kplan.cli.manifests import error_of
from kplan.cli.options import flag, options, several
from kplan.errors import ManifestError, UsageError
from kplan.reading.files import MANIFESTS

if TYPE_CHECKING:
    from kplan.documents.base import Condition
    from kplan.questions.diff.facts import ComparedAnswer
GIT = "git:"
_TIMEOUT = 60
_MOST_FILES = 50_000
_MOST_OTHERS = 50_000
"""Links and submodules that a revision may hold beside its files."""
_MOST_WORDS = 1 << 16
"""Bytes of one path, or of what git says about a failure."""
_FILE, _LINK = "100", "120"
"""How the modes of files and of symbolic links begin."""
_MANIFESTS = (".json", ".yaml", ".yml", ".gz")
_REVISION_HINT = "name a revision and manifests of a git repository, such as git:HEAD~1"
_ENVIRONMENT = {"GIT_NO_LAZY_FETCH": "1", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0"}


class NotInRevisionError(UsageError):
    """A path that a revision does not have."""


class _Entry(msgspec.Struct, frozen=True):
    mode: str
    name: str  #: the identity of its content
    size: int
    path: str


class _First(NamedTuple):
    """The manifests and the kustomizations of the first question; both are empty where a revision has none yet."""

    manifests: Sequence[str]
    kustomizations: Sequence[str]
    deleted: Mapping[str, str] = {}  #: file that only the revision has -> its name for the second question


@contextlib.contextmanager
def manifests_of_both(names: Sequence[str], against: str, kustomizations: Sequence[str] = ()) -> Iterator[_First]:
    """Yield the manifests of the first question; a git revision exists only during the context.

    Parameters
    ----------
    names, kustomizations : those of the second question
    against : a path, or ``git:REV`` for the same files in a revision; empty for the manifests of the second question

    Raises
    ------
    UsageError
        When git cannot read the revision.
    ManifestError
        When manifests are invalid; those of a revision are named ``git:REV:PATH``.
    """
    if not against.startswith(GIT):
        yield _First([against], ()) if against else _First(names, kustomizations)
        return
    if not names and not kustomizations:
        raise UsageError(
            f"--against-manifests {against}: no manifest to compare", hint="name manifests that are in git"
        )
    revision = against.removeprefix(GIT)
    with tempfile.TemporaryDirectory(prefix="kplan-") as directory:
        paths = {name: _if_there(Path(name), revision, Path(directory)) for name in names}
        folders = {name: _kustomization(Path(name), revision, Path(directory)) for name in kustomizations}
        try:
            yield _First(
                [path for path in paths.values() if path],
                [folder for folder in folders.values() if folder],
                {path: name for name, path in paths.items() if path and not Path(name).exists()},
            )
        except ManifestError as error:
            there = {path: f"{against}:{name}" for name, path in (*paths.items(), *folders.items()) if path}
            raise ManifestError(
                [replace(problem, path=_renamed(problem.path, there)) for problem in error.problems],
                unchecked=error.unchecked,
            ) from None


def _kustomization(path: Path, revision: str, directory: Path) -> str | None:
    """Write the repository of a kustomization at a revision, since it may refer to any folder of it."""
    if not path.is_dir():
        raise UsageError(f"-k {path}: no such directory", hint="name the directory with the kustomization.yaml")
    # Git says where the folder is within the repository: a work tree may be elsewhere, and its names be any bytes.
    lines = _git(path, ["rev-parse", "--show-toplevel", "--show-prefix"], f"git:{revision}: {path}")
    top, inside = (os.fsdecode(line) for line in lines.removesuffix(b"\n").split(b"\n", 1))
    there = _if_there(Path(top), revision, directory)
    folder = None if there is None else Path(there) / inside
    return str(folder) if folder is not None and folder.is_dir() else None


def _renamed(path: str, there: dict[str, str]) -> str:
    """Return the name of a file of a revision, as the user knows it; any other path as it is."""
    for directory, name in there.items():
        if path == directory or path.startswith((f"{directory}/", f"{directory} ")):
            return name + path.removeprefix(directory)
    return path


def _if_there(path: Path, revision: str, directory: Path) -> str | None:
    """Return where a path of a revision was written; None for one that exists, but not yet in that revision."""
    try:
        return at_revision(path, revision, directory)
    except NotInRevisionError:
        if not path.exists():
            raise
        return None


def at_revision(path: Path, revision: str, directory: Path) -> str:
    """Write the files of a git revision below a directory, and return where the path is there.

    Raises UsageError where git fails, and for what no manifest is: links, names that lead elsewhere, too much.
    """
    inside, name = (path, "") if path.is_dir() else _in_folder(path)
    what = f"git:{revision}: {path}"
    if not revision or revision.startswith("-"):
        raise UsageError(f"git:{revision}: no revision", hint=_REVISION_HINT)
    _check_revision(inside, revision)
    entries = _listing(inside, [revision, *(["--", name] if name else [])], what)
    if not entries:
        raise NotInRevisionError(f"{what} is not in that revision", hint=_REVISION_HINT)
    for entry in entries:
        parts = entry.path.split("/")
        is_link = entry.mode.startswith(_LINK) and (entry.path.lower().endswith(_MANIFESTS) or bool(name))
        if is_link or not {"", ".", ".."}.isdisjoint(parts) or any(sign in entry.path for sign in ("\\", "\0")):
            raise UsageError(
                f"{what} holds what no manifest is, such as a link: {entry.path[:200]}", hint=_REVISION_HINT
            )
    files = [entry for entry in entries if entry.mode.startswith(_FILE)]
    if len(files) > _MOST_FILES or sum(entry.size for entry in files) > MANIFESTS.max_stream_bytes:
        raise _too_much(what)
    target = Path(tempfile.mkdtemp(dir=directory))
    try:
        _write(files, _git(inside, ["cat-file", "--batch"], what, [entry.name for entry in files]), target)
    except (OSError, ValueError):
        raise UsageError(f"{what} cannot be read whole", hint="fetch the revision first, or compare folders") from None
    return str(target / name) if name else str(target)


def _in_folder(path: Path) -> tuple[Path, str]:
    """Return the nearest folder of a path that exists, and the name of the path in that."""
    inside = next((folder for folder in path.parents if folder.is_dir()), path.parent)
    return inside, str(path.relative_to(inside))


def _check_revision(inside: Path, revision: str) -> None:
    """Raise UsageError for a folder outside of a repository, and for a revision that it does not have."""
    if not inside.is_dir():
        raise UsageError(f"{inside}: no such directory", hint="name manifests that are in git")
    name = f"{GIT}{revision}"
    at = _run(inside, ["rev-parse", "--git-dir"])
    if at.returncode:
        hint = "name manifests of a git repository, or compare two directories"
        raise UsageError(f"{name}: git knows no repository at {inside.resolve()}: {_words(at.stderr)}", hint=hint)
    if _run(inside, ["rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{tree}}"]).stdout:
        return
    before, colon, path = revision.partition(":")
    if colon:
        example = f"kplan diff {GIT}{before or 'HEAD'} {path or 'FILE'}"
        hint = f"name the revision alone, and the manifests beside it: {example}"
        raise UsageError(f"{name} is no revision, but a file of one", hint=hint)
    raise UsageError(f"{name}: the repository has no such revision", hint="git log --oneline --all lists revisions")


def _git(inside: Path, arguments: Sequence[str], what: str, lines: Sequence[str] = ()) -> bytes:
    done = _run(inside, arguments, lines)
    if done.returncode:
        raise UsageError(f"{what} cannot be read: {_words(done.stderr)}", hint=_REVISION_HINT)
    return done.stdout


def _words(output: bytes) -> str:
    """Return what git says about a failure."""
    return error_of(output).removeprefix("fatal: ")


def _started(inside: Path, arguments: Sequence[str]) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(  # noqa: S603 - no shell; the revision is no option
            ["git", "-C", str(inside), *arguments],  # noqa: S607 - the user's own
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=os.environ | _ENVIRONMENT,
        )
    except (OSError, ValueError) as error:
        raise UsageError(f"git cannot be run: {error}", hint="compare two directories instead") from None


def _run(inside: Path, arguments: Sequence[str], lines: Sequence[str] = ()) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(  # noqa: S603 - no shell; the revision is no option
            ["git", "-C", str(inside), *arguments],  # noqa: S607 - the user's own
            capture_output=True,
            timeout=_TIMEOUT,
            check=False,
            input="".join(f"{line}\n" for line in lines).encode(),
            env=os.environ | _ENVIRONMENT,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"git cannot be run: {error}", hint="compare two directories instead") from None


def _listing(inside: Path, arguments: Sequence[str], what: str) -> list[_Entry]:
    """Return what a tree of git holds.

    A small repository can hold billions of paths, as its trees may share their own: git is stopped at the bound.
    """
    entries: list[_Entry] = []
    with _started(inside, ["ls-tree", "-r", "-l", "-z", *arguments]) as git:
        stop = threading.Timer(_TIMEOUT, git.kill)
        stop.start()
        try:
            for record in _records(git.stdout):
                entries.append(_entry(record))
                if len(entries) > _MOST_FILES + _MOST_OTHERS:
                    raise _too_much(what)
            words = git.stderr.read(_MOST_WORDS) if git.stderr else b""
            code = git.wait()
        finally:
            stop.cancel()
            git.kill()
    if code:
        raise UsageError(f"{what} cannot be read: {_words(words)}", hint=_REVISION_HINT)
    return entries


def _records(stream: IO[bytes] | None) -> Iterator[bytes]:
    """Yield what NUL bytes end; what is longer than any path ends the reading."""
    rest = b""
    while stream is not None and len(rest) < _MOST_WORDS and (read := stream.read(1 << 16)):
        *whole, rest = (rest + read).split(b"\0")
        yield from whole


def _entry(record: bytes) -> _Entry:
    about, _, path = record.partition(b"\t")
    mode, _, name, size = about.decode("ascii", "replace").split()
    return _Entry(mode, name, int(size) if size.isdecimal() else 0, os.fsdecode(path))


def _too_much(what: str) -> UsageError:
    size = MANIFESTS.max_stream_bytes >> 20
    return UsageError(
        f"{what} holds more than {_MOST_FILES} files or {size} MiB", hint="name the folder with the manifests"
    )


def _write(files: Sequence[_Entry], contents: bytes, target: Path) -> None:
    """Write the contents, which git returns in the order of the files; ValueError where one is missing."""
    position = 0
    for entry in files:
        end = contents.index(b"\n", position)
        head = contents[position:end].split()
        if len(head) != 3 or head[1] != b"blob":
            raise ValueError(entry.path)
        start, position = end + 1, end + 2 + int(head[2])
        file = target / entry.path
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as stream:
            stream.write(contents[start : position - 1])


CONDITIONS = ("regression", "warning", "none")
_HINT = "kplan diff BEFORE.json AFTER.json, or one question with --against, --against-config or --against-version"


@options
class DiffOutputFlags(SavedOutputFlags):
    """How differences are printed, and which of them count."""

    fail_on: str = flag("--fail-on LIST", "Exit with 1 if one of these happens: regression, warning; or none.")


@options
class _DiffFlags(CommonFlags):
    output: DiffOutputFlags


EXAMPLES = """
kplan diff before.json after.json  # two saved reports
kplan diff --add-nodes 3=general-a-1  # all pending pods, without and with three more nodes
kplan diff web.yaml --against-version 1.34 --fail-on regression  # with another minor; exit code 1 if worse
"""


@with_flags
def diff(
    what: list[str] | None = several(
        "BEFORE AFTER|FILE|NS/POD",
        "Two saved reports; or manifests or pods to ask about twice (default: all pending pods).",
    ),
    *,
    against: str = flag(
        "--against PATH|git:REV", "Compare with this snapshot, or git revision of the manifests: before."
    ),
    against_config: str = flag("--against-config PATH", "Compare with this scheduler configuration: after."),
    against_version: str = flag("--against-version MINOR", "Compare with this minor of Kubernetes: after."),
    against_manifests: str = flag(
        "--against-manifests PATH|git:REV", "Compare with these manifests, or those of a git revision: before."
    ),
    run_cronjobs: RunCronJobsOption = False,
    manifests: ManifestFlags,
    flags: _DiffFlags,
) -> None:
    """Compare two answers, and show why they differ.

    Compares two saved reports, or two answers to one question: with another snapshot, scheduler configuration, version
    or set of manifests, or without and with the changes of --with, --add-nodes and the like. Shows which pods move,
    are newly pending, placed or evicted, and the scores or rejections behind it. Exits with 0, unless --fail-on
    regression is given and pods are newly pending or evicted, or fewer replicas fit.
    """
    cluster, scheduler, output, verbosity = flags.cluster, flags.scheduler, flags.output, flags.verbosity
    fail_on = _fail_on(output)
    formats_of(output)
    from kplan.questions.diff.document import diff_report
    from kplan.questions.diff.sides import compare, without_deleted, without_manifests

    names = [*(what or ()), *(manifests.filename or ())]
    manifests = dataclasses.replace(manifests, filename=None)
    if against.startswith(GIT) and not against_manifests:
        against, against_manifests = "", against
    if not against_manifests and len(names) == 2 and (names[0].startswith(GIT) or Path(names[0]).is_dir()):
        against_manifests, names = names[0], names[1:]
    again = dataclasses.replace(
        scheduler,
        scheduler_config=against_config or scheduler.scheduler_config,
        kubernetes_version=against_version or scheduler.kubernetes_version,
    )
    is_changed = cluster.is_changed
    if not (against or against_config or against_version or against_manifests or is_changed):
        before, after = _saved(names)
        emit(diff_report(before, after, fail_on=fail_on), output, verbosity)
        return
    earlier = dataclasses.replace(flags, cluster=cluster.unchanged(against or cluster.snapshot))
    titles = _titles(
        (cluster.snapshot, against), (scheduler, against_config, against_version), names, against_manifests
    )
    if against_manifests.startswith(GIT):
        # What a commit changes is not only manifests: values of a chart, a kustomization.yaml, a text.
        manifests = dataclasses.replace(manifests, skip_others=True)
    kustomizations = manifests.kustomize or []
    with manifests_of_both(names, against_manifests, kustomizations) as first:
        left = [name for name in names if name not in first.deleted.values()]
        question = ask(
            left, dataclasses.replace(flags, scheduler=again), manifests, run_cronjobs=run_cronjobs, may_be_idle=True
        )
        if against_manifests.startswith(GIT):
            # What is passed over there is here as well, under a name that means something.
            earlier = dataclasses.replace(earlier, verbosity=dataclasses.replace(verbosity, quiet=True))
            manifests = dataclasses.replace(manifests, kustomize=list(first.kustomizations))
        if first.manifests or first.kustomizations or not (names or kustomizations):
            base = ask(first.manifests, earlier, manifests, run_cronjobs=run_cronjobs, may_be_idle=True)
        else:
            base = without_manifests(ask((), earlier))  # they do not exist yet
        if first.deleted:
            question = without_deleted(question, base, first.deleted)
        document = compare((base, question), titles, showing_of(output, fail_on))
    emit(located(document, question), output, verbosity)


def _fail_on(output: OutputFlags) -> tuple[Condition, ...]:
    words = [word.strip() for word in (output.fail_on or "none").split(",") if word.strip()]
    unknown = [word for word in words if word not in CONDITIONS]
    if unknown or not words or ("none" in words and len(words) > 1):
        message = f"--fail-on {output.fail_on}: a difference fails on regression, warning or none"
        raise UsageError(message, hint="for example --fail-on regression")
    return tuple(dict.fromkeys(words))  # type: ignore[arg-type] # each is one of the conditions


def _saved(names: Sequence[str]) -> tuple[ComparedAnswer, ComparedAnswer]:
    if len(names) != 2:
        of_git = next((name for name in names if name.startswith(GIT)), "")
        hint = "name the manifests beside the revision, such as kplan diff git:HEAD web.yaml" if of_git else _HINT
        raise UsageError("nothing to compare with", hint=hint)
    from kplan.questions.diff.facts import ComparedAnswer
    from kplan.report.saved import read_report

    first, second = (ComparedAnswer(name, read_report(name)) for name in names)
    return first, second


def _titles(
    snapshots: tuple[str, str],
    schedulers: tuple[SchedulerFlags, str, str],
    names: Sequence[str],
    against_manifests: str,
) -> tuple[str, str]:
    """Return titles of the two questions: what they differ in."""
    pairs = []
    snapshot, against = snapshots
    scheduler, against_config, against_version = schedulers
    if against:
        pairs.append((f"snapshot {against}", f"snapshot {snapshot or 'live'}"))
    if against_config:
        pairs.append((f"configuration {scheduler.scheduler_config or 'default'}", f"configuration {against_config}"))
    if against_version:
        pairs.append((f"version {scheduler.kubernetes_version}", f"version {against_version}"))
    if against_manifests.startswith(GIT):
        pairs.append((f"manifests of {against_manifests}", "manifests as they are"))
    elif against_manifests:
        pairs.append((f"manifests {against_manifests}", f"manifests {', '.join(names)}"))
    if not pairs:
        pairs.append(("the cluster as it is", "the cluster as changed"))
    return ", ".join(first for first, _ in pairs), ", ".join(second for _, second in pairs)
