"""Completion scripts for bash, zsh and fish, made from the commands themselves.

They hold every command, option and choice, so that completing starts no Python. The files in ``completions/`` are what
:func:`completion_files` returns; a test holds them against it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import typer

_FILE_METAVARS = ("PATH", "FILE", "FORMAT=PATH")


@dataclass(frozen=True, slots=True)
class _Option:
    names: tuple[str, ...]
    text: str
    choices: tuple[str, ...]
    takes_value: bool
    takes_file: bool


@dataclass(frozen=True, slots=True)
class _Command:
    """A command, by its words after ``kplan``; the first of all is ``kplan`` itself."""

    path: tuple[str, ...]
    text: str
    options: tuple[_Option, ...]
    children: tuple[_Command, ...]


def completion_files() -> dict[str, str]:
    """Return name -> content of the completion scripts."""
    from kplan.cli.main import app

    root = _read(typer.main.get_command(app), ())
    return {"kplan.bash": _bash(root), "_kplan": _zsh(root), "kplan.fish": _fish(root)}


def _read(command: Any, path: tuple[str, ...]) -> _Command:
    children = getattr(command, "commands", {})
    context = typer.Context(command)
    options = [_option(each, context) for each in command.params if any(name.startswith("-") for name in each.opts)]
    options.append(_Option(("-h", "--help"), "Show this message and exit", (), takes_value=False, takes_file=False))
    return _Command(
        path,
        _first_sentence(command.help or ""),
        tuple(options),
        tuple(_read(child, (*path, name)) for name, child in children.items()),
    )


def _option(parameter: Any, context: Any) -> _Option:
    choices = tuple(each.value for each in parameter.shell_complete(context, "") if each.value)
    takes_value = not parameter.is_flag
    return _Option(
        (*parameter.opts, *parameter.secondary_opts),
        _first_sentence(parameter.help or ""),
        choices,
        takes_value,
        takes_value and (parameter.metavar or "") in _FILE_METAVARS,
    )


def _first_sentence(text: str) -> str:
    first = re.split(r"(?<=[^.])\.(?:\s|$)|\n\n|;", text, maxsplit=1)[0]
    return " ".join(first.split())


def _all(command: _Command) -> Iterator[_Command]:
    yield command
    for child in command.children:
        yield from _all(child)


# --- bash -------------------------------------------------------------------------------------------------------------


def _bash(root: _Command) -> str:
    cases = "\n".join(_bash_case(each) for each in _all(root))
    values = "\n".join(_bash_values(_all(root)))
    words = " ".join(sorted({child.path[-1] for each in _all(root) for child in each.children}))
    return f"""# bash completion for kplan
_kplan() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}" path="kplan" word words=""
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case " {words} " in *" $word "*) path="$path $word" ;; esac
    done
    case "$previous" in
{values}
    esac
    case "$path" in
{cases}
    esac
    if [[ "$current" == -* || -z "${{words%%-*}}" ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
        return
    fi
    COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
}}
complete -o filenames -F _kplan kplan
"""


def _bash_case(command: _Command) -> str:
    names = [child.path[-1] for child in command.children]
    names += [name for option in command.options for name in option.names]
    return f'        "{" ".join(("kplan", *command.path))}") words="{" ".join(names)}" ;;'


def _bash_values(commands: Iterable[_Command]) -> Iterator[str]:
    """Yield what each option takes; options of one name take the same wherever they are."""
    told: dict[str, str] = {}
    for command in commands:
        for option in command.options:
            if not option.takes_value:
                continue
            reply = f'$(compgen -W "{" ".join(option.choices)}" -- "$current")' if option.choices else ""
            if option.takes_file:
                reply = '$(compgen -f -- "$current")'
            key = f"{'|'.join(option.names)}) COMPREPLY=({reply}); return ;;"
            told.setdefault(f"{command.path[:1] if option.choices else ''}{key}", key)
    yield from (f"        {line}" for line in dict.fromkeys(told.values()))


# --- zsh --------------------------------------------------------------------------------------------------------------


def _zsh(root: _Command) -> str:
    functions = "\n".join(_zsh_function(each) for each in _all(root))
    return f"""#compdef kplan
# zsh completion for kplan
{functions}
_kplan "$@"
"""


def _zsh_function(command: _Command) -> str:
    name = "_".join(("_kplan", *command.path))
    options = "\n".join(f"        {line} \\" for option in command.options for line in _zsh_options(option))
    if not command.children:
        return f"{name}() {{\n    _arguments -s \\\n{options}\n        '*:file:_files'\n}}\n"
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


def _zsh_options(option: _Option) -> Iterator[str]:
    text = option.text.replace("[", "(").replace("]", ")").replace(":", "\\:")
    for name in option.names:
        action = ""
        if option.choices:
            action = f":value:({' '.join(option.choices)})"
        elif option.takes_value:
            action = ":path:_files" if option.takes_file else ":value: "
        yield _zsh_quote(f"*{name}[{text}]{action}")


def _zsh_quote(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# --- fish -------------------------------------------------------------------------------------------------------------


def _fish(root: _Command) -> str:
    lines = ["# fish completion for kplan"]
    for command in _all(root):
        where = _fish_condition(command)
        for child in command.children:
            text = f"-a {child.path[-1]} -d {_fish_quote(child.text)}"
            lines.append(f"complete -c kplan -f -n {_fish_quote(where)} {text}")
        lines += [f"complete -c kplan -n {_fish_quote(where)} {_fish_option(option)}" for option in command.options]
    return "\n".join(lines) + "\n"


def _fish_condition(command: _Command) -> str:
    seen = [f"__fish_seen_subcommand_from {word}" for word in command.path]
    below = " ".join(child.path[-1] for child in command.children)
    return "; and ".join([*seen, *([f"not __fish_seen_subcommand_from {below}"] if below else [])]) or "true"


def _fish_option(option: _Option) -> str:
    names = [f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names]
    value = " -r" if option.takes_value else ""
    if option.choices:
        value = f" -x -a {_fish_quote(' '.join(option.choices))}"
    elif option.takes_value:
        value = " -r -F" if option.takes_file else " -x"
    return f"{' '.join(names)}{value} -d {_fish_quote(option.text)}"


def _fish_quote(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
