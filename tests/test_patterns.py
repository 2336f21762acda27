"""No regular expression of the package takes more than linear time on any text.

All patterns are found in the source, and each is tried on texts that repeat what it repeats, and then do not match.
"""

import ast
import importlib
import pkgutil
import re
import time
from collections.abc import Iterator
from pathlib import Path
from re import _constants as codes  # type: ignore[attr-defined]  # the names of what a parsed pattern consists of
from re import _parser as parser
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import kplan
from tests import recorded

_USES = {"match", "fullmatch", "search", "sub", "subn", "split", "findall", "finditer"}
_WHOLE = {"match", "fullmatch"}
_SIZES = (20, 32, 250, 5_000)
_MOST_SECONDS = 0.004
"""What a text of the last size may take, whatever its form: matching it in linear time takes far less."""
_UNITS = [*"01aA .-_/[({:=%#\\\n\"'", "0a", "a.", "\\a"]
_ENDS = ["", "\x00", "a!"]


class Found(NamedTuple):
    where: str
    pattern: "re.Pattern[Any]"
    searches: bool  #: whether it is looked for anywhere in a text


def modules() -> Iterator[ModuleType]:
    for info in pkgutil.walk_packages(kplan.__path__, "kplan."):
        if not info.name.endswith("__main__"):
            yield importlib.import_module(info.name)


def patterns() -> Iterator[Found]:
    """Yield every pattern of the package: by the calls that have one, and as the modules hold them compiled."""
    used: dict[str, set[str]] = {}
    calls: dict[ModuleType, list[ast.Call]] = {}
    for module in modules():
        for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text(encoding="utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="re"), attr=use)) if use in _USES:
                    calls.setdefault(module, []).append(node)
                case ast.Attribute(value=ast.Name(id=name), attr=use) if use in _USES:
                    used.setdefault(name, set()).add(use)
    for module in modules():
        where = f"{module.__name__.partition('.')[2].replace('.', '/')}.py"
        for call in calls.get(module, ()):
            use = ast.unparse(call.func).removeprefix("re.")
            for pattern in compiled(module, call):
                yield Found(f"{where}: {pattern.pattern!r}", pattern, use not in _WHOLE)
        for name, value in vars(module).items():
            for pattern in held(value):
                yield Found(f"{where}: {pattern.pattern!r}", pattern, bool(used.get(name, set()) - _WHOLE))


def compiled(module: ModuleType, call: ast.Call) -> Iterator["re.Pattern[Any]"]:
    """Yield the patterns of a call as the module would compile them; what varies in one is any name."""
    text = call.args[0]
    source = ast.unparse(text)
    if isinstance(text, ast.Subscript):  # one of several
        source = f"[*{ast.unparse(text.value)}.values()]"
    names = {node.id for node in ast.walk(text) if isinstance(node, ast.Name)} - {*vars(module), "map"}
    space = {**vars(module), **dict.fromkeys(names, Anything("name"))}
    flags = [
        ast.unparse(one)
        for one in (*call.args[1:], *(word.value for word in call.keywords))
        if "re." in ast.unparse(one)
    ]
    found = eval(source, space)
    for pattern in found if isinstance(found, list) else [found]:
        yield re.compile(pattern, eval(flags[0], space) if flags else 0)


class Anything(str):
    """Stands for a text that a function makes, with whatever attributes it has there."""

    __slots__ = ()

    def __getattr__(self, name: str) -> str:
        return name


def held(value: Any) -> Iterator["re.Pattern[Any]"]:
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from held(item)


def sample(parsed: Any) -> str:
    """Return a short text that a part of a pattern matches, but for what it looks at around itself."""
    text = ""
    for code, argument in parsed:
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            text += sample(argument[2]) * max(argument[0], 1)
        elif code is codes.SUBPATTERN:
            text += sample(argument[3])
        elif code is codes.ATOMIC_GROUP:
            text += sample(argument)
        elif code is codes.BRANCH:
            text += sample(argument[1][0])
        elif code is codes.LITERAL:
            text += chr(argument)
        elif code is codes.NOT_LITERAL:
            text += "a" if argument != ord("a") else "b"
        elif code is codes.ANY:
            text += "a"
        elif code is codes.IN:
            text += member(argument)
    return text


def member(choices: Any) -> str:
    pattern = re.compile("".join(set_text(choices)), re.DOTALL)
    return next((char for char in map(chr, range(33, 127)) if pattern.fullmatch(char)), " ")


def set_text(choices: Any) -> Iterator[str]:
    classes = {
        codes.CATEGORY_DIGIT: r"\d", codes.CATEGORY_NOT_DIGIT: r"\D", codes.CATEGORY_SPACE: r"\s",
        codes.CATEGORY_NOT_SPACE: r"\S", codes.CATEGORY_WORD: r"\w", codes.CATEGORY_NOT_WORD: r"\W",
    }  # fmt: skip
    yield "["
    for code, argument in choices:
        if code is codes.NEGATE:
            yield "^"
        elif code is codes.LITERAL:
            yield re.escape(chr(argument))
        elif code is codes.RANGE:
            yield f"{re.escape(chr(argument[0]))}-{re.escape(chr(argument[1]))}"
        else:
            yield classes[argument]
    yield "]"


def repeats(parsed: Any, before: str = "") -> Iterator[tuple[str, str]]:
    """Yield what a pattern repeats without an end, each with a text that leads there."""
    for index, (code, argument) in enumerate(parsed):
        lead = before + sample(list(parsed)[:index])
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT, codes.POSSESSIVE_REPEAT):
            if argument[1] > 100:
                yield lead, sample(argument[2])
            yield from repeats(argument[2], lead)
        elif code is codes.SUBPATTERN:
            yield from repeats(argument[3], lead)
        elif code is codes.ATOMIC_GROUP:
            yield from repeats(argument, lead)
        elif code is codes.BRANCH:
            for branch in argument[1]:
                yield from repeats(branch, lead)


