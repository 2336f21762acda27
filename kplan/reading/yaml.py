"""A YAML parser as in the API machinery: every document becomes JSON-like builtins, with the line of every field.

Parsed by libyaml event by event; scalars are resolved as go-yaml does it, and as Go then writes them as JSON. Unlike
PyYAML's safe loader, times stay texts, ``1:30`` is no number, keys become strings, and aliases count with the size of
their value, so that a few lines cannot expand to gigabytes.

Upstream: go.yaml.in/yaml/v2 resolve.go, sigs.k8s.io/yaml convertToJSONableObject.
"""

from __future__ import annotations

import base64
import math
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from decimal import Decimal
from functools import cached_property, lru_cache, partial
from typing import Any

import yaml

from kplan.api.decode import DEEP_HINT
from kplan.reading.positions import MAX_DEPTH, Document, Duplicate, Lines, Step, path_of, steps_of

_MAX_LINED = 16 << 20  #: longer documents are lists of a whole cluster; parsing them again would take too long

#: How many values a document may hold with aliases expanded, beyond ten times its own values.
_ALIAS_ALLOWANCE = 100_000


class YamlLines:
    """The lines of a document in YAML, parsed as far as somebody asks.

    Its text begins at a line of its file, and its content at `content_line`. Where it `repeats_keys`, the line of the
    last one counts.
    """

    def __init__(self, text: str | bytes, line: int, content_line: int, *, repeats_keys: bool = False) -> None:
        self._text = text if len(text) <= _MAX_LINED else ""
        self._line = line
        self._content_line = content_line
        self._repeats_keys = repeats_keys
        self._lines: dict[tuple[Step, ...], int] = {}
        self._texts: dict[tuple[Step, ...], str] = {}
        self._rest = self._read()

    def __reduce__(self) -> tuple[Any, ...]:
        """Have other processes read the text again: what is left of its events cannot be sent."""
        make = partial(YamlLines, repeats_keys=self._repeats_keys)
        return make, (self._text, self._line, self._content_line)

    def of(self, path: str) -> int:
        steps = steps_of(path)
        if self._repeats_keys:
            self._read_all()
        if steps and steps not in self._lines:
            next((known for known in self._rest if known == steps), None)
        while steps and steps not in self._lines:
            steps = steps[:-1]
        return self._lines[steps] if steps else self._content_line

    def written(self, path: str) -> str:
        """Return how the scalar at a path is written, such as ``n`` for a false; "" where that is not known."""
        self._read_all()
        return self._texts.get(steps_of(path), "")

    def _read_all(self) -> None:
        for _ in self._rest:
            pass

    def _read(self) -> Iterator[tuple[Step, ...]]:
        walk, key = _Walk(), None
        # A JSON document need not be valid YAML; then only the lines up to the error are known.
        with suppress(yaml.YAMLError):
            for event in yaml.parse(self._text, Loader=yaml.CSafeLoader):
                steps = walk.take(event)
                scalar = event.value if isinstance(event, yaml.ScalarEvent) else None
                value_of = steps if steps is not None and isinstance(steps[-1], int) else key
                if scalar is not None and value_of is not None:
                    self._texts[value_of] = scalar
                key = steps if value_of is None else None
                if steps is not None:
                    mark: Any = event.start_mark  # every event of the parser has one
                    self._lines[steps] = self._line + mark.line
                    yield steps


class _Walk:
    """Follows the events of a document, and yields the path of each key and element."""

    def __init__(self) -> None:
        self._steps: list[Step | None] = []  # None: a mapping that waits for its next key

    def take(self, event: yaml.Event) -> tuple[Step, ...] | None:
        if isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            self._steps.pop()
            self._finish_value()
            return None
        if not isinstance(event, yaml.NodeEvent):
            return None
        path = None
        if self._steps and self._steps[-1] is None:
            self._steps[-1] = str(event.value) if isinstance(event, yaml.ScalarEvent) else ""
            return tuple(step for step in self._steps if step is not None)
        if self._steps and isinstance(self._steps[-1], int):
            path = tuple(step for step in self._steps if step is not None)
        if isinstance(event, yaml.MappingStartEvent):
            self._steps.append(None)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._steps.append(0)
        else:
            self._finish_value()
        return path

    def _finish_value(self) -> None:
        if self._steps:
            last = self._steps[-1]
            self._steps[-1] = last + 1 if isinstance(last, int) else None


