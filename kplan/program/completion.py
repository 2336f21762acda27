"""Completion in bash, zsh and fish, and of ``kubectl kplan``: each asks the program what may follow the words so far.

The shells' scripts run ``kplan __complete``, and kubectl runs ``kubectl_complete-kplan``, with the words behind the
program's name, of which the last is completed. Printed are one completion per line, with a description after a tab, and
last a directive for the shell. Only the command at hand is loaded. The files in ``completions/`` are `SCRIPTS`; a test
compares them.
Upstream: kubectl/pkg/cmd/plugin/plugin_completion.go pluginCompletion.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise
from typing import Annotated, Any, get_args

from kplan.cli.answer import write_out
from kplan.cli.options import argument
from kplan.program.names import known_names

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
_LIST_METAVARS = ("LIST", ",...")  #: how the placeholders of options end whose values are separated by commas
_NAMES_IN_METAVARS = {"NODE": "nodes", "POD": "pods", "KIND/[NS/]NAME": "workloads"}

_DIRECTIVE_FILES, _NO_FILES = 0, 4
"""Cobra's directives: the shell completes files besides, or not."""

_LONGEST_HELP = 120
_SNAPSHOT = ("--snapshot", "-s")
_NAMESPACE = ("--namespace", "-n")

Words = list[tuple[str, str]]  #: completions, each with its description


def complete(program: Any, words: Sequence[str]) -> str:
    """Return the completions of the last of the words after the program's name, as shells and kubectl read them."""
    *before, current = words or ("",)
    completions, directive = _completions(program, before, current)
    lines = [f"{word}\t{text}" if text else word for word, text in completions if word.startswith(current)]
    return "".join(f"{line}\n" for line in (*lines, f":{directive}"))


def _completions(program: Any, before: Sequence[str], current: str) -> tuple[Words, int]:
    command, left = program, list(before)
    while left and left[0] in getattr(command, "commands", {}):
        command = command.commands[left.pop(0)]
    path = tuple(before[: len(before) - len(left)])
    if (children := getattr(command, "commands", {})) and not current.startswith("-"):
        helps = getattr(command, "short_helps", None)  # of commands that are not loaded
        helps = helps or {name: child.get_short_help_str(_LONGEST_HELP) for name, child in children.items()}
        return list(helps.items()), _NO_FILES
    arguments = [one for one in command.params if one.param_type_name == "argument"]
    options = {name: one for one in command.params if one not in arguments for name in (*one.opts, *one.secondary_opts)}
    option = options.get(left[-1]) if left else None
    if option is not None and not option.is_flag:
        takes_file = (option.metavar or "") in _FILE_METAVARS
        return _values(option, path, before, current), _DIRECTIVE_FILES if takes_file else _NO_FILES
    if current.startswith("-"):
        name, equals, value = current.partition("=")
        if equals and name in options:
            return [(f"{name}={word}", text) for word, text in _values(options[name], path, before, value)], _NO_FILES
        texts = {name: _first_sentence(one.help or "") for name, one in options.items()}
        texts |= dict.fromkeys(("-h", "--help"), "Show this message and exit")
        return [*texts.items(), *([] if children else [("--help-all", "Show all options and exit")])], _NO_FILES
    words = [word for one in arguments for word in _choices(one)]
    words += _arguments(tuple(dict.fromkeys(kind for one in arguments for kind in _kinds_of(one))), before, left)
    return [(word, "") for word in words], _NO_FILES if any(map(_choices, arguments)) else _DIRECTIVE_FILES


def _first_sentence(text: str) -> str:
    return " ".join(re.split(r"(?<=[^.])\.(?:\s|$)|\n\n|;", text, maxsplit=1)[0].split())


def _values(option: Any, path: Sequence[str], before: Sequence[str], current: str) -> Words:
    chosen = next(filter(None, (_offered(path, name) for name in option.opts)), None) or _choices(option)
    words = (*chosen, *_names(tuple(dict.fromkeys(_kinds_of(option))), before))
    *first, _ = current.split(",") if (option.metavar or "").endswith(_LIST_METAVARS) else ("",)
    return [(",".join((*first, word)), "") for word in words if word not in first]


def _offered(path: Sequence[str], option: str) -> Iterable[str]:
    """Return values that are offered besides others that are possible."""
    if option == "--fail-on" and tuple(path) == ("diff",):
        from kplan.commands.diff import CONDITIONS as OF_DIFF

        return OF_DIFF
    if option == "--fail-on":
        from kplan.course.answers.verdict import CONDITIONS

        return CONDITIONS
    if option in ("--only", "--not") and tuple(path) == ("remedy",):
        from kplan.changes.sets import Kind

        return (*get_args(Kind), "changes")
    return ("zone", "pool") if option == "--by" else ()


