"""Commands and groups of them: their help, with examples and groups of options.

It is laid out by Typer's own plain formatter, as Rich alone takes three times as long to load as all of the help.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from itertools import takewhile
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from kplan.cli.effects import pass_over, remember_order
from kplan.cli.options import MORE, OPTIONS

_TEXTS = list[str]
_MOST_SHOWN = 60  #: characters of a value that is refused


class QuickConversion:
    """Converts values of a type as Typer does: itself where that needs no Pydantic, else by what `typers` returns."""

    def __init__(self, annotation: Any, typers: Callable[[], Any]) -> None:
        self._annotation = annotation
        self._typers = typers

    def __call__(self) -> QuickConversion:
        """Return itself, in place of the function that returns Typer's conversion."""
        return self

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        """Return the converted value; raises Typer's BadParameter for an invalid one."""
        annotation = self._annotation
        if param.multiple or param.nargs == -1:
            if value is None:
                return ()
            if annotation == _TEXTS and isinstance(value, list | tuple) and all(type(item) is str for item in value):
                return list(value)
        elif value is None or (annotation in (str, int) and type(value) is annotation):
            return value  # values of a command line are texts: a value of another type is a default
        elif annotation is int and (number := _whole_number(value, param)) is not None:
            return number
        elif isinstance(annotation, type) and issubclass(annotation, Enum):
            with suppress(ValueError):
                return annotation(value)
        try:
            return self._typers().coerce(value, param=param, ctx=ctx)
        except typer.BadParameter as error:
            if annotation is int:
                least, most = param.min, param.max
                bounds = "" if least is None else f" from {least:,}" + (" up" if most is None else f" to {most:,}")
                error.message = f"expected a whole number{bounds}, got {str(value)[:_MOST_SHOWN]!r}"
            raise


def _whole_number(value: Any, param: Any) -> int | None:
    """Return the number that a value writes in digits; None for another value, and beyond the bounds of a parameter."""
    from kplan.api.quantity import MAX_INT64, natural

    number = natural(value, MAX_INT64 if param.max is None else param.max) if type(value) is str else None
    return number if number is not None and number >= (param.min or 0) else None


_ARGUMENTS = "Arguments"
_GOES_ON = " \\"
_WHOLE = "--help-all"
_HELP = "-h, --help"

_COMMON = ("snapshot", "output", "explain", "fail_on", "namespace", "all_namespaces", "replicas", "context")
"""Shared parameters that `--help` shows, too, as far as there is room for them, the first of these first."""

_SCREEN = 24  #: lines of the short help at most
_MOST_EXAMPLES = 3  #: in the short help, of which they take a line each
_WIDEST = 30  #: the help of an option with a longer name begins below it
_GAP = 4  #: blanks before and behind the names of options

_HELPS = [(_HELP, "Show the common options and exit."), (_WHOLE, "Show this message and exit.")]
_LAST = ("Pods", "Manifests", "Cluster", "What if", "Scheduler", "Autoscaler", "Many questions", "Output", "Messages")
"""Groups of shared options, in their order in the whole help."""

_Record = tuple[str, str]  #: the names of a parameter, and what it is for
_Groups = dict[str, list[_Record]]  #: by the title of the group


class _Records(NamedTuple):
    """The lines about the parameters of a command."""

    arguments: list[_Record]
    own: _Groups  #: options of the command alone
    common: list[_Record]  #: the commonest shared options
    shared: _Groups  #: all of these

    @property
    def n_options(self) -> int:
        return sum(map(len, (*self.own.values(), *self.shared.values())))

    def in_groups(self, *, is_whole: bool) -> _Groups:
        """Return all of them; a short help that is whole has the shared options among the command's own."""
        own = dict(self.own)
        helps = _HELPS if is_whole else [(_HELP, "Show this message and exit.")]
        own[OPTIONS] = [*own.pop(OPTIONS, ()), *(() if is_whole else self.common), *helps]
        more = own.pop(MORE, [])
        return {_ARGUMENTS: self.arguments, **own, MORE: more, **(self.shared if is_whole else {})}


class _Quick:
    """A command whose options are found, and their values converted, quickly."""

    def make_parser(self, ctx: Any) -> Any:
        """Return the parser; it seeks options among the long ones first, where short ones are, too: ``-s=demo``."""
        parser = super().make_parser(ctx)  # type: ignore[misc] # as below
        parser._long_opt |= parser._short_opt  # noqa: SLF001 - no option of Typer says so
        return parser

    def get_params(self, ctx: Any) -> list[Any]:
        """Return the parameters, which load Pydantic only for values that need it."""
        parameters: list[Any] = super().get_params(ctx)  # type: ignore[misc] # of the command that it is mixed in
        for parameter in parameters:
            typers = getattr(parameter, "get_runtime_param", None)
            descriptor = getattr(parameter, "type_descriptor", None)
            if typers is not None and descriptor is not None and not isinstance(typers, QuickConversion):
                parameter.get_runtime_param = QuickConversion(descriptor.annotation, typers)
        return parameters


