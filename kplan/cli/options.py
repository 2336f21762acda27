"""Options and arguments: how commands declare them, alone, in groups, and as fields of questions.

A command takes them as parameters: one option (`flag`), a group of them (a class of `Flags`), or those that the fields
of a question have (``Annotated[Fields, Drain]``). `with_flags` shows Typer the single options in their place.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from enum import StrEnum
from operator import itemgetter
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    dataclass_transform,
    get_args,
    get_origin,
    get_type_hints,
)

import typer

SNAPSHOT = "KPLAN_SNAPSHOT"  #: the variable of the environment that names the cluster
OPTIONS = "Options"  #: the group in the help of a command's own options
MORE = "More options"  #: a command's own options that only the whole help shows
_DECLARED = "declared"  #: where the metadata of a field has its option or argument


@dataclass_transform(eq_default=False, frozen_default=True, kw_only_default=True)
class Flags:
    """A group of options, or of such groups: a dataclass, whose fields do not change; in the help it is under `panel`.

    All groups share one `__init__`: a dataclass writes and compiles its methods at every start, before any command can
    begin.
    """

    panel: ClassVar[str] = ""

    def __init_subclass__(cls, panel: str = "") -> None:
        cls.panel = panel or cls.panel
        dataclass(init=False, eq=False, repr=False, match_args=False)(cls)

    def __init__(self, **values: Any) -> None:
        for own in fields(self):  # type: ignore[arg-type] # every group is a dataclass
            setattr(self, own.name, values.pop(own.name) if own.name in values else own.default)
        if values:
            raise TypeError(f"{type(self).__name__} has no options {', '.join(values)}")


def flag(spelled: str, about: str, *, default: Any = "", panel: str | None = None, **settings: Any) -> Any:
    """Return an `option`, to stand as the default of a field, or of a parameter of a command with `with_flags`."""
    return field(default=default, metadata={_DECLARED: option(spelled, about, panel=panel, **settings)})


def switch(spelled: str, about: str, *, panel: str | None = None) -> Any:
    """Return an option without a value, which is off by default, as `flag`."""
    return flag(spelled, about, default=False, panel=panel)


def repeated(spelled: str, about: str, **settings: Any) -> Any:
    """Return an option whose values are a list, as `flag`."""
    return flag(spelled, about, default=None, **settings)


def arguments(metavar: str, about: str) -> Any:
    """Return an argument that may be there more than once, or not at all, to stand where `flag` may."""
    return field(default=None, metadata={_DECLARED: argument(metavar, about)})


def option(spelled: str, about: str, *, panel: str | None = None, **settings: Any) -> Any:
    """Return an option, to stand in `Annotated` behind the type of its value.

    `spelled`: its names, and the word for its value if it has one: ``--output -o FORMAT``.
    `about`: its line in the help.
    `panel`: the group of options under which the help has it; None for that of its class, or for the command's own.
    `settings`: further parameters of `typer.Option`.
    """
    words = spelled.split()
    names = [word for word in words if word.startswith("-")]
    metavar = words[-1] if len(words) > len(names) else None
    return typer.Option(*names, metavar=metavar, help=about, rich_help_panel=panel, **settings)


def argument(metavar: str, about: str) -> Any:
    """Return an argument, as `option`; its default is said in its line of the help."""
    return typer.Argument(metavar=metavar, help=about, show_default=False)


class _Part(NamedTuple):
    """What a parameter of a command, or a field of a group or question, takes from the command line."""

    options: list[inspect.Parameter]  #: as Typer reads them
    value: Callable[[Mapping[str, Any]], Any]  #: what it is, by the values of all options


def with_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command whose groups of options are replaced by their fields."""
    hints, parameters = get_type_hints(command, include_extras=True), inspect.signature(command).parameters
    parts = {name: _part(name, hints[name], parameter.default) for name, parameter in parameters.items()}
    options, call = _together(parts, command)

    @functools.wraps(command)
    def run(**typed: Any) -> None:
        call(typed)

    run.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined] # what Typer reads
    run.__annotations__ = {}  # those of the command, which it would read for nothing
    return run


def _together(parts: Mapping[str, _Part], make: Callable[..., Any]) -> _Part:
    """Return what several parts take, of which one thing is made."""
    options = [one for part in parts.values() for one in part.options]
    return _Part(options, lambda typed: make(**{name: part.value(typed) for name, part in parts.items()}))


def _part(name: str, hint: Any, default: Any) -> _Part:
    if isinstance(hint, type) and issubclass(hint, Flags):
        return _of_group(hint)  # type: ignore[arg-type] # classes have a hash
    for part in getattr(hint, "__metadata__", ()):
        if hasattr(part, "__struct_fields__"):
            return _together(_of_question(part), functools.partial(_made, dict))
    return _Part([_parameter(name, hint, default)], itemgetter(name))


