"""A program of many commands, of which the one that is asked for is loaded, and no other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, ClassVar

import typer
import typer.main

from kplan.cli.faults import KplanGroup
from kplan.cli.help import KplanCommand

Loader = Callable[[], Any]
"""Returns a command as Typer runs it."""


def command(
    name: str, home: str, examples: str | None = None, short_help: str | None = None, *, hidden: bool = False
) -> Loader:
    """Return what loads a command.

    Parameters
    ----------
    home : ``module:function``
    examples : lines of its help, each a command, two blanks, ``#`` and what it is for
    """

    def load() -> Any:
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name, cls=KplanCommand, epilog=examples, short_help=short_help, hidden=hidden)(_found(home))
        return typer.main.get_command(alone)

    return load


def group(home: str) -> Loader:
    """Return what loads a group of commands; `home` is ``module:app``."""
    return lambda: typer.main.get_command(_found(home))


def _found(home: str) -> Any:
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


class Program(KplanGroup):
    """A group whose commands are loaded when they are looked up."""

    loaders: ClassVar[Mapping[str, Loader]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _OnDemand(self.loaders)

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        """Return the names of all commands."""
        return list(self.commands)


class _OnDemand(MutableMapping[str, Any]):
    """Commands by name, each loaded when it is first looked up."""

    def __init__(self, loaders: Mapping[str, Loader]) -> None:
        self._loaders = dict(loaders)
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = self._loaders[name]()
        return self._loaded[name]

    def __setitem__(self, name: str, value: Any) -> None:
        self._loaders[name] = lambda: value
        self._loaded.pop(name, None)

    def __delitem__(self, name: str) -> None:
        del self._loaders[name]
        self._loaded.pop(name, None)

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)