class KplanCommand(_Quick, TyperCommand):
    """A command with a short and a whole help; in both, examples come first.

    `--help` fits a screen of 24 lines: the command's own options and the commonest of the shared ones, in a line each.
    `--help-all` has all of them in groups (``rich_help_panel``). Each line of the epilog is an example: a command, two
    blanks, ``#`` and its purpose.
    """

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the command line, remember the order of its options, and warn of options without effect."""
        end = args.index("--") if "--" in args else len(args)
        if _WHOLE in args[:end] and not ctx.resilient_parsing:
            ctx.meta[_WHOLE] = True
            typer.echo(self.get_help(ctx), color=ctx.color)
            ctx.exit()
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        remember_order(ctx, order)
        rest = super().parse_args(ctx, args)
        pass_over(ctx)
        return rest

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        text = inspect.cleandoc(self.help or "")
        is_whole = _WHOLE in ctx.meta
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text if is_whole else text.partition("\n\n")[0])
        records = self._records(ctx)
        if is_whole or len(records.own.get(OPTIONS, ())) + len(records.common) == records.n_options:
            groups = records.in_groups(is_whole=is_whole)
            self._examples(formatter, None)
        else:
            groups = self._screen(formatter, records)
        for panel, lines in groups.items():
            if lines:
                with formatter.section(panel):
                    formatter.write_dl(lines)
        if not is_whole and sum(map(len, groups.values())) - len(records.arguments) < records.n_options:
            formatter.write_paragraph()
            formatter.write_text(f"{ctx.command_path} {_WHOLE} shows all {records.n_options} options, and says more.")

    def _records(self, ctx: Any) -> _Records:
        arguments: list[_Record] = []
        own: _Groups = {}
        shared: _Groups = {panel: [] for panel in _LAST}
        common: dict[str, _Record] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None or record[0] == _HELP:
                continue
            if parameter.param_type_name == "argument":
                arguments.append((parameter.metavar or parameter.name, record[1]))
                continue
            panel = getattr(parameter, "rich_help_panel", None) or OPTIONS
            (shared if panel in shared else own).setdefault(panel, []).append(record)
            if panel not in (OPTIONS, MORE):
                common[parameter.name] = record
        return _Records(arguments, own, [common[name] for name in _COMMON if name in common], shared)

    def _screen(self, formatter: Any, records: _Records) -> _Groups:
        """Write the examples that fit the screen, and return the arguments and options that do, in a line each."""
        arguments = records.arguments
        n_sections = 2 + bool(arguments)
        used = formatter.getvalue().count("\n") + 2 * n_sections + len(arguments) + 2
        first, _ = next(iter(examples_of(self.epilog or "")), ("", ""))
        lines = len(_wrapped(first, formatter.width - _GAP, "", "", _GOES_ON)) if first else 0
        room, options = _SCREEN - used - lines, []
        for record in (*records.own.get(OPTIONS, ()), *records.common):
            room -= 1 + (len(record[0]) > _WIDEST)
            if room >= 0:
                options.append(record)
        self._examples(formatter, max(min(room + 1, _MOST_EXAMPLES), 1))
        return {panel: _in_a_line(formatter, own) for panel, own in ((_ARGUMENTS, arguments), (OPTIONS, options))}

    def _examples(self, formatter: Any, most: int | None) -> None:
        """Write commands with their purposes; where there may be so many at most, each in a line if it fits."""
        if not self.epilog:
            return
        with formatter.section("Examples"):
            for command, purpose in examples_of(self.epilog)[:most]:
                indent = " " * formatter.current_indent
                line = f"{indent}{command}  # {purpose}"
                if most is not None and len(line) > formatter.width:
                    line = f"{indent}{command}"
                if most is not None and len(line) <= formatter.width:
                    formatter.write(f"{line}\n")
                    continue
                written = _wrapped(f"# {purpose}", formatter.width, indent, "# ") if most is None else []
                written += _wrapped(command, formatter.width - len(_GOES_ON), indent, "    ", _GOES_ON)
                formatter.write("".join(f"{line}\n" for line in written))


def _in_a_line(formatter: Any, records: list[_Record]) -> list[_Record]:
    room = formatter.width - _GAP - min(max((len(name) for name, _ in records), default=0), _WIDEST)
    return [(name, textwrap.shorten(text, room, placeholder=" …")) for name, text in records]


def _wrapped(text: str, width: int, indent: str, rest: str, end: str = "") -> list[str]:
    """Return lines between whose words the text is broken; `end` ends all but the last."""
    wrapper = textwrap.TextWrapper(width, indent, indent + rest, break_long_words=False, break_on_hyphens=False)
    *lines, last = wrapper.wrap(text)
    return [*(line + end for line in lines), last]


class KplanGroup(_Quick, TyperGroup):
    """A group of commands; its help is always whole."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take ``--help-all`` before any command for ``--help``."""
        own = list(takewhile(lambda arg: arg.startswith("--") and arg != "--", args))
        parsed: list[str] = super().parse_args(
            ctx, ["--help" if arg == _WHOLE else arg for arg in own] + args[len(own) :]
        )
        return parsed


def subgroup(name: str, words: str) -> typer.Typer:
    return typer.Typer(
        name=name, help=words, cls=KplanGroup, add_completion=False, no_args_is_help=True, rich_markup_mode=None
    )


def subcommand(group: typer.Typer, short_help: str, examples: str) -> Callable[[Callable[..., None]], Any]:
    """Add a function to a group of commands, under its name."""
    return group.command(cls=KplanCommand, short_help=short_help, epilog=examples)


def examples_of(epilog: str) -> list[tuple[str, str]]:
    parts = (line.partition("  # ") for line in epilog.strip().splitlines())
    return [(command.strip(), purpose.strip()) for command, _, purpose in parts]
