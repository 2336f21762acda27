"""Completion scripts for bash, zsh and fish, generated from the commands.

They hold every command, option and choice, so that completing these starts no Python; only names of contexts,
namespaces, pods, workloads and nodes are asked for, of ``kplan names``. The files in ``completions/`` are what
:func:`completion_files` returns; a test compares them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from kplan.program.command_words import CommandWords, OptionWords, read_command


def completion_files(program: Any) -> dict[str, str]:
    """Return name -> content of the completion scripts of a program, the group of all its commands."""
    root = read_command(program, ())
    return {"kplan.bash": _bash(root), "_kplan": _zsh(root), "kplan.fish": _fish(root)}


def _all(command: CommandWords) -> Iterator[CommandWords]:
    yield command
    for child in command.children:
        yield from _all(child)


def _bash(root: CommandWords) -> str:
    cases = "\n".join(_bash_case(command) for command in _all(root))
    values = "\n".join(_bash_values(_all(root)))
    arguments = "\n".join(_bash_arguments(command) for command in _all(root) if command.names or command.words)
    words = " ".join(sorted({child.path[-1] for command in _all(root) for child in command.children}))
    return f"""# bash completion for kplan
# Candidates are data: bash never reads what stands in them as words, patterns or commands, as compgen -W does.
_kplan_words() {{
    local word
    for word in "$@"; do
        [[ "$before$word" == "$current"* && ",$before" != *",$word,"* ]] && COMPREPLY+=("$before$word")
    done
    return 0
}}
# The values before the last comma stay.
_kplan_list() {{
    [[ "$current" == *,* ]] && before="${{current%,*}},"
    return 0
}}
_kplan_lines() {{
    local line
    while IFS= read -r line; do
        _kplan_words "$line"
    done
}}
_kplan_files() {{
    local line
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(compgen -f -- "$current")
}}
_kplan_names() {{
    local kind snapshot="" namespace="" index value
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "${{COMP_WORDS[index]}}" in
            -s | --snapshot)
                value=$((index + 1))
                [[ "${{COMP_WORDS[value]}}" == "=" ]] && ((value++))
                snapshot="${{COMP_WORDS[value]}}" ;;
            -n | --namespace)
                value=$((index + 1))
                [[ "${{COMP_WORDS[value]}}" == "=" ]] && ((value++))
                namespace="${{COMP_WORDS[value]}}" ;;
        esac
    done
    for kind in "$@"; do
        _kplan_lines < <(kplan names "$kind" ${{snapshot:+--snapshot="$snapshot"}} \\
            ${{namespace:+--namespace="$namespace"}} 2>/dev/null </dev/null)
    done
}}
_kplan() {{
    local current="${{COMP_WORDS[COMP_CWORD]}}" previous="${{COMP_WORDS[COMP_CWORD-1]}}"
    local IFS=$' \\t\\n' path="kplan" word words="" before=""
    COMPREPLY=()
    # The words after --option= are words of their own.
    if [[ "$current" == "=" ]]; then
        current=""
    elif [[ "$previous" == "=" ]]; then
        previous="${{COMP_WORDS[COMP_CWORD-2]}}"
    fi
    for word in "${{COMP_WORDS[@]:1:COMP_CWORD-1}}"; do
        case " {words} " in *" $word "*) path="$path $word" ;; esac
    done
    case "$path $previous" in
{values}
    esac
    case "$path" in
{cases}
    esac
    if [[ "$current" == -* || "${{words:0:1}}" != - ]]; then
        _kplan_words $words
        return
    fi
    case "$path" in
{arguments}
    esac
    _kplan_files
}}
complete -o filenames -F _kplan kplan
"""


def _bash_case(command: CommandWords) -> str:
    names = [child.path[-1] for child in command.children]
    names += [name for option in command.options for name in option.names]
    return f'        "{" ".join(("kplan", *command.path))}") words="{" ".join(names)}" ;;'


def _bash_arguments(command: CommandWords) -> str:
    """Return the completion of a command's arguments: names and files, or only its choices."""
    case = f'        "{" ".join(("kplan", *command.path))}")'
    if command.names:
        return f"{case} _kplan_names {' '.join(command.names)} ;;"
    return f"{case} _kplan_words {' '.join(command.words)}; return ;;"


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


def _zsh(root: CommandWords) -> str:
    functions = "\n".join(_zsh_function(command) for command in _all(root))
    return f"""#compdef kplan
# zsh completion for kplan
_kplan_names() {{
    local -a found
    local kind snapshot="" namespace="" index
    for ((index = 1; index < CURRENT; index++)); do
        case $words[index] in
            -s | --snapshot) snapshot=$words[index+1] ;;
            -n | --namespace) namespace=$words[index+1] ;;
        esac
    done
    for kind in "$@"; do
        found+=(${{(f)"$(kplan names $kind ${{snapshot:+--snapshot=$snapshot}} \\
            ${{namespace:+--namespace=$namespace}} 2>/dev/null </dev/null)"}})
    done
    compadd -a found
}}
_kplan_list() {{
    compset -P '*,'
    "$@"
}}
_kplan_names_or_files() {{
    _kplan_names "$@"
    _files
}}
{functions}
_kplan "$@"
"""


def _zsh_function(command: CommandWords) -> str:
    name = "_".join(("_kplan", *command.path))
    options = "\n".join(f"        {line} \\" for option in command.options for line in _zsh_options(option))
    if not command.children:
        return f"{name}() {{\n    _arguments -s \\\n{options}\n        {_zsh_arguments(command)}\n}}\n"
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


def _zsh_arguments(command: CommandWords) -> str:
    if command.names:
        return _zsh_quote(f"*:name: _kplan_names_or_files {' '.join(command.names)}")
    return _zsh_quote(f"*:word:({' '.join(command.words)})" if command.words else "*:file:_files")


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


_FISH_NAMES = """# fish completion for kplan
function __kplan_names
    set -l words (commandline -opc)
    set -l snapshot
    set -l namespace
    for index in (seq (count $words))
        if contains -- $words[$index] -s --snapshot; and test $index -lt (count $words)
            set snapshot --snapshot $words[(math $index + 1)]
        end
        if contains -- $words[$index] -n --namespace; and test $index -lt (count $words)
            set namespace --namespace $words[(math $index + 1)]
        end
    end
    for kind in $argv
        kplan names $kind $snapshot $namespace 2>/dev/null </dev/null
    end
end
function __kplan_list
    set -l before (commandline -ct | string replace -r '^-[^=]*=' '' | string match -r '^.*,')
    for word in $argv
        echo "$before"$word
    end
end"""


def _fish(root: CommandWords) -> str:
    lines = _FISH_NAMES.splitlines()
    for command in _all(root):
        where = _fish_condition(command)
        for child in command.children:
            text = f"-a {child.path[-1]} -d {_fish_quote(child.text)}"
            lines.append(f"complete -c kplan -f -n {_fish_quote(where)} {text}")
        lines += [f"complete -c kplan -n {_fish_quote(where)} {_fish_option(option)}" for option in command.options]
        arguments = f"(__kplan_names {' '.join(command.names)})" if command.names else " ".join(command.words)
        if arguments:
            lines.append(f"complete -c kplan -n {_fish_quote(where)} -a {_fish_quote(arguments)}")
    return "\n".join(lines) + "\n"


def _fish_condition(command: CommandWords) -> str:
    conditions = [f"__fish_seen_subcommand_from {word}" for word in command.path]
    below = " ".join(child.path[-1] for child in command.children)
    return "; and ".join([*conditions, *([f"not __fish_seen_subcommand_from {below}"] if below else [])]) or "true"


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
