"""Completion scripts for bash, zsh and fish, generated from the commands; and the completion of ``kubectl kplan``.

They hold every command, option and choice, so that completing these starts no Python; only names of contexts,
namespaces, pods, workloads and nodes are asked for, of ``kplan names``. What is the same for all commands is in the
scripts beside this module. The files in ``completions/`` are what :func:`completion_files` returns; a test compares
them.

kubectl runs ``kubectl_complete-kplan`` with the words after the plugin's name, of which it completes the last, and
reads one completion per line, with a description after a tab, and last a directive for the shell.
Upstream: kubectl/pkg/cmd/plugin/plugin_completion.go pluginCompletion.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from itertools import pairwise
from pkgutil import get_data
from typing import Annotated, Any, get_args

import msgspec
import typer

from kplan.changes.sets import Kind
from kplan.cli.answer import write_out
from kplan.cli.options import argument
from kplan.commands.diff import CONDITIONS as DIFF_CONDITIONS
from kplan.commands.names import known_names
from kplan.course.answers.verdict import CONDITIONS
from kplan.documents.kinds import SCHEMA_KINDS
from kplan.questions.reading import QUESTION_KINDS

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
_LIST_METAVARS = ("LIST", ",...")  #: how the placeholders of options end whose values are separated by commas
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
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    options = [_option(param, context, path) for param in command.params if param not in arguments]
    options.append(OptionWords(("-h", "--help"), "Show this message and exit"))
    if not children:
        options.append(OptionWords(("--help-all",), "Show all options and exit"))
    return CommandWords(
        path,
        _first_sentence(command.help or ""),
        tuple(options),
        tuple(read_command(child, (*path, name)) for name, child in children.items() if not child.hidden),
        tuple(dict.fromkeys(name for argument in arguments for name in _option_names(argument))),
        tuple(word for one in arguments for word in _WORDS_OF_METAVARS.get(one.metavar) or _choices(one, context)),
    )


def _choices(parameter: Any, context: Any) -> tuple[str, ...]:
    return tuple(choice.value for choice in parameter.shell_complete(context, "") if choice.value)


def _option_names(parameter: Any) -> Iterator[str]:
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
        tuple(dict.fromkeys(_option_names(parameter))),
        takes_value and (parameter.metavar or "").endswith(_LIST_METAVARS),
    )


def _first_sentence(text: str) -> str:
    first = re.split(r"(?<=[^.])\.(?:\s|$)|\n\n|;", text, maxsplit=1)[0]
    return " ".join(first.split())


def completion_files(program: Any) -> dict[str, str]:
    """Return name -> content of the completion scripts of a program, the group of all its commands."""
    root = read_command(program, ())
    zsh = _filled("kplan.zsh", functions="\n".join(map(_zsh_function, _all(root))))
    return {"kplan.bash": _bash(root), "_kplan": zsh, "kplan.fish": _fish(root)}


def _filled(name: str, **parts: str) -> str:
    """Return a script of this folder with what the commands say in the places of ``@PART@``."""
    script = (get_data("kplan.program", name) or b"").decode()
    for part, text in parts.items():
        script = script.replace(f"@{part}@", text)
    return script


def _all(command: CommandWords) -> Iterator[CommandWords]:
    yield command
    for child in command.children:
        yield from _all(child)


def _bash(root: CommandWords) -> str:
    cases, arguments = list[str](), list[str]()  # of subcommands and options; of arguments, where they are not files
    for command in _all(root):
        case = f'        "{" ".join(("kplan", *command.path))}")'
        words = [child.path[-1] for child in command.children]
        words += [name for option in command.options for name in option.names]
        cases.append(f'{case} words="{" ".join(words)}" ;;')
        if command.names:
            arguments.append(f"{case} _kplan_names {' '.join(command.names)} ;;")
        elif command.words:
            arguments.append(f"{case} _kplan_words {' '.join(command.words)}; return ;;")
    commands = " ".join(sorted({child.path[-1] for command in _all(root) for child in command.children}))
    values, of_options, of_arguments = map("\n".join, (_bash_values(_all(root)), cases, arguments))
    return _filled("kplan.bash", words=commands, values=values, cases=of_options, arguments=of_arguments)


def _bash_values(commands: Iterable[CommandWords]) -> Iterator[str]:
    """Yield the completion of each option's values, first where a command has others than the commands before it."""
    common: dict[str, str] = {}
    lines, own = [], []
    for command in commands:
        for option in command.options:
            if not option.takes_value:
                continue
            path, reply = " ".join(("kplan", *command.path)), _bash_reply(option)
            if all(common.setdefault(name, reply) == reply for name in option.names):
                patterns = [f'*" {name}"' for name in sorted(option.names)]
                lines.append(f"{'|'.join(patterns)}) {reply}return ;;")
            else:
                patterns = [f'"{path} {name}"' for name in option.names]
                own.append(f"{'|'.join(patterns)}) {reply}return ;;")
    yield from (f"        {line}" for line in dict.fromkeys((*own, *lines)))


