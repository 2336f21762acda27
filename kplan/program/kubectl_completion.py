"""``kubectl_complete-kplan``: the completion of ``kubectl kplan``.

kubectl runs it with the words after the plugin's name, of which it completes the last, and reads one completion per
line, with a description after a tab, and last a directive for the shell.
Upstream: kubectl/pkg/cmd/plugin/plugin_completion.go pluginCompletion.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from kplan.program.command_words import OptionWords, read_command
from kplan.program.names import known_names

_FILES, _NO_FILES = 0, 4
"""Cobra's directives: the shell completes files where there are no other completions, or not."""

_LONGEST_HELP = 120
_SNAPSHOT = ("--snapshot", "-s")
_NAMESPACE = ("--namespace", "-n")


def complete(program: Any, words: Sequence[str]) -> str:
    """Return the completions as kubectl reads them.

    Parameters
    ----------
    program : the group of all commands
    words : words after the plugin's name; the last one is completed, and may be empty
    """
    *before, current = words or ("",)
    completions, directive = _completions(program, before, current)
    lines = [f"{word}\t{text}" if text else word for word, text in completions if word.startswith(current)]
    return "".join(f"{line}\n" for line in (*lines, f":{directive}"))


def _completions(program: Any, before: Sequence[str], current: str) -> tuple[list[tuple[str, str]], int]:
    command, left = program, list(before)
    while left and left[0] in getattr(command, "commands", {}):
        command = command.commands[left.pop(0)]
    children = getattr(command, "commands", {})
    if children and not current.startswith("-"):
        shown = [(name, child) for name, child in children.items() if not child.hidden]
        return [(name, child.get_short_help_str(_LONGEST_HELP)) for name, child in shown], _NO_FILES
    known = read_command(command, tuple(before[: len(before) - len(left)]))
    options = {name: option for option in known.options for name in option.names}
    option = options.get(left[-1]) if left else None
    if option is not None and option.takes_value:
        return _values(option, before, current), _FILES if option.takes_file else _NO_FILES
    if current.startswith("-"):
        name, equals, value = current.partition("=")
        if equals and name in options:
            return [(f"{name}={word}", text) for word, text in _values(options[name], before, value)], _NO_FILES
        return [(name, option.text) for name, option in options.items()], _NO_FILES
    return [(word, "") for word in (*known.words, *_names(known.names, before))], _FILES


def _values(option: OptionWords, before: Sequence[str], current: str) -> list[tuple[str, str]]:
    """Return the values of an option; those before the last comma of a list stay, and are not offered again."""
    words = (*option.choices, *_names(option.objects, before))
    *first, _ = current.split(",") if option.takes_list else ("",)
    return [(",".join((*first, word)), "") for word in words if word not in first]


def _names(kinds: Sequence[str], before: Sequence[str]) -> Iterator[str]:
    """Yield names of contexts, or of objects in the snapshot of the command line or the environment."""
    snapshot = _value(_SNAPSHOT, before) or os.environ.get("KPLAN_SNAPSHOT", "")
    for kind in kinds:
        yield from known_names(kind, snapshot, _value(_NAMESPACE, before))


def _value(names: Sequence[str], before: Sequence[str]) -> str:
    """Return the value of an option on the command line; empty without it."""
    value = ""
    for option, following in pairwise(before):
        value = following if option in names else value
    for word in before:
        name, equals, behind = word.partition("=")
        value = behind if equals and name in names else value
    return value
