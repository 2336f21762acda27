"""Arguments that programs pass, read as the types that they are to have, and the bounds and defaults of numbers.

Numbers, texts and arrays of numpy and pandas stand for those of Python, paths for their text, and None for what is not
given, unless it is a value of its own. Bounds are the same in documents, on the command line and in Python.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from itertools import takewhile
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, ParamSpec, TypeVar, cast, get_args, get_origin

import msgspec

from kplan.api import decode
from kplan.api.quantity import MAX_INT64
from kplan.api.time import SECOND, parse_duration
from kplan.errors import Problem, UsageError

T = TypeVar("T")
_OPENS = "opens"

FilePath = Annotated[str, msgspec.Meta(extra={_OPENS: True})]
"""The path of a file that is read for the answer. A parameter that names one has this type: agents may not set it."""

Manifest = FilePath | dict[str, Any]  #: a file, a directory, or an object

Rollout = Literal["auto", "always", "never"]
"""Whether a workload of the cluster rolls out: where its template changes, always, or never."""

_ATTRIBUTE = r"^(\w+(?:, \w+)*) : (.+(?:\n +.+)*)$"  #: a line of a docstring's Attributes, about one field or several
_FIELD = r"    (\w+): "
_OF_SEVERAL = r"(\w+(?:, \w+)+): (.+)"  #: a comment above several fields, which begins with their names
YEAR: Final = 366 * 24 * 3600.0  #: in seconds
P = ParamSpec("P")
R = TypeVar("R")
_WITHIN_BRACKETS = r"(\[[^\[\]]*+\])"
_CAPITAL = r"(?<=[a-z])[A-Z]"


class Option(msgspec.Struct, frozen=True):
    """How the command line sets a field of a question, whose type it annotates; the docstring says what it is for."""

    #: its names, and the word for its value, such as ``--max N``; without a name it has that of the field
    spelled: str = ""
    read: Callable[[str], Any] | None = None  #: turns the text of the option into the value
    more: bool = False  #: only the whole help shows it
    lists_words: bool = False  #: the help lists the words that the value is made of


def descriptions(struct: type[msgspec.Struct]) -> dict[str, str]:
    """Return field -> its description in a struct and its bases: in the docstring, or in a comment of the source.

    What is said of several fields at once stands for those of which a base says nothing more precise.
    """
    described: dict[str, str] = {}
    for base in reversed(struct.__mro__):
        if issubclass(base, msgspec.Struct) and base is not msgspec.Struct:
            in_docstring = re.findall(_ATTRIBUTE, inspect.cleandoc(base.__doc__ or ""), re.MULTILINE)
            for names, text in (*in_docstring, *_comments(base)):
                about = dict.fromkeys(names.split(", "), " ".join(text.split()))
                described = described | about if len(about) == 1 else about | described
    return described


@functools.cache
def _comments(struct: type[msgspec.Struct]) -> list[tuple[str, str]]:
    """Return the fields of a struct that a comment ``#:``, above it or behind it, is about, and what it says."""
    source = vars(sys.modules[struct.__module__])["__loader__"].get_data(inspect.getfile(struct)).decode()
    body = source.partition(f"\nclass {struct.__name__}(")[2].partition(":\n")[2]
    described: list[tuple[str, str]] = []
    above: list[str] = []
    for line in takewhile(lambda line: not line[:1].strip(), body.splitlines()):
        if line.startswith("    #: "):
            above.append(line.removeprefix("    #: "))
            continue
        text = " ".join(above) or line.partition("  #: ")[2]
        above = []
        if text and (field := re.match(_FIELD, line)):
            several = re.fullmatch(_OF_SEVERAL, text)
            described.append((several[1], several[2]) if several else (field[1], text))
    return described


def is_file_path(kind: msgspec.inspect.Type) -> bool:
    return isinstance(kind, msgspec.inspect.Metadata) and bool((kind.extra or {}).get(_OPENS))


def refuse_empty(source: object) -> None:
    """Raise UsageError for an empty path, which would be the present directory: mostly a variable that is not set."""
    if source == "":
        raise UsageError("an empty path", hint="name a file or a directory; . is the present one")


def listed(values: Iterable[T]) -> list[T]:
    """Return values as a list; a single text, path or object is a list of one, not of its characters or keys."""
    if isinstance(values, str | Mapping) or not isinstance(values, Iterable):
        return [cast("T", values)]
    return list(values)


def words_of(text: str) -> tuple[str, ...]:
    """Return what commas separate."""
    return tuple(word.strip() for word in text.split(",") if word.strip())


def duration_of(text: str) -> float:
    """Return a duration as in kubectl (``1m30s``, ``45``) in seconds; raises UsageError for anything else."""
    stripped = text.strip()
    duration = parse_duration(stripped)
    if re.fullmatch(r"\d+(\.\d+)?", stripped):
        return float(stripped)
    if duration is None or duration < 0:
        hint = "write seconds or a number with a unit, for example 30s or 1m30s"
        raise UsageError(f"not a duration: {text!r}", hint=hint)
    return duration / SECOND


