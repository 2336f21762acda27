r"""JSONPath templates as kubectl has them: ``{range .placements[*]}{.pod.name}{"\n"}{end}``.

By hand: libraries for Python implement another JSONPath, without text between braces, ``range``, quoted literals and
kubectl's filters, so that a template that works with kubectl would fail or mean something else here.

What differs from upstream: the values of an object come in the document's order, null is equal to nothing, whole and
other numbers can be compared, and an index out of bounds says so without the rest. Upstream: client-go/util/jsonpath.
"""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from kplan.errors import UsageError

Values = list[Any]
Step = Callable[[Values], Values]  #: one step of a path: from the values before it to those after it

_HINT = "for example -o jsonpath='{.placements[*].pod.name}'; kplan schema KIND prints the fields"
_MOST_CHARACTERS = 10_000
_MOST_NESTED = 50
_MOST_VALUES = 1_000_000
_MOST_WRITTEN = 256 << 20
_FIELD = re.compile(r"((?:\\.|[^\s.,\[\]$@{}\\])+)")
_SCALAR = re.compile(r"\+?(-?(?:0|[1-9]\d{0,17})(?:\.\d{1,17})?|true\b|false\b)")
_WORD = re.compile(r"\w+")
_KEY = re.compile(r"'([^']*)'")
_SLICE = re.compile(r"(-?\d{1,9}|)(?::(-?\d{1,9}|))?(?::(-?\d{1,9}|))?")
_CONDITION = re.compile(r"""((?:"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|[^)"'])*)\)\]""")
_FILTER = re.compile(r"([^!<>=]+)([!<>=]+)(.+)")
_QUOTED = re.compile(r"""(["'])((?:\\.|(?!\1)[^\\\n])*)\1""")
_ESCAPE = re.compile(r"\\(?:([abfnrtv\\'\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|(.))")
_ESCAPED = dict(zip("abfnrtv\\'\"", "\a\b\f\n\r\t\v\\'\"", strict=True))
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Range(msgspec.Struct, frozen=True):
    """A part of a template that is written once for each value of a path."""

    path: tuple[Step, ...]
    body: tuple[Node, ...]


Node = str | tuple[Step, ...] | Range


def parse_jsonpath(template: str) -> tuple[Node, ...]:
    """Return the parts of a template; raises UsageError for a template that cannot be read."""
    if len(template) > _MOST_CHARACTERS:
        raise _wrong(f"the template has more than {_MOST_CHARACTERS:,} characters")
    return _Parser(template).nodes()


def render_jsonpath(template: str, document: Any) -> str:
    """Return what a template selects from a document; raises UsageError for a template that does not fit it."""
    # Every part counts, also an empty one: ranges in ranges multiply.
    return "".join(_bounded(_written(parse_jsonpath(template), document), 100))


def _wrong(message: str) -> UsageError:
    return UsageError(f"--output jsonpath: {message}", hint=_HINT)


def _written(nodes: Sequence[Node], value: Any) -> Iterator[str]:
    for node in nodes:
        match node:
            case str():
                yield node
            case Range(path, body):
                for picked in _walk(path, [value]):
                    yield ""  # a range of nothing counts, too
                    yield from _written(body, picked)
            case _:
                yield " ".join(_bounded(map(_text, _walk(node, [value]))))


def _walk(path: Sequence[Step], values: Values) -> Values:
    for step in path:
        values = step(values)
        _check_number(values)
    return values


def _check_number(values: Values) -> None:
    """Refuse what grows with every step: ``{..}`` repeats what is nested."""
    if len(values) > _MOST_VALUES:
        raise _wrong(f"a path leads to more than {_MOST_VALUES:,} values")


def _bounded(texts: Iterator[str], least: int = 0) -> Iterator[str]:
    """Yield texts as long as they are not too much together; each counts so many characters more than it has."""
    length = 0
    for text in texts:
        length += len(text) + least
        if length > _MOST_WRITTEN:
            raise _wrong("the template writes more than 256 MiB")
        yield text


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _field(name: str) -> Step:
    return lambda values: [value[name] for value in values if isinstance(value, dict) and name in value]


def _children(value: Any) -> Values:
    return list(value.values()) if isinstance(value, dict) else list(value) if isinstance(value, list) else []


def _descend(values: Values) -> Values:
    """Return every object and list that is not empty, at any depth, a parent before its children."""
    descendants: Values = []
    for value in values:
        if children := _children(value):
            descendants += [value, *_descend(children)]
            _check_number(descendants)
    return descendants


def _slice(start: str, end: str | None, step: str | None) -> Step:
    def pick(values: Values) -> Values:
        picked: Values = []
        for value in values:
            if value is None:
                continue
            if not isinstance(value, list):
                raise _wrong(f"{_kind(value)} is not a list, so it has no [{start or ':'}]")
            first = int(start or 0)
            first += len(value) if first < 0 else 0
            last = first + 1 if end is None and start else int(end) if end else len(value)
            last += len(value) if last < 0 else 0
            if first == last:
                continue
            if not (0 <= first < len(value) and first < last <= len(value)):
                raise _wrong(f"[{start}{'' if end is None else ':' + end}] is out of bounds of a list of {len(value)}")
            picked += value[first : last : int(step or 1)]
        return picked

    return pick


def _filter(left: Sequence[Step], compare: Callable[[Any, Any], bool] | None, right: Sequence[Step]) -> Step:
    def keeps(item: Any) -> bool:
        mine = _walk(left, [item])
        if compare is None:
            return bool(mine)
        other = _walk(right, [item])
        if max(len(mine), len(other)) > 1:
            raise _wrong("a filter can compare one value with one other")
        return bool(mine and other) and _holds(compare, mine[0], other[0])

    def pick(values: Values) -> Values:
        for value in values:
            if not isinstance(value, list):
                raise _wrong(f"{_kind(value)} is not a list and cannot be filtered")
        return [item for value in values for item in value if keeps(item)]

    return pick


