"""A YAML parser as in the API machinery: every document becomes JSON-like builtins.

Parsed by libyaml event by event. Unlike PyYAML's safe loader, times stay texts, ``1:30`` is no number, keys become
strings, and aliases count with the size of their value, so that a few lines cannot expand to gigabytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import yaml

from kplan.reading.content import Document
from kplan.reading.limits import MAX_DEPTH
from kplan.reading.positions import Duplicate, Lines, Step, path_of
from kplan.reading.yaml_lines import YamlLines
from kplan.reading.yaml_scalars import STANDARD_TAG, Refused, key_text, scalar_value, start_of

#: How many values a document may hold with aliases expanded, beyond ten times its own values.
_ALIAS_ALLOWANCE = 100_000


class YamlProblem(ValueError):  # noqa: N818 - it is reported as a problem of the file, with others
    """The error that ends the parsing of a stream."""

    def __init__(self, message: str, document: int, *, hint: str = "", line: int | None = None) -> None:
        super().__init__(message)
        self.document = document
        self.hint = hint
        self.line = line


class _Stream:
    """The text of a file, from which lines of its documents are computed on demand."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    @cached_property
    def _text(self) -> str | bytes:
        return self._data if self._data.isascii() else self._data.decode()

    def piece(self, start: int, end: int) -> str | bytes:
        """Return the characters between two marks of the parser, which counts characters, not bytes."""
        return self._text[start:end]


_Repeated = list[tuple[tuple[Step, ...], int]]


class _Origin(NamedTuple):
    """The position of a document's text: characters of the stream, and its first line, counted from 1."""

    stream: _Stream
    start: int
    end: int
    line: int
    repeated: _Repeated


class YamlDocument(Document):
    """A document in YAML, with the position of its text."""

    def __init__(self, file: str, number: int, line: int, content: Any, origin: _Origin) -> None:
        super().__init__(file, number, line, content)
        self._origin = origin

    @cached_property
    def lines(self) -> Lines:
        """The line of each path in the document."""
        origin = self._origin
        text = origin.stream.piece(origin.start, origin.end)
        return YamlLines(text, origin.line, self.line, repeats_keys=bool(origin.repeated))

    def duplicates(self) -> tuple[Duplicate, ...]:
        """Return the duplicate keys of mappings, in reading order."""
        return tuple(Duplicate(path_of(steps), line) for steps, line in self._origin.repeated)


class _Node:
    """A collection under construction."""

    __slots__ = ("anchor", "is_flow", "key", "merged", "merges", "size", "value")

    def __init__(self, value: Any, event: yaml.CollectionStartEvent) -> None:
        self.value = value
        self.anchor = event.anchor
        self.is_flow = bool(event.flow_style)
        self.key: str | None = None
        self.merges = False  #: its key is a merge key, not a text in quotes
        self.merged: set[str] = set()  #: keys that only merged mappings have
        self.size = 1


def read_yaml(data: bytes, file: str, *, max_depth: int = MAX_DEPTH) -> Iterator[YamlDocument]:
    """Yield the non-empty documents of a stream.

    Raises
    ------
    YamlProblem
        At the first syntax error, after the documents before it.
    """
    number = 0
    stream = _Stream(data)
    try:
        next_event: Callable[[], Any] = yaml.CSafeLoader(data).get_event
        while (event := next_event()).__class__ is not yaml.StreamEndEvent:
            if event.__class__ is yaml.StreamStartEvent:
                continue
            start = start_of(event)
            _check_version(event)
            builder = _Builder(max_depth)
            end = builder.build(next_event)
            if builder.result is not None:
                number += 1
                origin = _Origin(stream, start.index - start.column, end.index, start.line + 1, builder.repeated)
                yield YamlDocument(file, number, builder.line, builder.result, origin)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" at column {mark.column + 1}" if mark else ""
        raise YamlProblem(
            f"not valid YAML: {error.problem or error.context}{place}",
            number + 1,
            hint=_hint(data, mark),
            line=mark.line + 1 if mark else None,
        ) from None
    except yaml.reader.ReaderError as error:
        line = data.count(b"\n", 0, error.position) + 1
        message = f"not valid YAML: the character U+{int(error.character):04X} is not allowed"
        raise YamlProblem(message, number + 1, hint="remove control characters from the file", line=line) from None
    except Refused as error:
        raise YamlProblem(str(error), number + 1, hint=error.hint, line=error.line) from None