STANDARD_TAG = "tag:yaml.org,2002:"
_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9]*|0[0-7]+|0[oO][0-7]+|0[xX][0-9a-fA-F]+|0[bB][01]+)")
_MAX_DIGITS = 2 + 64  #: length of a 64-bit number in binary, with its prefix
_MOST_FLOAT32_DIGITS = 9  # nine digits tell any two float32 apart
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | float | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("y", "Y", "true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((f"{sign}{word}" for sign in ("", "+") for word in (".inf", ".Inf", ".INF")), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
#: Tags that a scalar must match; any other tag than these and ``!!str`` makes it a text, or is passed over.
_TAGGED: dict[str, Any] = {"int": int, "float": (int, float), "bool": bool, "null": type(None)}
_DATE = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}([Tt ][0-9:.]+([Zz]|[-+][0-9]{2}:[0-9]{2})?)?"
#: Go writes a float64 from here on with an exponent.
_LEAST_WITH_EXPONENT = 1e21


def start_of(event: yaml.Event) -> yaml.Mark:
    mark: yaml.Mark = event.start_mark  # type: ignore[assignment] # every event of the parser has one
    return mark


class Refused(Exception):  # noqa: N818 - says what happened, not that it is an error
    """What Kubernetes' YAML reader refuses, with the line of it."""

    def __init__(self, message: str, event: yaml.Event, *, hint: str) -> None:
        super().__init__(message)
        self.line: int = start_of(event).line + 1
        self.hint = hint


def key_text(value: Any, event: yaml.Event) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value < 1 << 63:
        return str(value)
    if isinstance(value, float):
        return _float_key(value)
    hint = "render templates first; values that start with { or [ need quotes"
    raise Refused("a key must be a string", event, hint=hint)


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


def scalar_value(event: yaml.ScalarEvent) -> Any:
    """Return the value of a scalar, with or without a tag, as go-yaml resolves it and Go then writes it as JSON."""
    if event.tag and event.tag != "!":
        value = _tagged(event)
    elif event.implicit[0]:
        value = _plain(event.value)
    else:
        return event.value
    if value.__class__ is float and not math.isfinite(value):
        raise Refused(f"JSON has no number {event.value}", event, hint="put quotes around it, or write a number")
    return value


def _tagged(event: yaml.ScalarEvent) -> Any:
    tag = event.tag or ""
    name = tag.removeprefix(STANDARD_TAG) if tag.startswith(STANDARD_TAG) else ""
    if name == "binary":
        try:
            return base64.b64decode(re.sub(r"[\r\n]", "", event.value), validate=True).decode(errors="replace")
        except ValueError:
            raise Refused("!!binary value contains invalid base64 data", event, hint="encode it again") from None
    if name == "timestamp" and re.fullmatch(_DATE, event.value):
        return event.value
    if name not in _TAGGED and name != "timestamp":
        return event.value
    value = _plain(event.value)
    matches = name != "timestamp" and isinstance(value, _TAGGED[name])
    matches = matches and not (name == "int" and _INTEGER.fullmatch(event.value.replace("_", "")) is None)
    if not matches or (name in ("int", "float") and isinstance(value, bool)):
        raise Refused(f"{event.value[:40]!r} does not match its tag !!{name}", event, hint="remove the tag")
    return value


@lru_cache(maxsize=1 << 14)
def _plain(text: str) -> Any:
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
    return int(Decimal(repr(real))) if real.is_integer() and abs(real) < _LEAST_WITH_EXPONENT else real


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
    def text(self) -> str | bytes:
        """Characters, as the marks of the parser count them, and not bytes."""
        return self._data if self._data.isascii() else self._data.decode()


