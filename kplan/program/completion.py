"""What shells offer for a command line: commands, options, choices, files, and names of contexts and of objects.

``kubectl_complete-kplan`` gets the words after the program's name, of which it completes the last, and prints one
completion per line, with a description after a tab, and last a directive for the shell. kubectl runs it for its plugin,
and the scripts in ``completions/`` run it for kplan itself.
Upstream: kubectl/pkg/cmd/plugin/plugin_completion.go pluginCompletion.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

from kplan.catalogue import loaded
from kplan.cli.answer import write_out
from kplan.cli.options import SNAPSHOT, argument
from kplan.program.names import known_names

_DIRECTIVE_FILES, _NO_FILES = 0, 4
"""Cobra's directives: files are completions, too, or not."""

_FILE_METAVARS = ("PATH", "FILE", "FORMAT=PATH", "DIR")
_LIST_METAVARS = ("LIST", ",...")  #: how the placeholders of options end whose values are separated by commas
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
_NAMES_IN_METAVARS = {"NODE": "nodes", "POD": "pods", "KIND/[NS/]NAME": "workloads"}
_CHOICES: Mapping[tuple[str, str], tuple[str, ...]] = {
    ("", "--fail-on"): ("kplan.documents.base:CONDITIONS",),
    ("check", "--fail-on"): ("kplan.commands.check:CONDITIONS",),
    ("diff", "--fail-on"): ("kplan.commands.diff:CONDITIONS",),
    ("drain", "--by"): ("zone", "pool"),
    ("remedy", "--only"): ("kplan.changes.sets:KINDS", "changes"),
    ("remedy", "--not"): ("kplan.changes.sets:KINDS", "changes"),
    ("schema", "kind"): ("kplan.documents.kinds:SCHEMA_KINDS", "kplan.questions.reading:QUESTION_KINDS"),
}
"""Command (empty for any) and parameter -> words, or MODULE:NAME of words, which is loaded when they are asked for."""

_HELPS = {"-h": "Show this message and exit", "--help": "Show this message and exit"}
_LONGEST_HELP = 120
_SNAPSHOT = ("--snapshot", "-s")
_NAMESPACE = ("--namespace", "-n")

_Offered = tuple[list[tuple[str, str]], int]
"""Completions with their descriptions, and the directive."""


def complete(program: Any, words: Sequence[str]) -> str:
    """Return the completions of the last of the words after the program's name, as shells read them."""
    *before, current = words or ("",)
    completions, directive = _completions(program, before, current)
    lines = [f"{word}\t{text}" if text else word for word, text in completions if word.startswith(current)]
    return "".join(f"{line}\n" for line in (*lines, f":{directive}"))


def _completions(program: Any, before: Sequence[str], current: str) -> _Offered:
    command, path, left = program, list[str](), list(before)
    while left and left[0] in getattr(command, "commands", {}):
        path.append(left.pop(0))
        command = command.commands[path[-1]]
    children = getattr(command, "commands", {})
    if children and not current.startswith("-"):
        return [(name, one.get_short_help_str(_LONGEST_HELP)) for name, one in children.items()], _NO_FILES
    line = _Line(command, path, before)
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    others = (one for one in command.params if one not in arguments)
    options = {name: one for one in others for name in (*one.opts, *one.secondary_opts)}
    option, (name, equals, value) = options.get(left[-1]) if left else None, current.partition("=")
    if option is not None and not option.is_flag:
        return line.values_of(option, current)
    if equals and name in options:
        values, directive = line.values_of(options[name], value)
        return [(f"{name}={word}", text) for word, text in values], directive
    if current.startswith("-"):
        described = {name: _first_sentence(option.help or "") for name, option in options.items()} | _HELPS
        described |= {} if children else {"--help-all": "Show all options and exit"}
        return [*described.items()], _NO_FILES
    if words := [word for one in arguments for word in line.choices_of(one)]:
        return [(word, "") for word in words], _NO_FILES
    names = [name for one in arguments for name in line.names_of(one)]
    return [(name, "") for name in _behind_a_kind(names, "".join(left[-1:]))], _DIRECTIVE_FILES


class _Line(NamedTuple):
    """A command line before the word that is completed."""

    command: Any
    path: Sequence[str]  #: the words of the command after the program's name
    words: Sequence[str]  #: all words after the program's name

    def values_of(self, option: Any, current: str) -> _Offered:
        """Return the values of an option; of a list those that it does not have yet, behind those that it has."""
        metavar = option.metavar or ""
        *first, _ = current.split(",") if metavar.endswith(_LIST_METAVARS) else ("",)
        words = [word for word in (*self.choices_of(option), *self.names_of(option)) if word not in first]
        directive = _DIRECTIVE_FILES if metavar in _FILE_METAVARS else _NO_FILES
        return [(",".join((*first, word)), "") for word in words], directive

    def choices_of(self, parameter: Any) -> Sequence[str]:
        """Return the words that a parameter takes, or that are offered besides others."""
        name = max(parameter.opts, key=len)
        if offered := _CHOICES.get((" ".join(self.path), name)) or _CHOICES.get(("", name)):
            return [word for entry in offered for word in (loaded(entry) if ":" in entry else (entry,))]
        choices = parameter.shell_complete(typer.Context(self.command), "")
        return [choice.value for choice in choices if choice.value]

    def names_of(self, parameter: Any) -> Iterator[str]:
        """Yield names of contexts, or of objects in the snapshot of the command line or the environment."""
        kinds = [kind for name, kind in _NAMES_OF_OPTIONS.items() if name in parameter.opts]
        kinds += [kind for word, kind in _NAMES_IN_METAVARS.items() if word in (parameter.metavar or "")]
        snapshot = self._value_of(*_SNAPSHOT) or os.environ.get(SNAPSHOT, "")
        for kind in dict.fromkeys(kinds):
            yield from known_names(kind, snapshot, self._value_of(*_NAMESPACE))

    def _value_of(self, *names: str) -> str:
        value = ""
        for option, following in pairwise(self.words):
            value = following if option in names else value
        for word in self.words:
            name, equals, behind = word.partition("=")
            value = behind if equals and name in names else value
        return value


def _behind_a_kind(words: Sequence[str], kind: str) -> Sequence[str]:
    """Return the names alone of what is of a kind that stands before them, as in ``deploy web``; else all words."""
    prefix = f"{kind}/"
    own = [word.removeprefix(prefix).removeprefix("default/") for word in words if word.startswith(prefix)]
    return own or words


def _first_sentence(text: str) -> str:
    first = re.split(r"(?<=[^.])\.(?:\s|$)|\n\n|;", text, maxsplit=1)[0]
    return " ".join(first.split())


Shell = StrEnum("Shell", {"BASH": "bash", "ZSH": "zsh", "FISH": "fish"})  #: shells with a completion script

_FILES = {Shell.BASH: "kplan.bash", Shell.ZSH: "_kplan", Shell.FISH: "kplan.fish"}

EXAMPLES = """
kplan completion bash  # for one shell: source <(kplan completion bash)
kplan completion zsh  # save as _kplan in a directory of fpath
kplan completion fish  # save as ~/.config/fish/completions/kplan.fish
"""


def completion(shell: Annotated[Shell, argument("SHELL", "bash, zsh or fish.")]) -> None:
    """Print the completion script of a shell.

    It completes commands and options, and the names of pods, workloads, nodes and namespaces in the snapshot.
    """
    write_out((Path(__file__).with_name("completions") / _FILES[shell]).read_text())
