"""A YAML parser as in the API machinery: every document becomes JSON-like builtins.

Parsed by libyaml event by event. Unlike PyYAML's safe loader, times stay texts, ``1:30`` is no number, keys become
strings, and aliases count with the size of their value, so that a few lines cannot expand to gigabytes.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import yaml

from kplan.reading.content import Document
from kplan.reading.limits import MAX_DEPTH
from kplan.reading.places import Duplicate, Lines, Step, path_of
from kplan.reading.yaml_lines import YamlLines

#: How many values a document may hold with aliases expanded, beyond ten times its own values.
_ALIAS_ALLOWANCE = 100_000

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*|0[0-7]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[bB][01]+)")
_MAX_DIGITS = 2 + 64
"""Length of a 64-bit number in binary, with its prefix."""
_MOST_FLOAT32_DIGITS = 9
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((f"{sign}{word}" for sign in ("", "+") for word in (".inf", ".Inf", ".INF")), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_STANDARD_TAG = "tag:yaml.org,2002:"
#: Tags that a scalar must match; any other tag than these and ``!!str`` makes it a text, or is passed over.
_TAGGED: dict[str, Any] = {
    "int": int,
    "float": (int, float),
    "bool": bool,
    "null": type(None),
}
_DATE = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9:.]+([Zz]|[-+][0-9]{2}:[0-9]{2})?)?")
#: Go writes a float64 from here on with an exponent.
_LEAST_WITH_EXPONENT = 1e21


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
        return YamlLines(origin.stream.piece(origin.start, origin.end), origin.line, self.line)

    def duplicates(self) -> tuple[Duplicate, ...]:
        """Return the duplicate keys of mappings, in reading order."""
        return tuple(Duplicate(path_of(steps), line) for steps, line in self._origin.repeated)


class _Node:
    """A collection under construction."""

    __slots__ = ("anchor", "key", "merges", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        self.merges: list[dict[str, Any]] = []
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
            start = _start(event)
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
    except _Refused as error:
        raise YamlProblem(str(error), number + 1, hint=error.hint, line=error.line) from None


def _start(event: yaml.Event) -> yaml.Mark:
    mark: yaml.Mark = event.start_mark  # type: ignore[assignment] # every event of the parser has one
    return mark


class _Refused(Exception):  # noqa: N818 - says what happened, not that it is an error
    def __init__(self, message: str, event: yaml.Event, *, hint: str) -> None:
        super().__init__(message)
        self.line: int = _start(event).line + 1
        self.hint = hint


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
        self.line = _start(event).line + 1
        while (kind := event.__class__) is not yaml.DocumentEndEvent:
            if kind is yaml.ScalarEvent:
                self._written += 1
                value = _scalar(event)
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
            raise _Refused(
                f"nested deeper than {self._max_depth} levels",
                event,
                hint="objects are nested some ten levels deep; check for brackets that are not closed",
            )
        self._stack.append(_Node(value, event.anchor))

    def _close(self, event: yaml.Event) -> None:
        node = self._stack.pop()
        if node.merges:
            whole: dict[str, Any] = {}
            for merged in (*reversed(node.merges), node.value):  # what comes first wins, and own keys before all
                whole.update(merged)
            node.value = whole
        if node.anchor:
            self._anchors[node.anchor] = (node.value, node.size)
        self._put(node.value, node.size, event)

    def _take_alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            raise _Refused(
                f"alias *{event.anchor} refers to nothing before it",
                event,
                hint=f"define &{event.anchor} before it, or put quotes around a text that starts with *",
            )
        value, size = self._anchors[event.anchor]
        self._unfolded += size
        if self._unfolded > 10 * self._written + _ALIAS_ALLOWANCE:
            raise _Refused(
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
            node.key = value if value.__class__ is str else _key(value, event)
            if node.key in node.value:
                self._note_repeated(event)
        else:
            if node.key == "<<" and value.__class__ in (dict, list):
                merges = [value] if isinstance(value, dict) else value
                node.merges += [merged for merged in merges if isinstance(merged, dict)]
            else:
                node.value[node.key] = value
            node.key = None

    def _note_repeated(self, event: yaml.Event) -> None:
        steps = tuple(len(node.value) if isinstance(node.value, list) else str(node.key) for node in self._stack)
        self.repeated.append((steps, _start(event).line + 1))


def _key(value: Any, event: yaml.Event) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _float_key(value)
    raise _Refused(
        "a key must be a string", event, hint="render templates first; values that start with { or [ need quotes"
    )


def _float_key(value: float) -> str:
    """Return the text of a number as key: the shortest of a float32, as sigs.k8s.io/yaml writes it."""
    try:
        (single,) = struct.unpack("f", struct.pack("f", value))
    except OverflowError:  # upstream rounds it to infinity
        return "-.inf" if value < 0 else ".inf"
    texts = (f"{value:.{digits}e}" for digits in range(_MOST_FLOAT32_DIGITS))
    shortest = next((text for text in texts if struct.pack("f", float(text)) == struct.pack("f", single)), f"{value:e}")
    exponent = int(shortest.partition("e")[2])
    return shortest if not -4 <= exponent < 21 else f"{float(shortest):f}".rstrip("0").rstrip(".")


def _scalar(event: yaml.ScalarEvent) -> Any:
    """Return the value of a scalar, with or without a tag, as go-yaml resolves it and Go then writes it as JSON."""
    if event.tag and event.tag != "!":
        value = _tagged(event)
    elif event.implicit[0]:
        value = _plain(event.value)
    else:
        return event.value
    if value.__class__ is float and not math.isfinite(value):
        raise _Refused(
            f"JSON has no number {event.value}",
            event,
            hint="put quotes around it, or write a number",
        )
    return value


def _tagged(event: yaml.ScalarEvent) -> Any:
    tag = event.tag or ""
    name = tag.removeprefix(_STANDARD_TAG) if tag.startswith(_STANDARD_TAG) else ""
    if name == "binary":
        try:
            return base64.b64decode(event.value.replace("\r", "").replace("\n", ""), validate=True).decode(
                errors="replace"
            )
        except ValueError:
            raise _Refused("!!binary value contains invalid base64 data", event, hint="encode it again") from None
    if name == "timestamp" and _DATE.fullmatch(event.value):
        return event.value
    if name not in _TAGGED and name != "timestamp":
        return event.value
    value = _plain(event.value)
    matches = name != "timestamp" and isinstance(value, _TAGGED[name])
    if not matches or (name in ("int", "float") and isinstance(value, bool)):
        raise _Refused(f"{event.value[:40]!r} does not match its tag !!{name}", event, hint="remove the tag")
    return value


def _check_version(event: yaml.Event) -> None:
    version = getattr(event, "version", None)
    if version not in (None, (1, 1)):
        raise _Refused(
            f"YAML {version[0]}.{version[1]} is a version that Kubernetes does not read",
            event,
            hint="remove the line that starts with %YAML",
        )


@lru_cache(maxsize=1 << 14)
def _plain(text: str) -> Any:
    """Return the value of a plain scalar as go-yaml does for JSON."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    number = text.replace("_", "") if text[0] != "." else text
    if _INTEGER.fullmatch(number) and (whole := _integer(number)) is not None:
        return whole
    if not _FLOAT.fullmatch(number):
        return text
    real = float(number)
    if not math.isfinite(real):
        return text
    return int(real) if real.is_integer() and abs(real) < _LEAST_WITH_EXPONENT else real


def _integer(text: str) -> int | None:
    """Parse a 64-bit integer; None for a larger number, which becomes a float."""
    digits = text.lstrip("+-")
    if len(digits) > _MAX_DIGITS:
        return None
    is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
    try:
        number = int(digits, 8) if is_octal else int(digits, 0)
    except ValueError:
        return None  # a prefix without digits
    number = -number if text[0] == "-" else number
    return number if -(1 << 63) <= number < 1 << 64 else None


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