def _bash_reply(option: OptionWords) -> str:
    if option.takes_file:
        return "_kplan_files; "
    begin = "_kplan_list; " if option.takes_list else ""
    if option.choices:
        return f"{begin}_kplan_words {' '.join(option.choices)}; "
    return f"{begin}_kplan_names {' '.join(option.objects)}; " if option.objects else ""


def _zsh_function(command: CommandWords) -> str:
    name = "_".join(("_kplan", *command.path))
    options = "\n".join(f"        {line} \\" for option in command.options for line in _zsh_options(option))
    if not command.children:
        words = f"*:word:({' '.join(command.words)})" if command.words else "*:file:_files"
        if command.names:
            words = f"*:name: _kplan_names_or_files {' '.join(command.names)}"
        return f"{name}() {{\n    _arguments -s \\\n{options}\n        {_zsh_quote(words)}\n}}\n"
    words = "\n".join(f"        {_zsh_quote(f'{child.path[-1]}:{child.text}')}" for child in command.children)
    cases = "\n".join(
        f"            {child.path[-1]}) {'_'.join(('_kplan', *child.path))} ;;" for child in command.children
    )
    return f"""{name}() {{
    local -a commands
    local context state line
    commands=(
{words}
    )
    _arguments -C \\
{options}
        '1:command:->command' \\
        '*::argument:->argument'
    case $state in
        command) _describe -t commands 'kplan command' commands ;;
        argument)
            case $line[1] in
{cases}
            esac ;;
    esac
}}
"""


def _zsh_options(option: OptionWords) -> Iterator[str]:
    text = option.text.replace("[", "(").replace("]", ")").replace(":", "\\:")
    for name in option.names:
        action = ""
        # The blank keeps zsh from adding options of compadd, which would be asked for as kinds.
        begin = " _kplan_list" if option.takes_list else ""
        if option.choices and option.takes_list:
            action = f":value:{begin} compadd - {' '.join(option.choices)}"
        elif option.choices:
            action = f":value:({' '.join(option.choices)})"
        elif option.objects:
            action = f":name:{begin} _kplan_names {' '.join(option.objects)}"
        elif option.takes_value:
            action = ":path:_files" if option.takes_file else ":value: "
        yield _zsh_quote(f"*{name}[{text}]{action}")


def _zsh_quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def _fish(root: CommandWords) -> str:
    lines: list[str] = []
    for command in _all(root):
        conditions = [f"__fish_seen_subcommand_from {word}" for word in command.path]
        if below := " ".join(child.path[-1] for child in command.children):
            conditions.append(f"not __fish_seen_subcommand_from {below}")
        where = "; and ".join(conditions) or "true"
        for child in command.children:
            text = f"-a {child.path[-1]} -d {_fish_quote(child.text)}"
            lines.append(f"complete -c kplan -f -n {_fish_quote(where)} {text}")
        lines += [f"complete -c kplan -n {_fish_quote(where)} {_fish_option(option)}" for option in command.options]
        arguments = f"(__kplan_names {' '.join(command.names)})" if command.names else " ".join(command.words)
        if arguments:
            lines.append(f"complete -c kplan -n {_fish_quote(where)} -a {_fish_quote(arguments)}")
    return _filled("kplan.fish", lines="\n".join(lines))