def seconds_of(text: str, option: str) -> float:
    """Return the seconds of an option's duration, also in days; raises UsageError for more than a year."""
    days = text.strip().removesuffix("d")
    is_long = len(text.strip()) > len("31622400.000s")
    is_days = days != text.strip() and days.isdecimal() and not is_long
    try:
        seconds = math.inf if is_long else int(days) * 86400.0 if is_days else duration_of(text)
    except UsageError as error:
        raise UsageError(f"{option}: {error.message}", hint=error.hint) from None
    if seconds > YEAR:
        raise UsageError(f"{option} {text}: longer than a year", hint="give a shorter duration")
    return seconds


def plain(value: Any, whose: str) -> Any:
    """Return a value as builtins, as far as there are some for it; structs become their documents.

    Raises UsageError, which says `whose` value it is, where that is nested too deeply or holds itself.
    """
    try:
        return _plain(value)
    except RecursionError:
        raise UsageError(f"{whose}: nested too deeply", hint="does a list or dict hold itself?") from None


def _plain(value: Any) -> Any:
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        fields = zip(value.__struct_encode_fields__, value.__struct_fields__, strict=True)
        items = ((name, getattr(value, field)) for name, field in fields)
        document = {name: _plain(item) for name, item in items if item is not msgspec.UNSET}
        return document if config.tag_field is None else {config.tag_field: config.tag, **document}
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    to_list = getattr(value, "tolist", None)  # arrays, and their scalars
    return value if to_list is None or isinstance(value, type) else to_list()


def refuse(whose: str, problems: list[Problem], hint: str) -> None:
    """Raise UsageError for the arguments of a question or method, told with the names that they have in Python."""
    if problems:
        texts = [str(problem._replace(path=whose, json_path=_in_python(problem.json_path))) for problem in problems]
        raise UsageError("\n".join(texts), hint=hint)


def _in_python(path: str) -> str:
    """Return a JSON path in Python's words: ``options.grace_period`` for ``$.options.gracePeriod``."""
    parts = re.split(_WITHIN_BRACKETS, path.removeprefix("$").removeprefix("."))
    return "".join(
        part if part.startswith("[") else re.sub(_CAPITAL, lambda match: f"_{match[0].lower()}", part) for part in parts
    )


def _parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


def checked_by(parameters: type[msgspec.Struct], whose: str = "") -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that reads the arguments of a method by their types, and raises UsageError with all problems.

    What the parameters lack is passed on as it is; where several values belong, one may stand alone. Users call
    `whose`, or else the method itself.
    """
    kinds = {field.name: field.type for field in msgspec.structs.fields(parameters)}
    takes_several = {name for name, kind in kinds.items() if any(get_origin(part) is tuple for part in _parts(kind))}
    takes_none = {name for name, kind in kinds.items() if NoneType in _parts(kind)}

    def decorate(method: Callable[P, R]) -> Callable[P, R]:
        signature = inspect.signature(method)
        called = whose or method.__name__
        names = [name for name in signature.parameters if name in kinds]

        @functools.wraps(method)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            bound = signature.bind(*args, **kwargs)
            passed = {name: bound.arguments.pop(name) for name in names if name in bound.arguments}
            several = {
                name: listed(value) if name in takes_several and value is not None else value
                for name, value in passed.items()
                if value is not None or name in takes_none
            }
            values = plain(several, called)
            missing = [
                Problem("is missing", json_path=name)
                for name in passed.keys() - values.keys()
                if signature.parameters[name].default is inspect.Parameter.empty
            ]
            problems = []
            try:
                arguments = decode.convert(values, parameters)
            except decode.DecodeError as error:
                problems = list(error.problems)
            refuse(called, [*missing, *problems], f"see help(kplan.{'' if whose else 'Planner.'}{called})")
            bound.arguments.update((name, getattr(arguments, name)) for name in values)
            return method(*bound.args, **bound.kwargs)

        return call

    return decorate


DEFAULT_MAX_ROUNDS: Final = 10  #: rounds over the pods that the scheduling queue leaves pending
DEFAULT_RUNS: Final = 500  #: runs with random draws from which odds are computed
DEFAULT_SEED: Final = 7  #: seed of these draws
DEFAULT_HEADROOM: Final = 1_000  #: the number of further replicas of a workload at which headroom stops counting
MOST_EXPLAINED: Final = 4_000  #: pods that are explained at once

MOST_VERDICTS: Final = 1_000_000
"""Pods times nodes that are explained at once: every explanation holds the verdicts on all nodes."""

MOST_RUNS: Final = 1_000_000  #: runs with random draws at most: more make the shares no more precise, and take days
Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_INT64)]  #: how many there are
Positive = Annotated[int, msgspec.Meta(ge=1, le=MAX_INT64)]  #: how many there are, where there has to be one
Runs = Annotated[int, msgspec.Meta(ge=1, le=MOST_RUNS)]  #: how many times a question is asked with other draws
Seed = Annotated[int, msgspec.Meta(ge=-MAX_INT64 - 1, le=MAX_INT64)]  #: of draws: the same seed gives the same answer


class PlannerSettings(msgspec.Struct):
    """The types of the settings of a planner; None stands for their default."""

    feature_gates: dict[str, bool] = {}
    kubernetes: str = ""
    now: str = ""
    sampling: Literal["all", "as-configured"] = "all"
    seed: Seed = 0
    start_index: Number = 0
    ties: Literal["scheduler", "name", "even"] = "scheduler"