class _Builder:
    """Builds the value of one document from its events."""

    def __init__(self, max_depth: int) -> None:
        self.result: Any = None
        self.line = 1
        self.repeated: _Repeated = []
        self._max_depth = max_depth
        self._stack: list[_Node] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._written = 0
        self._unfolded = 0

    def build(self, next_event: Callable[[], Any]) -> yaml.Mark:
        """Consume the events up to the document's end, and return its position."""
        event = next_event()
        self.line = start_of(event).line + 1
        while (kind := event.__class__) is not yaml.DocumentEndEvent:
            if kind is yaml.ScalarEvent:
                self._written += 1
                value = scalar_value(event)
                if "?" in event.value and self._stack and self._stack[-1].is_flow:
                    _check_question_mark(event)
                if event.anchor:
                    self._anchors[event.anchor] = (value, 1)
                self._put(value, 1, event)
            elif kind is yaml.AliasEvent:
                self._take_alias(event)
            elif kind is yaml.MappingStartEvent or kind is yaml.SequenceStartEvent:
                self._written += 1
                self._open(event, {} if kind is yaml.MappingStartEvent else [])
            else:
                self._close(event)
            event = next_event()
        end: yaml.Mark = event.end_mark
        return end

    def _open(self, event: yaml.CollectionStartEvent, value: Any) -> None:
        if len(self._stack) >= self._max_depth:
            raise Refused(
                f"nested deeper than {self._max_depth} levels",
                event,
                hint="objects are nested some ten levels deep; check for brackets that are not closed",
            )
        self._stack.append(_Node(value, event))

    def _close(self, event: yaml.Event) -> None:
        node = self._stack.pop()
        if node.anchor:
            self._anchors[node.anchor] = (node.value, node.size)
        self._put(node.value, node.size, event)

    def _take_alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            raise Refused(
                f"alias *{event.anchor} refers to nothing before it",
                event,
                hint=f"define &{event.anchor} before it, or put quotes around a text that starts with *",
            )
        value, size = self._anchors[event.anchor]
        self._unfolded += size
        if self._unfolded > 10 * self._written + _ALIAS_ALLOWANCE:
            raise Refused(
                f"aliases expand to more than {self._unfolded} values",
                event,
                hint="write the values out, or use fewer anchors",
            )
        self._put(value, size, event)

    def _put(self, value: Any, size: int, event: yaml.Event) -> None:
        if not self._stack:
            self.result = value
            return
        node = self._stack[-1]
        node.size += size
        if node.value.__class__ is list:
            node.value.append(value)
        elif node.key is None:
            node.key = value if value.__class__ is str else key_text(value, event)
            node.merges = value == "<<" and _is_merge(event)
            if node.key in node.value and node.key not in node.merged:
                self._note_repeated(event)
        else:
            if node.merges:
                _merge(node, value, event)
            else:
                node.value[node.key] = value
                node.merged.discard(node.key)
            node.key = None

    def _note_repeated(self, event: yaml.Event) -> None:
        steps = tuple(len(node.value) if isinstance(node.value, list) else str(node.key) for node in self._stack)
        self.repeated.append((steps, start_of(event).line + 1))


def _merge(node: _Node, value: Any, event: yaml.Event) -> None:
    """Take over the entries of other mappings; go-yaml lets whatever is written later win, own keys as well."""
    several = [value] if isinstance(value, dict) else value
    if not isinstance(several, list) or not all(isinstance(merged, dict) for merged in several):
        raise Refused(
            "map merge requires map or sequence of maps as the value",
            event,
            hint='put quotes around "<<" where it is no merge key',
        )
    for merged in reversed(several):
        node.merged |= merged.keys() - node.value.keys()
        node.value.update(merged)


def _is_merge(event: yaml.Event) -> bool:
    return isinstance(event, yaml.ScalarEvent) and (event.implicit[0] or event.tag == f"{STANDARD_TAG}merge")


def _check_question_mark(event: yaml.ScalarEvent) -> None:
    """Refuse a question mark in a plain text within brackets, where go-yaml takes it for the sign of a key."""
    if not event.style and not event.value.startswith("?"):
        raise Refused(
            f"not valid YAML: did not find expected ',' or ']' after {event.value.partition('?')[0][:40]!r}",
            event,
            hint="put quotes around a text with a question mark that stands in brackets",
        )


def _check_version(event: yaml.Event) -> None:
    version = getattr(event, "version", None)
    if version not in (None, (1, 1)):
        raise Refused(
            f"YAML {version[0]}.{version[1]} is a version that Kubernetes does not read",
            event,
            hint="remove the line that starts with %YAML",
        )


def _hint(data: bytes | str, mark: yaml.Mark | None) -> str:
    if mark is None:
        return ""
    lines = data.splitlines()
    line = lines[mark.line] if mark.line < len(lines) else b""
    line = line.decode(errors="replace") if isinstance(line, bytes) else line
    if "\t" in line[: len(line) - len(line.lstrip())] or line[mark.column : mark.column + 1] == "\t":
        return "YAML is indented with spaces, not tabs"
    if "{{" in line:
        return "this is a template; render it first, for example with helm template"
    return "check this line and the one before it: indentation, a missing colon, an open quotation mark"