class YamlDocument(Document):
    """A document in YAML, with the position of its text."""

    def __init__(
        self, file: str, number: int, stream: _Stream, marks: tuple[yaml.Mark, yaml.Mark], built: _Builder
    ) -> None:
        super().__init__(file, number, built.line, built.result)
        self._stream, (self._start, self._end), self._repeated = stream, marks, built.repeated

    @cached_property
    def lines(self) -> Lines:
        text = self._stream.text[self._start.index - self._start.column : self._end.index]
        return YamlLines(text, self._start.line + 1, self.line, repeats_keys=bool(self._repeated))

    def duplicates(self) -> tuple[Duplicate, ...]:
        return tuple(Duplicate(path_of(steps), line) for steps, line in self._repeated)


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
    """Yield the non-empty documents of a stream; raises YamlProblem at the first syntax error, after those before."""
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
                yield YamlDocument(file, number, stream, (start, end), builder)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f" at column {mark.column + 1}" if mark else ""
        message, hint = f"not valid YAML: {error.problem or error.context}{place}", _hint(data, mark)
        if "nesting depth" in message:  # libyaml reads ahead, and newer ones have a limit of their own
            message, hint = f"nested deeper than {max_depth} levels", DEEP_HINT
        line = mark.line + 1 if mark else None
        raise YamlProblem(message, number + 1, hint=hint, line=line) from None
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
        self.repeated: list[tuple[tuple[Step, ...], int]] = []
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
                node = self._stack.pop()
                if node.anchor:
                    self._anchors[node.anchor] = (node.value, node.size)
                self._put(node.value, node.size, event)
            event = next_event()
        end: yaml.Mark = event.end_mark
        return end

    def _open(self, event: yaml.CollectionStartEvent, value: Any) -> None:
        if len(self._stack) >= self._max_depth:
            raise Refused(f"nested deeper than {self._max_depth} levels", event, hint=DEEP_HINT)
        self._stack.append(_Node(value, event))

    def _take_alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            hint = f"define &{event.anchor} before it, or put quotes around a text that starts with *"
            raise Refused(f"alias *{event.anchor} refers to nothing before it", event, hint=hint)
        value, size = self._anchors[event.anchor]
        self._unfolded += size
        if self._unfolded > 10 * self._written + _ALIAS_ALLOWANCE:
            message = f"aliases expand to more than {self._unfolded} values"
            raise Refused(message, event, hint="write the values out, or use fewer anchors")
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
                steps = tuple(len(one.value) if isinstance(one.value, list) else str(one.key) for one in self._stack)
                self.repeated.append((steps, start_of(event).line + 1))
        else:
            if node.merges:
                _merge(node, value, event)
            else:
                node.value[node.key] = value
                node.merged.discard(node.key)
            node.key = None


def _merge(node: _Node, value: Any, event: yaml.Event) -> None:
    """Take over the entries of other mappings; go-yaml lets whatever is written later win, own keys as well."""
    several = [value] if isinstance(value, dict) else value
    if not isinstance(several, list) or not all(isinstance(merged, dict) for merged in several):
        hint = 'put quotes around "<<" where it is no merge key'
        raise Refused("map merge requires map or sequence of maps as the value", event, hint=hint)
    for merged in reversed(several):
        node.merged |= merged.keys() - node.value.keys()
        node.value.update(merged)


def _is_merge(event: yaml.Event) -> bool:
    return isinstance(event, yaml.ScalarEvent) and (event.implicit[0] or event.tag == f"{STANDARD_TAG}merge")


def _check_question_mark(event: yaml.ScalarEvent) -> None:
    """Refuse a question mark in a plain text within brackets, where go-yaml takes it for the sign of a key."""
    if not event.style and not event.value.startswith("?"):
        message = f"not valid YAML: did not find expected ',' or ']' after {event.value.partition('?')[0][:40]!r}"
        raise Refused(message, event, hint="put quotes around a text with a question mark that stands in brackets")


def _check_version(event: yaml.Event) -> None:
    version = getattr(event, "version", None)
    if version not in (None, (1, 1)):
        message = f"YAML {version[0]}.{version[1]} is a version that Kubernetes does not read"
        raise Refused(message, event, hint="remove the line that starts with %YAML")


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
