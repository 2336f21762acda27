"""YAML as the API machinery reads it: every document as JSON-like builtins.

Parsed by libyaml event by event. Unlike PyYAML's safe loader, times stay texts, ``1:30`` is no number, keys become
strings, and aliases are counted as what they stand for, so that a few lines cannot unfold into gigabytes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import yaml

__all__ = ["YamlDocument", "YamlProblem", "read_yaml"]

#: How many values a document may hold after aliases are unfolded, beyond ten times those written out.
_ALIAS_ALLOWANCE = 100_000
_MAX_DEPTH = 200

_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*|0[0-7_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0b[01_]+)")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE", "yes", "Yes", "YES", "on", "On", "ON"), True),
    **dict.fromkeys(("false", "False", "FALSE", "no", "No", "NO", "off", "Off", "OFF"), False),
}
_STANDARD_TAG = "tag:yaml.org,2002:"
_TAGS = {f"{_STANDARD_TAG}{name}" for name in ("str", "int", "float", "bool", "null", "map", "seq", "timestamp")}


class YamlDocument(NamedTuple):
    """One document of a stream, counted from 1."""

    number: int
    content: Any


class YamlProblem(ValueError):  # noqa: N818 - it is reported as a problem of the file, with others
    """Why a stream could not be read further."""

    def __init__(self, message: str, document: int, *, hint: str = "") -> None:
        super().__init__(message)
        self.document = document
        self.hint = hint


class _Node:
    """A collection under construction, or the place that takes a finished document."""

    __slots__ = ("anchor", "key", "merges", "size", "value")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        self.merges: list[dict[str, Any]] = []
        self.size = 1


def read_yaml(data: bytes | str) -> Iterator[YamlDocument]:
    """Yield the documents of a stream that are not empty.

    Raises
    ------
    YamlProblem
        At the first thing that is not YAML, after the documents before it.
    """
    number = 0
    builder = _Builder()
    try:
        for event in yaml.parse(data, Loader=yaml.CSafeLoader):
            if isinstance(event, yaml.DocumentStartEvent):
                number += 1
                builder = _Builder()
            elif isinstance(event, yaml.DocumentEndEvent):
                if builder.result is not None:
                    yield YamlDocument(number, builder.result)
            else:
                builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f"line {mark.line + 1}, column {mark.column + 1}: " if mark else ""
        raise YamlProblem(
            f"not valid YAML: {place}{error.problem or error.context}", max(number, 1), hint=_hint(data, mark)
        ) from None
    except yaml.YAMLError as error:
        raise YamlProblem(f"not valid YAML: {error}".splitlines()[0], max(number, 1)) from None
    except _Refused as error:
        raise YamlProblem(str(error), max(number, 1), hint=error.hint) from None


class _Refused(Exception):  # noqa: N818 - says what happened, not that it is an error
    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.hint = hint


class _Builder:
    """Puts the events of one document together."""

    def __init__(self) -> None:
        self.result: Any = None
        self._stack: list[_Node] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self._written = 0
        self._unfolded = 0

    def take(self, event: yaml.Event) -> None:
        if isinstance(event, yaml.ScalarEvent):
            self._written += 1
            value = _scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = (value, 1)
            self._put(value, 1, event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            self._written += 1
            if len(self._stack) >= _MAX_DEPTH:
                raise _Refused(
                    f"nested deeper than {_MAX_DEPTH} levels at line {_line(event)}",
                    hint="objects are nested some ten levels deep; look for brackets that are never closed",
                )
            _check_tag(event)
            self._stack.append(_Node({} if isinstance(event, yaml.MappingStartEvent) else [], event.anchor))
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            node = self._stack.pop()
            for merged in reversed(node.merges):
                node.value = {**merged, **node.value}
            if node.anchor:
                self._anchors[node.anchor] = (node.value, node.size)
            self._put(node.value, node.size, event)
        elif isinstance(event, yaml.AliasEvent):
            self._take_alias(event)

    def _take_alias(self, event: yaml.AliasEvent) -> None:
        if event.anchor not in self._anchors:
            raise _Refused(
                f"alias *{event.anchor} at line {_line(event)} refers to nothing before it",
                hint=f"define &{event.anchor} before it, or put quotes around a text that starts with *",
            )
        value, size = self._anchors[event.anchor]
        self._unfolded += size
        if self._unfolded > 10 * self._written + _ALIAS_ALLOWANCE:
            raise _Refused(
                f"aliases unfold into more than {self._unfolded} values (line {_line(event)})",
                hint="write the values out, or use fewer anchors",
            )
        self._put(value, size, event)

    def _put(self, value: Any, size: int, event: yaml.Event) -> None:
        if not self._stack:
            self.result = value
            return
        node = self._stack[-1]
        node.size += size
        if isinstance(node.value, list):
            node.value.append(value)
        elif node.key is None:
            node.key = _key(value, event)
        else:
            if node.key == "<<" and isinstance(value, dict | list):
                merges = [value] if isinstance(value, dict) else value
                node.merges += [merged for merged in merges if isinstance(merged, dict)]
            else:
                node.value[node.key] = value
            node.key = None


def _line(event: yaml.Event) -> int:
    return event.start_mark.line + 1 if event.start_mark else 0


def _key(value: Any, event: yaml.Event) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    raise _Refused(
        f"a key must be a word, at line {_line(event)}",
        hint="render templates first; values that start with { or [ need quotes",
    )


def _scalar(event: yaml.ScalarEvent) -> Any:
    if event.tag and event.tag != "!":
        _check_tag(event)
        if event.tag == f"{_STANDARD_TAG}str":
            return event.value
        return _plain(event.value)
    return _plain(event.value) if event.implicit[0] else event.value


def _check_tag(event: yaml.ScalarEvent | yaml.CollectionStartEvent) -> None:
    if event.tag and event.tag != "!" and event.tag not in _TAGS:
        tag = event.tag.replace(_STANDARD_TAG, "!!")
        raise _Refused(
            f"the tag {tag} at line {_line(event)} means nothing in a Kubernetes object",
            hint="leave the tag out",
        )


@lru_cache(maxsize=1 << 14)
def _plain(text: str) -> Any:
    """Resolve a plain scalar as go-yaml does for JSON."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "+-.0123456789":
        return text
    if _INTEGER.fullmatch(text):
        digits = text.replace("_", "")
        sign = -1 if digits[0] == "-" else 1
        digits = digits.lstrip("+-")
        is_octal = len(digits) > 1 and digits[0] == "0" and digits.isdigit()
        return sign * (int(digits, 8) if is_octal else int(digits, 0))
    return float(text) if _FLOAT.fullmatch(text) else text


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
    return "look at this line and the one before it: indentation, a missing colon, an open quotation mark"
