"""Manifests of a git revision, read as git stores them.

Nothing that a repository configures takes part: no filters, no attributes, no downloads of what is not there.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar

import msgspec

from kplan.cli.subject import error_of
from kplan.errors import ManifestError, UsageError
from kplan.reading.files import MANIFESTS, folders_above

T = TypeVar("T")

GIT = "git:"
_TIMEOUT = 60  #: seconds for git, which waits for nobody
_MOST_FILES = 50_000  #: of a revision; folders of manifests hold a few thousand
_MOST_OTHERS = 50_000  #: links and submodules that a revision may hold beside its files
_MOST_WORDS = 1 << 16  #: bytes of one path, or of what git says about a failure
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

    `names`, `kustomizations`: those of the second question.
    `against`: a path, or ``git:REV`` for the same files in a revision; empty for the manifests of the second question.
    Raises UsageError when git cannot read the revision, and ManifestError for invalid manifests, with ``git:REV:PATH``.
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
                [problem._replace(path=_renamed(problem.path, there)) for problem in error.problems],
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
    inside = next((folder for folder in (path, *folders_above(path)) if folder.is_dir()), path.parent)
    name = "" if inside == path else str(path.relative_to(inside))
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
    return error_of(output).removeprefix("fatal: ")


def _begun(begin: Callable[..., T], inside: Path, arguments: Sequence[str], **settings: Any) -> T:
    """Run or start the user's own git, with a function of `subprocess`; no shell, and the revision is no option."""
    try:
        return begin(["git", "-C", str(inside), *arguments], env=os.environ | _ENVIRONMENT, **settings)
    except (OSError, ValueError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"git cannot be run: {error}", hint="compare two directories instead") from None


def _run(inside: Path, arguments: Sequence[str], lines: Sequence[str] = ()) -> subprocess.CompletedProcess[bytes]:
    text = "".join(f"{line}\n" for line in lines).encode()
    return _begun(subprocess.run, inside, arguments, input=text, capture_output=True, timeout=_TIMEOUT, check=False)


def _listing(inside: Path, arguments: Sequence[str], what: str) -> list[_Entry]:
    """Return what a tree of git holds, up to a bound: a small repository can hold billions of paths."""
    entries: list[_Entry] = []
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    start: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen
    with _begun(start, inside, ["ls-tree", "-r", "-l", "-z", *arguments], **pipes) as git:
        stop = threading.Timer(_TIMEOUT, git.kill)
        stop.start()
        try:
            for record in _records(git.stdout):
                about, _, path = record.partition(b"\t")
                mode, _, name, size = about.decode("ascii", "replace").split()
                entries.append(_Entry(mode, name, int(size) if size.isdecimal() else 0, os.fsdecode(path)))
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
