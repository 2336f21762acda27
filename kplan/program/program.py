"""A program of many commands, each loaded only when it runs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

import typer
import typer.main

from kplan.cli.faults import KplanGroup
from kplan.cli.help import KplanCommand


class Entry(NamedTuple):
    """A command, or a group of commands, that is loaded on demand."""

    load: Callable[[], Any]  #: returns the command that Typer runs
    short_help: str  #: its line in the program's help; empty for a hidden command
    section: str = ""  #: the group of commands under which the program's help lists it


def command(name: str, home: str, short_help: str = "", section: str = "") -> Entry:
    """Return the entry of a command; without a short help it is hidden.

    Parameters
    ----------
    section : the group of commands under which the program's help lists it
    home : ``module:function``; `EXAMPLES` of the module are lines of the help, each a command, two blanks, ``#`` and
        its purpose
    """

    def load() -> Any:
        module, _, function = home.partition(":")
        place = import_module(module)
        examples = getattr(place, "EXAMPLES", None)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name, cls=KplanCommand, epilog=examples, short_help=short_help, hidden=not short_help)(
            getattr(place, function)
        )
        return typer.main.get_command(alone)

    return Entry(load, short_help, section)


def group(home: str, short_help: str, section: str) -> Entry:
    """Return the entry of a group of commands, as `command`; `home` is ``module:app``."""
    return Entry(lambda: typer.main.get_command(_load(home)), short_help, section)


def _load(home: str) -> Any:
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


class Program(KplanGroup):
    """A group whose commands are loaded when they are looked up."""

    entries: ClassVar[Mapping[str, Entry]]

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _OnDemand({name: entry.load for name, entry in self.entries.items()})

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        """Return the names of all commands."""
        return list(self.commands)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the commands, then the options."""
        self.format_commands(ctx, formatter)
        records = [record for parameter in self.get_params(ctx) if (record := parameter.get_help_record(ctx))]
        with formatter.section("Options"):
            formatter.write_dl(records)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - as Typer calls it
        """Write one line for each command, by section, without loading any."""
        shown = {name: entry for name, entry in self.entries.items() if entry.short_help}
        width = max(map(len, shown))
        for section in dict.fromkeys(entry.section for entry in shown.values()):
            rows = [(name.ljust(width), entry.short_help) for name, entry in shown.items() if entry.section == section]
            with formatter.section(section):
                formatter.write_dl(rows)


class _OnDemand(MutableMapping[str, Any]):
    """Commands by name, each loaded when it is first looked up."""

    def __init__(self, loaders: Mapping[str, Callable[[], Any]]) -> None:
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
