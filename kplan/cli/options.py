"""Options and arguments of commands, declared as the help shows them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeVar, dataclass_transform

import typer

SNAPSHOT = "KPLAN_SNAPSHOT"  #: the variable of the environment that names the cluster
DECLARED = "declared"  #: where the metadata of a field has its option or argument

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def options(group: type[T]) -> type[T]:
    """Make a class of options a dataclass, whose fields do not change; of its methods only `__init__` is written.

    A dataclass writes and compiles its methods at every start, before any command can begin.
    """
    return dataclass(eq=False, repr=False)(group)


def flag(spelled: str, about: str, *, default: Any = "", panel: str | None = None, **settings: Any) -> Any:
    """Return an `option`, to stand as the default of a field, or of a parameter of a command with `with_flags`."""
    return field(default=default, metadata={DECLARED: option(spelled, about, panel=panel, **settings)})


def switch(spelled: str, about: str, *, panel: str | None = None) -> Any:
    """Return an option without a value, which is off by default, as `flag`."""
    return flag(spelled, about, default=False, panel=panel)


def repeated(spelled: str, about: str, **settings: Any) -> Any:
    """Return an option whose values are a list, as `flag`."""
    return flag(spelled, about, default=None, **settings)


def arguments(metavar: str, about: str) -> Any:
    """Return an argument that may be there more than once, or not at all, to stand where `flag` may."""
    return field(default=None, metadata={DECLARED: argument(metavar, about)})


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