@functools.cache
def _of_group(group: Any) -> _Part:
    parts = {one.name: _part(one.name, one.type, one) for one in fields(group)}
    for name, part in parts.items():
        owner = next(base for base in group.__mro__ if name in vars(base).get("__annotations__", ()))
        for declared in (one for parameter in part.options for one in parameter.annotation.__metadata__):
            declared.rich_help_panel = declared.rich_help_panel or owner.panel
    return _together(parts, group)


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """Return a parameter as Typer reads it; the option or argument may stand in the default, as `flag` has it."""
    if isinstance(default, Field):
        hint = Annotated[hint, default.metadata[_DECLARED]] if _DECLARED in default.metadata else hint
        default = inspect.Parameter.empty if default.default is MISSING else default.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


Fields = dict[str, Any]
"""Fields of a question that options set, by name: a command takes them as ``Annotated[Fields, Drain]``."""

_LARGEST = 2**31  #: higher bounds of numbers are not told
_SPELLED: dict[str, str] = {}  #: field -> its option, where that has another name


def option_of(parameter: str) -> str:
    """Return the option that sets a parameter of a question: ``--node-start`` for ``node_start``."""
    return _SPELLED.get(parameter) or f"--{parameter.replace('_', '-')}"


def _made(kind: Callable[..., Any], /, **values: Any) -> Any:
    """Make a struct, or a dictionary, of the values that are set; all others have their defaults."""
    return kind(**{name: value for name, value in values.items() if value is not None})


@functools.cache
def _of_question(struct: Any) -> dict[str, _Part]:
    """Return the fields of a question that have an `Option`, and those such as `options` within which some have one."""
    from kplan.api.quantity import capitalized
    from kplan.reading.arguments import Option, descriptions

    hints, about = get_type_hints(struct, include_extras=True), descriptions(struct)
    n_required = len(struct.__struct_fields__) - len(struct.__struct_defaults__)
    defaults = (*(None,) * n_required, *struct.__struct_defaults__)
    own: dict[str, _Part] = {}
    for name, default in zip(struct.__struct_fields__, defaults, strict=True):
        hint = hints[name]
        declared = next((part for part in getattr(hint, "__metadata__", ()) if isinstance(part, Option)), None)
        if declared is not None:
            words = f" ({', '.join(_words_in(hint))})" if declared.lists_words else ""
            own[name] = _of_field(name, hint, declared, default, f"{capitalized(about[name])}{words}.")
        elif hasattr(hint, "__struct_fields__") and (parts := _of_question(hint)):
            own[name] = _together(parts, functools.partial(_made, hint))
    return own


def _of_field(name: str, hint: Any, declared: Any, default: Any, about: str) -> _Part:
    kind, bounds = _kind_and_bounds(hint)
    words = declared.spelled.split()
    names = [word for word in words if word.startswith("-")]
    own_name = name
    if names:
        _SPELLED[name] = names[0]
        own_name = f"{names[0].strip('-').replace('-', '_')}_given"
    else:
        plain = name.replace("_", "-")
        words.insert(0, f"--{plain}/--no-{plain}" if kind is bool and default else f"--{plain}")
    if declared.read is not None:
        kind, default = str, ""
    elif get_origin(kind) is Literal:
        choices: Any = StrEnum
        kind = choices(name, [(word.upper(), word) for word in get_args(kind)])
        default = None if default is None else kind(default)
    elif get_origin(kind) is tuple:
        kind, default = list[str], None
    elif kind is str:
        default = default or ""
    settings = bounds if kind is int else {}
    declaration = option(" ".join(words), about, panel=MORE if declared.more else None, **settings)
    wanted = kind | None if default is None else kind
    parameter = _parameter(own_name, Annotated[wanted, declaration], default)
    return _Part([parameter], lambda typed: _value(typed[own_name], declared.read))


def _value(typed: Any, read: Callable[[str], Any] | None) -> Any:
    """Return the value for a field of what the command line gives; None where that is nothing."""
    if read is not None:
        return read(typed) if typed else None
    if isinstance(typed, StrEnum):
        return typed.value
    return tuple(typed) if isinstance(typed, list) else typed


def _words_in(hint: Any) -> Iterator[str]:
    for part in get_args(hint):
        if isinstance(part, str) and get_origin(hint) is Literal:
            yield part
        else:
            yield from _words_in(part)


def _kind_and_bounds(hint: Any) -> tuple[Any, dict[str, int]]:
    """Return a type without annotations and without None, and the bounds of a number."""
    bounds: dict[str, int] = {}
    while True:
        if get_origin(hint) is Annotated:
            for part in hint.__metadata__:
                least, most = getattr(part, "ge", None), getattr(part, "le", None)
                bounds |= {} if least is None else {"min": least}
                bounds |= {} if most is None or most > _LARGEST else {"max": most}
            hint = get_args(hint)[0]
        elif type(None) in get_args(hint):
            (hint,) = (part for part in get_args(hint) if part is not type(None))
        else:
            return hint, bounds
