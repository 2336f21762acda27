# bash completion for kplan
# Candidates are data: bash never reads what stands in them as words, patterns or commands, as compgen -W does.
_kplan_words() {
    local word
    for word in "$@"; do
        [[ "$before$word" == "$current"* && ",$before" != *",$word,"* ]] && COMPREPLY+=("$before$word")
    done
    return 0
}
# The values before the last comma stay.
_kplan_list() {
    [[ "$current" == *,* ]] && before="${current%,*},"
    return 0
}
_kplan_lines() {
    local line
    while IFS= read -r line; do
        _kplan_words "$line"
    done
}
_kplan_files() {
    local line
    while IFS= read -r line; do
        COMPREPLY+=("$line")
    done < <(compgen -f -- "$current")
}
_kplan_names() {
    local kind snapshot="" namespace="" index value
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "${COMP_WORDS[index]}" in
            -s | --snapshot)
                value=$((index + 1))
                [[ "${COMP_WORDS[value]}" == "=" ]] && ((value++))
                snapshot="${COMP_WORDS[value]}" ;;
            -n | --namespace)
                value=$((index + 1))
                [[ "${COMP_WORDS[value]}" == "=" ]] && ((value++))
                namespace="${COMP_WORDS[value]}" ;;
        esac
    done
    local -a more=(${snapshot:+--snapshot="$snapshot"} ${namespace:+--namespace="$namespace"})
    value="${COMP_WORDS[COMP_CWORD-1]}" # behind a kind, as in deploy web, its names alone
    if [[ "$COMP_CWORD" -gt 2 && "$*" == *workloads* && "$value" =~ ^[a-z]+$ ]]; then
        _kplan_lines < <(kplan names workloads "${more[@]}" 2>/dev/null </dev/null |
            sed -n -e "s|^$value/default/||p" -e t -e "s|^$value/||p")
        [[ "${#COMPREPLY[@]}" -eq 0 ]] || return
    fi
    for kind in "$@"; do
        _kplan_lines < <(kplan names "$kind" "${more[@]}" 2>/dev/null </dev/null)
    done
}
_kplan() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"
    local IFS=$' \t\n' path="kplan" word words="" before=""
    COMPREPLY=()
    # The words after --option= are words of their own.
    if [[ "$current" == "=" ]]; then
        current=""
    elif [[ "$previous" == "=" ]]; then
        previous="${COMP_WORDS[COMP_CWORD-2]}"
    fi
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case " @words@ " in *" $word "*) path="$path $word" ;; esac
    done
    case "$path $previous" in
@values@
    esac
    case "$path" in
@cases@
    esac
    if [[ "$current" == -* || "${words:0:1}" != - ]]; then
        _kplan_words $words
        return
    fi
    case "$path" in
@arguments@
    esac
    _kplan_files
}
complete -o filenames -F _kplan kplan
