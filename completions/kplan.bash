# bash completion for kplan
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
