"""The words of a program that shells complete: its commands, their options, and the values of these."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import typer

from kplan.answers.verdict import CONDITIONS
from kplan.documents.remedies import Kind
from kplan.documents.schemas import SCHEMA_KINDS
from kplan.questions.diff.command import CONDITIONS as DIFF_CONDITIONS
from kplan.questions.schemas import QUESTION_KINDS

_FILE_METAVARS = ("PATH", "FILE", "FORMAT=PATH", "DIR")
_NAMES_OF_OPTIONS = {
    "--context": "contexts",
    "--namespace": "namespaces",
    "--namespaces": "namespaces",
    "--zone": "zones",
    "--pool": "pools",
    "--cordon": "nodes",
    "--uncordon": "nodes",
    "--exclude-nodes": "nodes",
}
_CHOICES_OF_OPTIONS = {"--by": ("zone", "pool"), "--fail-on": CONDITIONS}
"""Values that are offered besides others that are possible."""
_ACTIONS = (*get_args(Kind), "changes")
_CHOICES_OF_COMMANDS = {
    ("diff", "--fail-on"): DIFF_CONDITIONS,
    ("remedy", "--only"): _ACTIONS,
    ("remedy", "--not"): _ACTIONS,
}
_LIST_METAVARS = ("LIST", ",...")
"""How the placeholders of options end whose values are separated by commas."""
_WORDS_OF_METAVARS = {"KIND": (*SCHEMA_KINDS, *QUESTION_KINDS)}
_NAMES_IN_METAVARS = {"NODE": "nodes", "POD": "pods", "KIND/[NS/]NAME": "workloads"}


class OptionWords(msgspec.Struct, frozen=True):
    """An option and its values: choices, files or names of objects."""

    names: tuple[str, ...]
    text: str
    choices: tuple[str, ...] = ()
    takes_value: bool = False
    takes_file: bool = False
    objects: tuple[str, ...] = ()
    takes_list: bool = False  #: its values are separated by commas


class CommandWords(msgspec.Struct, frozen=True):
    """A command with its options; the root is ``kplan`` itself."""

    path: tuple[str, ...]
    text: str
    options: tuple[OptionWords, ...]
    children: tuple[CommandWords, ...]
    names: tuple[str, ...] = ()  #: kinds of objects that its arguments name: pods, nodes
    words: tuple[str, ...] = ()  #: choices of its arguments


def read_command(command: Any, path: tuple[str, ...]) -> CommandWords:
    """Return the options and subcommands of a command; `path` are its words after ``kplan``."""
    children = getattr(command, "commands", {})
    context = typer.Context(command)
    options = [_option(param, context, path) for param in command.params if _is_option(param)]
    arguments = [param for param in command.params if not _is_option(param)]
    options.append(OptionWords(("-h", "--help"), "Show this message and exit"))
    if not children:
        options.append(OptionWords(("--help-all",), "Show all options and exit"))
    return CommandWords(
        path,
        _first_sentence(command.help or ""),
        tuple(options),
        tuple(read_command(child, (*path, name)) for name, child in children.items() if not child.hidden),
        tuple(dict.fromkeys(name for argument in arguments for name in _names(argument))),
        tuple(word for argument in arguments for word in _words(argument, context)),
    )


def _is_option(parameter: Any) -> bool:
    return any(name.startswith("-") for name in parameter.opts)


def _words(argument: Any, context: Any) -> tuple[str, ...]:
    return _WORDS_OF_METAVARS.get(argument.metavar) or _choices(argument, context)


def _choices(parameter: Any, context: Any) -> tuple[str, ...]:
    return tuple(choice.value for choice in parameter.shell_complete(context, "") if choice.value)


def _names(parameter: Any) -> Iterator[str]:
    """Yield the kinds of objects that a value names, by its option or placeholder."""
    yield from (kind for name, kind in _NAMES_OF_OPTIONS.items() if name in parameter.opts)
    yield from (kind for word, kind in _NAMES_IN_METAVARS.items() if word in (parameter.metavar or ""))


def _option(parameter: Any, context: Any, path: tuple[str, ...]) -> OptionWords:
    offered = (_CHOICES_OF_COMMANDS.get((*path, name)) or _CHOICES_OF_OPTIONS.get(name) for name in parameter.opts)
    choices = next(filter(None, offered), _choices(parameter, context))
    takes_value = not parameter.is_flag
    return OptionWords(
        (*parameter.opts, *parameter.secondary_opts),
        _first_sentence(parameter.help or ""),
        choices,
        takes_value,
        takes_value and (parameter.metavar or "") in _FILE_METAVARS,
        tuple(dict.fromkeys(_names(parameter))),
        takes_value and (parameter.metavar or "").endswith(_LIST_METAVARS),
    )


def _first_sentence(text: str) -> str:
    first = re.split(r"(?<=[^.])\.(?:\s|$)|\n\n|;", text, maxsplit=1)[0]
    return " ".join(first.split())
