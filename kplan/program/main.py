"""`kplan`: the command line. Every command imports what it needs when it runs, so that help is quick."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
import typer.main

from kplan.catalogue import HOMES
from kplan.cli import process
from kplan.cli.help import KplanCommand, KplanGroup
from kplan.cli.messages import FAILED, print_error, say, silence_output
from kplan.cli.options import option
from kplan.cli.pipelines import remember_formats
from kplan.errors import KplanError, UsageError
from kplan.version import __version__

_FIRST = ("explain", "place", "plan", "drain", "remedy", "check")  #: the commands that the program's help lists first
_DEBUG_OPTION = "--debug"

_USAGE: type[Exception] = next(base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException")
"""What Typer raises for an invalid command line; it has no name of its own for it."""

_TYPERS_OWN = (typer.Exit, typer.Abort, _USAGE)


class LazyCommand(NamedTuple):
    """A command, or a group of commands, that is loaded on demand."""

    load: Callable[[], Any]  #: returns the command that Typer runs
    short_help: str  #: its line in the program's help; empty for a hidden command


def command(name: str, short_help: str = "", home: str = "kplan.commands") -> LazyCommand:
    """Return the entry of the command that a module in `home` is, by its name; without a short help it is hidden.

    `EXAMPLES` of the module are lines of the help, each a command, two blanks, ``#`` and its purpose.
    """

    def load() -> Any:
        module = import_module(f"{home}.{name}")
        examples = getattr(module, "EXAMPLES", None)
        alone = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        alone.command(name, cls=KplanCommand, epilog=examples, short_help=short_help, hidden=not short_help)(
            getattr(module, name)
        )
        return typer.main.get_command(alone)

    return LazyCommand(load, short_help)


def group(module: str, short_help: str) -> LazyCommand:
    """Return the entry of the group of commands that is the `app` of a module."""
    return LazyCommand(lambda: typer.main.get_command(import_module(module).app), short_help)


_COMMANDS = {home.name: command(home.name, home.short_help) for home in HOMES if home.short_help} | {
    "ask": command("ask", "Answer questions that are written as documents."),
    "show": command("show", "Print a saved report of any command in any format."),
    "snapshot": group("kplan.commands.snapshot", "Save a cluster to a file, show what is in it, or check it."),
    "config": group("kplan.commands.config", "Show the effective KubeSchedulerConfiguration, or check one."),
    "mcp": command("mcp", "Serve the questions as tools for agents (MCP)."),
    "schema": command("schema", "Print the JSON Schema of a document, or list the kinds."),
    "completion": command("completion", "Print a completion script for bash, zsh or fish.", "kplan.program"),
    "names": command("names"),
}


class Program(KplanGroup):
    """All of kplan's commands, each loaded when it is looked up; errors end in a message and exit code 2."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _OnDemand(_COMMANDS)  # type: ignore[assignment] # nobody adds commands

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as Typer calls it
        return list(self.commands)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write a line for each command, the commonest first, without loading any; then the options."""
        shown = {name: entry.short_help for name, entry in _COMMANDS.items() if entry.short_help}
        width = max(map(len, shown))
        for heading, names in (("Commands", _FIRST), ("More", [name for name in shown if name not in _FIRST])):
            with formatter.section(heading):
                formatter.write_dl([(name.ljust(width), shown[name]) for name in names])
        records = [record for parameter in self.get_params(ctx) if (record := parameter.get_help_record(ctx))]
        with formatter.section("Options"):
            formatter.write_dl(records)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept `--debug` anywhere before a `--`."""
        end = args.index("--") if "--" in args else len(args)
        wants_traceback = _DEBUG_OPTION in args[:end]
        rest = [arg for arg in args[:end] if arg != _DEBUG_OPTION] + args[end:]
        try:
            _refuse_names_of_files(args[:end])
            return super().parse_args(ctx, [_DEBUG_OPTION, *rest] if wants_traceback else rest)
        except _USAGE as error:
            raise _print_usage_error(error) from None
        # Help and the version are printed here.
        except BrokenPipeError:
            raise typer.Exit(0) from None
        except KplanError as error:
            print_error(error)
            raise typer.Exit(FAILED) from None

    def invoke(self, ctx: Any) -> Any:
        remember_formats(())
        process.end_in_order()
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            raise _say_interrupted(interrupt) from None
        except BrokenPipeError:
            silence_output()
            raise typer.Exit(0) from None
        except _USAGE as error:
            raise _print_usage_error(error) from None
        except Exception as error:
            if isinstance(error, _TYPERS_OWN) or ctx.params.get("debug"):
                raise
            if (signal := process.received()) is not None:
                raise _say_interrupted(signal) from None
            print_error(error)
            raise typer.Exit(FAILED) from None