def seconds(found: Found, text: Any) -> float:
    """Return the CPU time of one match, the least of three where it seems a little long."""
    took = []
    for _ in range(3):
        start = time.thread_time()
        if found.searches:
            for _ in found.pattern.finditer(text):
                pass
        else:
            found.pattern.fullmatch(text)
            found.pattern.match(text)
        took.append(time.thread_time() - start)
        if not _MOST_SECONDS <= took[-1] < 10 * _MOST_SECONDS:
            break
    return min(took)


def slow_text(found: Found) -> str | None:
    """Return a description of a text on which a pattern takes too long."""
    source = found.pattern.pattern
    is_bytes = isinstance(source, bytes)
    parsed = parser.parse(source, found.pattern.flags & ~re.UNICODE if is_bytes else found.pattern.flags)
    ways = set(repeats(parsed))
    leads = {"", *(lead for lead, _ in ways)}
    units = {unit for _, unit in ways} | {sample(parsed), *_UNITS}
    if not ways and not found.searches:
        return None
    for lead in sorted(leads):
        for unit in sorted(units - {""} if not lead else {unit for _, unit in ways} - {""}):
            for end in _ENDS:
                for size in _SIZES:
                    text = lead + unit * (size // len(unit)) + end
                    if seconds(found, text.encode("latin-1", "replace") if is_bytes else text) > _MOST_SECONDS:
                        return f"{lead!r} + {unit!r} * {size // len(unit)} + {end!r}"
    return None


def test_every_pattern_is_linear() -> None:
    found = {(one.pattern.pattern, one.pattern.flags, one.searches): one for one in patterns()}
    assert len(found) > 100
    slow = {one.where: text for one in recorded.sample([*found.values()], 8) if (text := slow_text(one))}
    assert slow == {}


@pytest.mark.parametrize("pattern", [r"0*[0-9]*(\.[0-9]+)?x", r"(a+)+b", r"\s*\n*$", r"[0-9]+z", r"(a|aa)*c"])
def test_a_pattern_that_is_not_is_noticed(pattern: str) -> None:
    assert slow_text(Found("", re.compile(pattern), searches=True)) is not None