def _choices(parameter: Any) -> list[str]:
    if parameter.metavar == "KIND":
        from kplan.documents.kinds import SCHEMA_KINDS
        from kplan.questions.reading import QUESTION_KINDS

        return [*SCHEMA_KINDS, *QUESTION_KINDS]
    return [choice.value for choice in parameter.shell_complete(None, "") if choice.value]


def _kinds_of(parameter: Any) -> Iterator[str]:
    yield from (kind for name, kind in _NAMES_OF_OPTIONS.items() if name in parameter.opts)
    yield from (kind for word, kind in _NAMES_IN_METAVARS.items() if word in (parameter.metavar or ""))


def _arguments(kinds: Sequence[str], before: Sequence[str], left: Sequence[str]) -> list[str]:
    """Return names for an argument: behind a kind, as in ``deploy web``, those of its workloads alone."""
    names = list(_names(kinds, before))
    kind = f"{left[-1]}/" if left and "workloads" in kinds else "/"
    of_kind = [name.removeprefix(kind).removeprefix("default/") for name in names if name.startswith(kind)]
    return of_kind or names


def _names(kinds: Sequence[str], before: Sequence[str]) -> Iterator[str]:
    """Yield names of contexts, or of objects in the snapshot of the command line or the environment."""
    snapshot = _value(_SNAPSHOT, before) or os.environ.get("KPLAN_SNAPSHOT", "")
    for kind in kinds:
        yield from known_names(kind, snapshot, _value(_NAMESPACE, before))


def _value(names: Sequence[str], before: Sequence[str]) -> str:
    value = ""
    for option, following in pairwise(before):
        value = following if option in names else value
    for word in before:
        name, equals, behind = word.partition("=")
        value = behind if equals and name in names else value
    return value


Shell = StrEnum("Shell", {"BASH": "bash", "ZSH": "zsh", "FISH": "fish"})  #: shells with a completion script

# What the program prints is data: no shell reads what stands in it as words, patterns or commands.

_BASH = r"""# bash completion for kplan
_kplan() {
    local word line directive="" current="${COMP_WORDS[COMP_CWORD]}"
    local -a words=()
    # The words after --option= are words of their own.
    [[ "$current" == "=" ]] && current=""
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        [[ "$word" == "=" ]] || words+=("$word")
    done
    COMPREPLY=()
    while IFS= read -r line; do
        word="${line%%$'\t'*}"
        [[ "$line" == :[0-9] ]] && directive="$line"
        [[ -z "$directive" && "$word" == "$current"* ]] && COMPREPLY+=("$word")
    done < <(kplan __complete "${words[@]}" "$current" 2>/dev/null </dev/null)
    [[ "$directive" == ":0" ]] || return 0
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(compgen -f -- "$current")
}
complete -o filenames -F _kplan kplan
"""

_ZSH = r"""#compdef kplan
# zsh completion for kplan
_kplan() {
    local line directive is_none=1
    local -a values shown
    while IFS= read -r line; do
        if [[ "$line" == :[0-9] ]]; then
            directive=$line
        else
            values+=("${line%%$'\t'*}")
            shown+=("${line/$'\t'/  -- }")
        fi
    done < <(kplan __complete "${(@)words[2,CURRENT-1]}" "$PREFIX" 2>/dev/null </dev/null)
    compadd -d shown -a values && is_none=0
    [[ "$directive" == ":0" ]] && _files && is_none=0
    return $is_none
}
# As kubectl's script: a file of $fpath is called, and one that is sourced registers itself.
if [[ "$funcstack[1]" = "_kplan" ]]; then
    _kplan "$@"
else
    compdef _kplan kplan
fi
"""

_FISH = r"""# fish completion for kplan
function __kplan_complete
    set -l words (commandline -opc)
    set -e words[1]
    set -l current (string trim -l -c '\'"' -- (commandline -ct))
    for line in (kplan __complete $words "$current" 2>/dev/null </dev/null)
        switch $line
            case ':0'
                __fish_complete_path "$current"
            case ':*'
            case '*'
                printf '%s\n' $line
        end
    end
end
complete -c kplan -f -a '(__kplan_complete)'
"""

SCRIPTS: Mapping[str, tuple[str, str]] = {
    Shell.BASH: ("kplan.bash", _BASH),
    Shell.ZSH: ("_kplan", _ZSH),
    Shell.FISH: ("kplan.fish", _FISH),
}
"""Shell -> the name of the file, and the script."""

EXAMPLES = """
kplan completion bash  # for one shell: source <(kplan completion bash)
kplan completion zsh  # save as _kplan in a directory of fpath
kplan completion fish  # save as ~/.config/fish/completions/kplan.fish
"""


def completion(shell: Annotated[Shell, argument("SHELL", "bash, zsh or fish.")]) -> None:
    """Print the completion script of a shell.

    It completes commands and options, and the names of pods, workloads, nodes and namespaces in the snapshot.
    """
    write_out(SCRIPTS[shell][1])