def _refuse_names_of_files(args: Iterable[str]) -> None:
    """Raise UsageError for an option that is the name of a file, too.

    A shell's ``*`` and programs such as pre-commit append names of files that somebody else chose.
    """
    for arg in args:
        if arg.startswith("-") and arg != "-" and os.path.lexists(arg):
            hint = f"write ./{arg} for the file, or end the options with -- before the names of files"
            raise UsageError(f"{arg} is an option, and the name of a file as well", hint=hint)


def _say_interrupted(interrupt: KeyboardInterrupt) -> typer.Exit:
    doing = next(iter(getattr(interrupt, "__notes__", ())), "")
    say(f"interrupted while {doing}" if doing else "interrupted")
    return typer.Exit(process.exit_code(interrupt))


_LEAST_PREFIX, _MOST_OPTIONS = 3, 3
_SIMILAR = 0.75  #: options of at least this similarity may be the same one, misspelt
_CHOICES = r"(?<=[:,])\n\t"
_PYDANTICS_PREFIX = "Value error, "
_LOSS = "kplan drain --zone ZONE --lost (or NODE… --lost) says what a loss does, kplan check tries every one"
_RETIRED = {("capacity", "--lose"): _LOSS, ("capacity", "--zones"): _LOSS}
"""Options that were, by command and name, and what to use instead."""


def _print_usage_error(error: Any) -> typer.Exit:
    """Print an invalid command line as any other error, in Typer's words."""
    if isinstance(error, typer.BadParameter):
        error.message = error.message.removeprefix(_PYDANTICS_PREFIX)
    message = error.format_message()
    if (context := getattr(error, "ctx", None)) is not None and message == context.get_help():
        typer.echo(message, err=True)
        return typer.Exit(FAILED)
    unknown = str(getattr(error, "option_name", "")) if getattr(error, "possibilities", None) is not None else ""
    if unknown:
        message = f"no such option: {unknown}"
    # Typer prints the choices for a missing value on lines of their own.
    text = re.sub(_CHOICES, " ", message).removesuffix(".")
    say(f"error: {text[:1].lower()}{text[1:]}")
    if (since := _RETIRED.get((getattr(getattr(context, "command", None), "name", ""), unknown))) is not None:
        say(f"hint: {since}")
    elif unknown and context is not None and (near := _near_options(unknown, context.command.params)):
        say(f"hint: did you mean {' or '.join(near)}?")
    elif context is not None:
        what = "commands" if hasattr(context.command, "commands") else "arguments and options"
        say(f"hint: {context.command_path} --help lists {what}")
    return typer.Exit(FAILED)


def _near_options(unknown: str, parameters: Iterable[Any]) -> list[str]:
    """Return the options that begin as an unknown one does, else those that are so similar that they may be meant."""
    from kplan.api.names import nearest_texts

    name = unknown.removeprefix("--")
    known = [option[2:] for parameter in parameters for option in parameter.opts if option.startswith("--")]
    longer = [other for other in known if len(name) >= _LEAST_PREFIX and other.startswith(name)]
    return [f"--{other}" for other in (longer or nearest_texts(name, known, at_least=_SIMILAR))[:_MOST_OPTIONS]]


class _OnDemand(Mapping[str, Any]):
    """Commands by name, each loaded when it is first looked up."""

    def __init__(self, entries: Mapping[str, LazyCommand]) -> None:
        self._loaders = {name: cache(entry.load) for name, entry in entries.items()}

    def __getitem__(self, name: str) -> Any:
        return self._loaders[name]()

    def __iter__(self) -> Iterator[str]:
        return iter(self._loaders)

    def __len__(self) -> int:
        return len(self._loaders)


app = typer.Typer(
    name="kplan",
    cls=Program,
    help="""terraform plan for the Kubernetes scheduler: where pods land, and why. It changes nothing.
    Without --snapshot it reads the cluster of your kubeconfig; --snapshot demo is an example.""",
    epilog="""Exit codes: 0 nothing in --fail-on happened; 1 something in --fail-on happened; 2 no answer. Try:
    kplan plan --snapshot demo""",
    add_completion=False,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)


def _print_version(value: bool) -> None:  # noqa: FBT001 - Typer's callback
    if value:
        from kplan.config.releases import known_minors

        minors = known_minors()
        typer.echo(f"kplan {__version__} (decides as Kubernetes {minors[0]} to {minors[-1]})")
        raise typer.Exit


@app.callback()
def main(
    *,
    version: Annotated[bool, option("--version", "Print the version.", callback=_print_version, is_eager=True)] = False,
    debug: Annotated[bool, option("--debug", "Show a traceback if something fails.")] = False,
) -> None:
    """Options of all commands."""
