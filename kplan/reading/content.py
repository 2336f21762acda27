"""One document of a file: its content, lines and duplicate keys."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import msgspec

from kplan.api import decode
from kplan.errors import Problem
from kplan.reading.limits import MAX_DEPTH
from kplan.reading.positions import Duplicate, JsonLines, Lines, json_duplicates

DEEP_HINT = "objects are nested some ten levels deep; check for brackets that are not closed"


#: An index that more of a path follows.
_ELEMENT = r"\[[0-9]+\](?=[.\[])"


class Document:
    """One document of a file."""

    def __init__(self, file: str, number: int, line: int, content: msgspec.Raw | Any) -> None:
        self.file = file  #: its name; "standard input" for ``-``
        self.number = number  #: counted from 1; documents that are empty or hold comments only are not counted
        self.line = line  #: the first line of its content
        self.content = content  #: JSON text, or builtins from YAML

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the document without the file that its text may be a part of."""
        content = self.content.copy() if isinstance(self.content, msgspec.Raw) else self.content
        return Document, (self.file, self.number, self.line, content)

    @cached_property
    def lines(self) -> Lines:
        """The line of each path in the document."""
        return JsonLines(self.content, self.line)

    def duplicates(self) -> tuple[Duplicate, ...]:
        """Return the duplicate keys of objects in this document, in reading order."""
        try:
            return tuple(json_duplicates(self.content, self.lines))
        except RecursionError:
            return ()  # decoding reports its depth

    def duplicates_below(self, path: str) -> Sequence[Duplicate]:
        """Return the duplicate keys in one object of the document: ``$``, or an element of a list."""
        return self._duplicates_by_element.get(path, ())

    @cached_property
    def _duplicates_by_element(self) -> dict[str, list[Duplicate]]:
        """The duplicate keys by the path of each list element around them, so that no object looks through all."""
        by_element: dict[str, list[Duplicate]] = {}
        for duplicate in self.duplicates():
            around = [match.end() for match in re.finditer(_ELEMENT, duplicate.path)]
            for end in (1, *around):
                by_element.setdefault(duplicate.path[:end], []).append(duplicate)
        return by_element

    def value(self) -> Any:
        """Return the content as builtins.

        Raises kplan.api.decode.DecodeError if it cannot be held as builtins: nested too deeply, numbers that no number
        of a computer holds.
        """
        return as_builtins(self.content)

    def locate(self, problem: Problem) -> Problem:
        """Return a problem of this document with file, document and line."""
        written = self.lines.written(problem.json_path) if problem.wants_quotes else ""
        hint = decode.in_quotes(decode.shortened(written)) if written else problem.hint
        line = self.lines.of(problem.json_path)
        return replace(problem, path=self.file, document=self.number, hint=hint, line=line)


def as_builtins(content: msgspec.Raw | Any) -> Any:
    """Return JSON text as builtins; builtins as they are.

    Raises kplan.api.decode.DecodeError if it cannot be held as builtins: nested too deeply, numbers that no number of a
    computer holds.
    """
    if not isinstance(content, msgspec.Raw):
        return content
    value = decode.builtins(content)
    if _is_deeper(value, MAX_DEPTH):
        raise decode.DecodeError((Problem(f"nested deeper than {MAX_DEPTH} levels", json_path="$", hint=DEEP_HINT),))
    return value


def _is_deeper(value: Any, levels: int) -> bool:
    below = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    if below is None:
        return False
    return levels == 0 or any(_is_deeper(item, levels - 1) for item in below)