def _holds(compare: Callable[[Any, Any], bool], mine: Any, other: Any) -> bool:
    if mine is None or other is None:
        return compare is operator.ne
    is_number = [isinstance(operand, int | float) and not isinstance(operand, bool) for operand in (mine, other)]
    if not all(is_number) and type(mine) is not type(other):
        raise _wrong(f"{_kind(mine)} and {_kind(other)} cannot be compared")
    try:
        return compare(mine, other)
    except TypeError:
        raise _wrong(f"{_kind(mine)} has no order") from None


def _kind(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    kinds: dict[type, str] = {dict: "an object", list: "a list", str: "a text"}
    return kinds.get(type(value), "a number")


class _Parser:
    """Reads a template from left to right."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._depth = 0

    def nodes(self) -> tuple[Node, ...]:
        """Return texts and paths, up to the end of a range or of the template."""
        nodes: list[Node] = []
        while self._at < len(self._text):
            if not self._takes("{"):
                text = self._text[self._at :].partition("{")[0]
                nodes.append(text)
                self._at += len(text)
                continue
            word = self._keyword()
            path = self.path("}")
            if word == "end":
                if not self._depth:
                    raise _wrong("{end} ends nothing, there is no {range} before it")
                return tuple(nodes)
            if word == "range":
                self._depth += 1
                if self._depth > _MOST_NESTED:
                    raise _wrong(f"more than {_MOST_NESTED} ranges in each other")
                nodes.append(Range(path, self.nodes()))
                self._depth -= 1
            else:
                nodes.append(path)
        return tuple(nodes)

    def path(self, end: str) -> tuple[Step, ...]:
        """Return the steps of a path, up to `end`."""
        steps: list[Step] = []
        while not self._takes(end):
            if not self._takes(" ", "@", "$"):
                steps.append(self._step())
        return tuple(steps)

    def _keyword(self) -> str:
        while self._takes(" "):
            pass
        match_ = _WORD.match(self._text, self._at)
        word = match_[0] if match_ and not match_[0][0].isdigit() else ""
        if word in ("range", "end"):
            self._at += len(word)
        elif word not in ("", "true", "false"):
            raise _wrong(f"{word!r} is no word of a template; a field begins with a dot: {{.{word}}}")
        return word

    def _step(self) -> Step:
        if self._takes(".."):
            # What follows may do without a dot of its own.
            self._at -= _FIELD.match(self._text, self._at) is not None
            return _descend
        if self._takes("[?("):
            return self._filter()
        if self._takes("["):
            end = self._text.find("]", self._at)
            if end < 0:
                raise _wrong("a bracket is not closed")
            inside, self._at = self._text[self._at : end], end + 1
            parts = [_bracket(part_text.strip()) for part_text in inside.split(",")]
            return lambda values: [value for part in parts for value in part(values)]
        if self._takes("."):
            return self._field()
        if quoted := _QUOTED.match(self._text, self._at):
            self._at, text = quoted.end(), _ESCAPE.sub(_unescaped, quoted[2])
            return lambda _values: [text]
        if scalar := _SCALAR.match(self._text, self._at):
            self._at, value = scalar.end(), json.loads(scalar[1])
            return lambda _values: [value]
        if self._at >= len(self._text):
            raise _wrong("a brace is not closed")
        raise _wrong(f"cannot read {self._text[self._at : self._at + 20]!r}, character {self._at + 1}")

    def _field(self) -> Step:
        if self._takes("*"):
            return lambda values: [child for value in values for child in _children(value)]
        if name := _FIELD.match(self._text, self._at):
            self._at = name.end()
            return _field(name[1].replace("\\", ""))
        return list  # a dot by itself is the value itself

    def _filter(self) -> Step:
        condition = _CONDITION.match(self._text, self._at)
        if condition is None:
            raise _wrong("a filter is not closed: expected )]")
        self._at = condition.end()
        if (parts := _FILTER.fullmatch(condition[1])) is None:
            return _filter(_whole(condition[1]), None, ())
        if parts[2] not in _COMPARE:
            raise _wrong(f"{parts[2]} is no comparison; there are {', '.join(_COMPARE)}")
        return _filter(_whole(parts[1]), _COMPARE[parts[2]], _whole(parts[3]))

    def _takes(self, *words: str) -> bool:
        word = next((word for word in words if self._text.startswith(word, self._at)), "")
        self._at += len(word)
        return bool(word)


def _whole(text: str) -> tuple[Step, ...]:
    return _Parser(f"{text}}}").path("}")


def _bracket(text: str) -> Step:
    if key := _KEY.fullmatch(text):
        return _field(key[1].replace("\\", ""))
    bounds = _SLICE.fullmatch(":" if text == "*" else text)
    if bounds is None or not text:
        raise _wrong(f"[{text}] is neither a number, a slice, * nor a key in single quotes")
    if bounds[3] and int(bounds[3]) <= 0:
        raise _wrong(f"[{text}]: a step must be greater than 0")
    return _slice(bounds[1], bounds[2], bounds[3])


def _unescaped(escape: re.Match[str]) -> str:
    if escape[4]:
        raise _wrong(f'\\{escape[4]} is no escape; there are \\n, \\t, \\\\, \\", \\x41 and \\u0041')
    return _ESCAPED[escape[1]] if escape[1] else chr(int(escape[2] or escape[3], 16))
