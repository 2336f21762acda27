"""The documents of JSON and YAML files."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec

from kplan.api.decode import DEEP_HINT, DecodeError, convert, refuse_unknown
from kplan.errors import Problem
from kplan.reading import files
from kplan.reading.files import SETTINGS, SNAPSHOTS, Limits, ReadProgress
from kplan.reading.positions import Document

T = TypeVar("T")
#: What stands between documents in JSON: logs, as in kubectl's dumps, and the mark of YAML, which JSON is, too.
_BETWEEN = rb"(?sm)\s*(?:==== START logs for .*?^==== END logs for [^\n]*\n?|^---[ \t]*\r?$)"
_BYTE_OFFSET = r"\(byte (\d+)\)"
_HALF_PAIR = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_OBJECTS = "Kubernetes objects as JSON or YAML, for example from kubectl get -o json"
#: An opening brace before an unquoted word is YAML, or a template.
_JSON_START = rb"""\s*(\[|\{\s*(["}]|\Z))"""
_NOT_BLANK = rb"\S"
S = TypeVar("S", bound=msgspec.Struct)


def read_document(source: str | Path, problems: list[Problem], *, limits: Limits, expected: str) -> Document | None:
    """Return the only document of a file, as `read_documents`; None and a problem for none or more than one."""
    n_known = len(problems)
    documents = list(read_documents(source, problems, limits=limits, expected=expected))
    if len(problems) > n_known:
        return None
    if len(documents) == 1:
        return documents[0]
    name = name_of(source)
    message = f"holds {len(documents)} documents, expected one" if documents else "holds comments only"
    problems.append(Problem(message, path=name, hint=f"expected {expected}"))
    return None


def read_contents(
    source: str | Path, problems: list[Problem], *, limits: Limits = SETTINGS, expected: str, is_single: bool = False
) -> Iterator[tuple[Document, Any]]:
    """Yield the documents of a file, as `read_documents`, and their content; with `is_single` it has to be one."""
    read: Iterable[Document | None] = read_documents(source, problems, limits=limits, expected=expected)
    if is_single:
        read = [read_document(source, problems, limits=limits, expected=expected)]
    for document in filter(None, read):
        try:
            content = document.value()
        except DecodeError as error:
            problems += map(document.locate, error.problems)
            continue
        problems += [
            document.locate(Problem("this field appears twice", json_path=one.path, hint="leave one of them out"))
            for one in document.duplicates()
        ]
        yield document, content


def name_of(source: str | Path) -> str:
    return "standard input" if str(source) == files.STANDARD_INPUT else str(source)


def read_documents(
    source: str | Path,
    problems: list[Problem],
    *,
    limits: Limits = SNAPSHOTS,
    stdin: IO[bytes] | None = None,
    progress: ReadProgress | None = None,
    expected: str = "",
    notes: list[Problem] | None = None,
) -> Iterator[Document]:
    """Yield every document of a file, a directory (recursively, by name) or ``-``; `problems` receives all problems.

    The stream behind ``-`` is `stdin`, or else standard input. `progress` is called from time to time with the file,
    the bytes read and the total, where that is known. What the file should be stands in hints: `expected` is such as "a
    kubeconfig"; without it these are Kubernetes objects, and a file is read no further if its first megabyte has none.
    A dump, which may be a tar archive, has `notes`, which receive its empty files.
    """
    read = _Reader(problems, limits, expected, stdin, progress)
    if str(source) == files.STANDARD_INPUT:
        yield from read.file(None)
        return
    path = Path(source)
    try:
        is_directory = path.is_dir()
    except (OSError, ValueError):
        is_directory = False
    if notes is not None and files.is_archive(path):
        yield from read.archive(path, notes)
        return
    if not is_directory:
        yield from read.file(path)
        return
    if expected:
        problems.append(Problem("is a directory", path=str(path), hint=f"name the file in it: {expected}"))
        return
    hint = "name a directory with Kubernetes objects, such as kubectl cluster-info dump writes"
    for file in files.files_below(path, problems, hint):
        yield from read.file(file, notes)


class _Reader(msgspec.Struct, frozen=True):
    """Reads one file after the other; the fields are the parameters of :func:`read_documents`."""

    problems: list[Problem]
    limits: Limits
    expected: str
    stdin: IO[bytes] | None
    progress: ReadProgress | None

    def file(self, path: Path | None, notes: list[Problem] | None = None) -> Iterator[Document]:
        """Yield the documents of a file; an empty one is a note where there are some, as in a dump."""
        name = "standard input" if path is None else str(path)

        def text() -> bytearray:
            return files.read_source(path, self.stdin, self.limits, self.progress, is_objects=not self.expected)

        yield from self._documents(name, text, notes)

    def archive(self, path: Path, notes: list[Problem]) -> Iterator[Document]:
        entries = files.files_in_archive(path, self.limits)
        while (entry := self._tried(str(path), lambda: next(entries, None))) is not None:
            name, content, size = entry
            read = partial(files.read_text, content, name, size, self.limits, self.progress, is_objects=True)
            yield from self._documents(name, read, notes)

    def _documents(self, name: str, text: Callable[[], bytearray], notes: list[Problem] | None) -> Iterator[Document]:
        data = self._tried(name, text, notes)
        if data is None:
            return
        is_json = re.match(_JSON_START, data)
        for document in _json_documents(data, name, self.problems) if is_json else self._yaml(data, name):
            if document.number > self.limits.max_documents:
                message = f"holds more than {self.limits.max_documents:,} documents"
                self.problems.append(Problem(message, path=name, hint="split the file, or write one list"))
                return
            yield document

    def _yaml(self, data: bytearray, name: str) -> Iterator[Document]:
        from kplan.reading.yaml import YamlProblem, read_yaml

        try:
            yield from read_yaml(bytes(data), name, max_depth=self.limits.max_depth)
        except YamlProblem as error:
            problem = Problem(str(error), path=name, document=error.document, hint=error.hint, line=error.line)
            self.problems.append(problem)

    def _tried(self, name: str, read: Callable[[], T], notes: list[Problem] | None = None) -> T | None:
        """Return what is read of a file; None, with a problem or a note, where it cannot be read."""
        try:
            return read()
        except files.NotObjects as error:
            if notes is not None and str(error) == files.EMPTY:
                notes.append(Problem(files.EMPTY, path=name))
                return None
            problem = Problem(str(error), path=name, hint=error.hint or f"expected {self.expected or _OBJECTS}")
        except FileNotFoundError:
            problem = Problem("no such file or directory", path=name, hint="check the path")
        except OSError as error:
            problem = Problem(f"cannot be read: {error.strerror or 'an error of the system'}", path=name)
        except ValueError:
            problem = Problem("no file can have this name", path=name, hint="check the path")
        self.problems.append(problem)
        return None


def _json_documents(data: bytearray, path: str, problems: list[Problem]) -> Iterator[Document]:
    """Yield one document, or several in sequence, as ``kubectl cluster-info dump`` prints them or YAML holds them."""
    number = 0
    start = 0
    line = 1
    view = memoryview(data)
    while match := re.compile(_NOT_BLANK).search(data, start):
        number += 1
        line += data.count(b"\n", start, match.start())
        start = match.start()
        try:
            raw = msgspec.json.decode(view[start:], type=msgspec.Raw)
        except (msgspec.DecodeError, RecursionError) as error:
            # The end of a document before trailing characters; msgspec's offset is that of the character after it.
            message = str(error)
            offset = re.search(_BYTE_OFFSET, message)
            end = int(offset[1]) - 1 if offset and "trailing characters" in message else None
            if end is None:
                problems.append(_json_problem(error, data, start, path, number))
                return
        else:
            yield Document(path, number, line, raw)
            return
        yield Document(path, number, line, msgspec.Raw(bytes(view[start : start + end])))
        end += start
        while between := re.compile(_BETWEEN).match(data, end):
            end = between.end()
        line += data.count(b"\n", start, end)
        start = end


def _json_problem(error: Exception, data: bytearray, start: int, path: str, number: int) -> Problem:
    """Return the problem of the document that starts at byte `start`, with line and column in the file."""
    text = str(error)
    if isinstance(error, RecursionError):
        return Problem("nested too deeply to be Kubernetes objects", path=path, document=number, hint=DEEP_HINT)
    if "truncated" in text:
        if half := re.compile(_HALF_PAIR).search(data, start):
            half_line = data.count(b"\n", 0, half.start()) + 1
            message = f"not valid JSON: an incomplete character, {half[0].decode()}, or a text that is cut off"
            hint = r"write the character itself, or both \u of it"
            return Problem(message, path=path, document=number, hint=hint, line=half_line)
        hint = "the file was cut off; write it again"
        return Problem("the JSON ends before it is complete", path=path, document=number, hint=hint)
    message = text.removeprefix("JSON is malformed: ")
    line: int | None = None
    if offset := re.search(_BYTE_OFFSET, message):
        before = data[: start + int(offset[1])]
        line, column = before.count(b"\n") + 1, len(before) - (before.rfind(b"\n") + 1) + 1
        message = f"{message[: offset.start()].rstrip()} at column {column}"
    hint = "check this place and the text before it; kubectl get -o json writes valid JSON"
    if "trailing comma" in message:
        hint = "remove the last comma"
    return Problem(f"not valid JSON: {message}", path=path, document=number, hint=hint, line=line)


class EntryReader:
    """Reads one entry of a document, at a JSON path, and collects its problems."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def wrong(self, field: str, message: str, hint: str) -> None:
        self.problems.append(Problem(message, json_path=f"{self.path}.{field}", hint=hint))

    def converted(self, content: Any, target: type[S], field: str = "") -> S | None:
        """Return the entry, or what is in one of its fields, as a struct; None, with problems, where it is none.

        Fields that it does not have are problems, too, but not a reason to look no further.
        """

        def note_unknown(struct: type[msgspec.Struct], name: str, path: str) -> None:
            if (problem := refuse_unknown(struct, name, path)) is not None:
                self.problems.append(problem.below(f"{self.path}{field}"))

        try:
            return convert(content, target, refuse=note_unknown)
        except DecodeError as error:
            self.problems += [problem.below(f"{self.path}{field}") for problem in error.problems]
            return None
