"""A document of a file, and positions in its text: the line of any JSON path, and duplicate keys.

Both come from parsing the text once more, on demand.
"""

from __future__ import annotations

import ast
import json
import re
from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, Protocol

import msgspec

from kplan.api import decode
from kplan.errors import Problem

MAX_DEPTH: Final = 200  #: objects are nested some ten levels deep

Step = str | int  #: a key, or the index of a list's element
_STEP = r"""\.?([^.\[\]$'"]+)|\[([0-9]{1,9})\]|\[('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")\]"""
_PLAIN_KEY = r"[A-Za-z_][A-Za-z0-9_-]*"
_ELEMENT = r"\[[0-9]+\](?=[.\[])"  #: an index that more of a path follows


class Duplicate(msgspec.Struct, frozen=True):
    """A duplicate key of an object; the later one applies."""

    path: str  #: of the field: ``$.spec.replicas``
    line: int  #: of the later one


class Lines(Protocol):
    """Maps JSON paths to lines."""

    def of(self, path: str) -> int:
        """Return the line of a path in the file, or of its nearest parent where the path does not exist."""

    def written(self, path: str) -> str:
        """Return how the scalar at a path is written, such as ``n`` for a false of YAML; "" where that is not known."""
        del path
        return ""


def steps_of(path: str) -> tuple[Step, ...]:
    """Split a JSON path: ``$.spec.containers[0].resources['a.b/c']``; the leading ``$`` may be missing."""
    steps: list[Step] = []
    position = 1 if path.startswith("$") else 0
    step = re.compile(_STEP)
    while position < len(path) and (match := step.match(path, position)):
        name, index, quoted = match.groups()
        if index is not None:
            steps.append(int(index))
        else:
            steps.append(name if name is not None else _unquoted(quoted))
        position = match.end()
    return tuple(steps)


def _unquoted(text: str) -> str:
    try:
        return str(ast.literal_eval(text))
    except (ValueError, SyntaxError):
        return text[1:-1]


def path_of(steps: tuple[Step, ...]) -> str:
    return "$" + "".join(
        f"[{step}]" if isinstance(step, int) else (f".{step}" if re.fullmatch(_PLAIN_KEY, step) else f"[{step!r}]")
        for step in steps
    )


class JsonLines(Lines):
    """The lines of a document in JSON, whose text begins at a line of its file."""

    def __init__(self, content: msgspec.Raw, line: int) -> None:
        self._content = content
        self._text = memoryview(content)
        self._offsets, self._lines = [0], [line]  # the known positions, in their order
        self._members: dict[tuple[Step, ...], Any] = {}  #: of objects and lists, by their paths

    def of(self, path: str) -> int:
        value = self._content
        around: tuple[Step, ...] = ()
        for step in steps_of(path):
            if around not in self._members:
                first = bytes(memoryview(value)[:1])
                kind: Any = {b"{": dict[str, msgspec.Raw], b"[": list[msgspec.Raw]}.get(first)
                self._members[around] = msgspec.json.decode(value, type=kind) if kind else ()
            members = self._members[around]
            if isinstance(members, dict):
                inner = members.get(str(step))
            else:
                inner = members[step] if isinstance(step, int) and step < len(members) else None
            if inner is None:
                break
            value, around = inner, (*around, step)
        offset = _address(value) - _address(self._text)
        before = bisect_right(self._offsets, offset) - 1
        line = self._lines[before] + bytes(self._text[self._offsets[before] : offset]).count(b"\n")
        if self._offsets[before] != offset:
            self._offsets.insert(before + 1, offset)
            self._lines.insert(before + 1, line)
        return line


def _address(text: msgspec.Raw | memoryview) -> int:
    import numpy as np

    address: int = np.frombuffer(text, dtype=np.uint8).__array_interface__["data"][0]
    return address


def json_duplicates(content: msgspec.Raw, lines: Lines) -> Iterator[Duplicate]:
    """Yield the duplicate keys of the document's objects, in reading order."""
    has_any = False

    def checked(pairs: list[tuple[str, Any]]) -> None:
        nonlocal has_any
        has_any = has_any or len({key for key, _ in pairs}) < len(pairs)

    text = bytes(memoryview(content))
    json.loads(text, object_pairs_hook=checked, parse_int=_nothing, parse_float=_nothing)
    if has_any:
        pairs = json.loads(text, object_pairs_hook=_Pairs, parse_int=_nothing, parse_float=_nothing)
        for steps in _repeated(pairs, ()):
            path = path_of(steps)
            yield Duplicate(path, lines.of(path))


def _nothing(_: str) -> None:
    """Ignore a number, however long: only keys matter here."""


class _Pairs(list[tuple[str, Any]]):
    """A JSON object before its keys are known to be distinct."""


def _repeated(value: Any, steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    if isinstance(value, _Pairs):
        keys: set[str] = set()
        for key, item in value:
            if key in keys:
                yield (*steps, key)
            keys.add(key)
            yield from _repeated(item, (*steps, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _repeated(item, (*steps, index))


class Document:
    """One document of a file."""

    def __init__(self, file: str, number: int, line: int, content: msgspec.Raw | Any) -> None:
        self.file = file  #: its name; "standard input" for ``-``
        self.number = number  #: counted from 1; documents that are empty or hold comments only are not counted
        self.line = line  #: the first line of its content
        self.content = content  #: JSON text, or builtins from YAML

    def __reduce__(self) -> tuple[Any, ...]:
        content = self.content.copy() if isinstance(self.content, msgspec.Raw) else self.content
        return Document, (self.file, self.number, self.line, content)

    @cached_property
    def lines(self) -> Lines:
        return JsonLines(self.content, self.line)

    def duplicates(self) -> tuple[Duplicate, ...]:
        """Return the duplicate keys of objects in this document, in reading order."""
        try:
            return tuple(json_duplicates(self.content, self.lines))
        except RecursionError:
            return ()  # decoding reports its depth

    @cached_property
    def duplicates_by_element(self) -> dict[str, list[Duplicate]]:
        """The duplicate keys by the path of each object around them, ``$`` or an element of a list."""
        by_element: dict[str, list[Duplicate]] = {}
        for duplicate in self.duplicates():
            around = [match.end() for match in re.finditer(_ELEMENT, duplicate.path)]
            for end in (1, *around):
                by_element.setdefault(duplicate.path[:end], []).append(duplicate)
        return by_element

    def value(self) -> Any:
        """Return the content as builtins; raises as `as_builtins`."""
        return as_builtins(self.content)

    def locate(self, problem: Problem) -> Problem:
        written = self.lines.written(problem.json_path) if problem.wants_quotes else ""
        hint = decode.in_quotes(decode.shortened(written)) if written else problem.hint
        line = self.lines.of(problem.json_path)
        return problem._replace(path=self.file, document=self.number, hint=hint, line=line)


def as_builtins(content: msgspec.Raw | Any) -> Any:
    """Return JSON text as builtins, builtins as they are; raises DecodeError for what is too deep or too large."""
    if not isinstance(content, msgspec.Raw):
        return content
    value = decode.builtins(content)
    if _is_deeper(value, MAX_DEPTH):
        raise decode.DecodeError(
            (Problem(f"nested deeper than {MAX_DEPTH} levels", json_path="$", hint=decode.DEEP_HINT),)
        )
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if below is None:
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in below)
