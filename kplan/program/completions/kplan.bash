# bash completion for kplan
# Candidates are data: bash never reads what stands in them as words, patterns or commands, as compgen -W does.
_kplan() {
    local -a words=()
    local index word last="" begin="" line
    COMPREPLY=()
    # Bash takes --option=value and a:b apart, with the sign between as a word of its own.
    for ((index = 1; index <= COMP_CWORD; index++)); do
        word="${COMP_WORDS[index]}"
        if ((${#words[@]})) && [[ "$word" == [=:] || "$last" == [=:] ]]; then
            words[${#words[@]} - 1]+="$word"
        else
            words+=("$word")
        fi
        last="$word"
    done
    [[ "$last" == [=:] ]] && last=""
    begin="${words[${#words[@]} - 1]%"$last"}"
    while IFS= read -r line; do
        case "$line" in
            :0) while IFS= read -r line; do COMPREPLY+=("$line"); done < <(compgen -f -- "$last") ;;
            :*) ;;
            *) line="${line%%$'\t'*}" && COMPREPLY+=("${line#"$begin"}") ;;
        esac
    done < <(kubectl_complete-kplan "${words[@]}" 2>/dev/null </dev/null)
}
complete -o filenames -F _kplan kplan