def _fish_option(option: OptionWords) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    value = " -r" if option.takes_value else ""
    offered = " ".join(option.choices)
    if option.objects:
        offered = offered or f"(__kplan_names {' '.join(option.objects)})"
    if offered and option.takes_list:
        offered = f"(__kplan_list {offered})"
    if offered:
        value = f" -x -a {_fish_quote(offered)}"
    elif option.takes_value:
        value = " -r -F" if option.takes_file else " -x"
    return f"{' '.join(names)}{value} -d {_fish_quote(option.text)}"


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_DIRECTIVE_FILES, _NO_FILES = 0, 4
"""Cobra's directives: the shell completes files where there are no other completions, or not."""

_LONGEST_HELP = 120
_SNAPSHOT = ("--snapshot", "-s")
_NAMESPACE = ("--namespace", "-n")


def complete(program: Any, words: Sequence[str]) -> str:
    """Return the completions of the last of the words after the plugin's name, as kubectl reads them."""
    *before, current = words or ("",)
    completions, directive = _completions(program, before, current)
    lines = [f"{word}\t{text}" if text else word for word, text in completions if word.startswith(current)]
    return "".join(f"{line}\n" for line in (*lines, f":{directive}"))


def _completions(program: Any, before: Sequence[str], current: str) -> tuple[list[tuple[str, str]], int]:
    command, left = program, list(before)
    while left and left[0] in getattr(command, "commands", {}):
        command = command.commands[left.pop(0)]
    if (children := getattr(command, "commands", {})) and not current.startswith("-"):
        shown = [(name, child) for name, child in children.items() if not child.hidden]
        return [(name, child.get_short_help_str(_LONGEST_HELP)) for name, child in shown], _NO_FILES
    known = read_command(command, tuple(before[: len(before) - len(left)]))
    options = {name: option for option in known.options for name in option.names}
    option = options.get(left[-1]) if left else None
    if option is not None and option.takes_value:
        return _values(option, before, current), _DIRECTIVE_FILES if option.takes_file else _NO_FILES
    if current.startswith("-"):
        name, equals, value = current.partition("=")
        if equals and name in options:
            return [(f"{name}={word}", text) for word, text in _values(options[name], before, value)], _NO_FILES
        return [(name, option.text) for name, option in options.items()], _NO_FILES
    return [(word, "") for word in (*known.words, *_names(known.names, before))], _DIRECTIVE_FILES


def _values(option: OptionWords, before: Sequence[str], current: str) -> list[tuple[str, str]]:
    words = (*option.choices, *_names(option.objects, before))
    *first, _ = current.split(",") if option.takes_list else ("",)
    return [(",".join((*first, word)), "") for word in words if word not in first]


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

_FILES = {Shell.BASH: "kplan.bash", Shell.ZSH: "_kplan", Shell.FISH: "kplan.fish"}

EXAMPLES = """
kplan completion bash  # for one shell: source <(kplan completion bash)
kplan completion zsh  # save as _kplan in a directory of fpath
kplan completion fish  # save as ~/.config/fish/completions/kplan.fish
"""


def completion(context: typer.Context, shell: Annotated[Shell, argument("SHELL", "bash, zsh or fish.")]) -> None:
    """Print the completion script of a shell.

    It completes commands and options, and the names of pods, workloads, nodes and namespaces in the snapshot.
    """
    write_out(completion_files(context.find_root().command)[_FILES[shell]])
