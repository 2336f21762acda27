#compdef kplan
# zsh completion for kplan
_kplan_names() {
    local -a found
    local kind snapshot="" namespace="" index
    for ((index = 1; index < CURRENT; index++)); do
        case $words[index] in
            -s | --snapshot) snapshot=$words[index+1] ;;
            -n | --namespace) namespace=$words[index+1] ;;
        esac
    done
    for kind in "$@"; do
        found+=(${(f)"$(kplan names $kind ${snapshot:+--snapshot=$snapshot} \
            ${namespace:+--namespace=$namespace} 2>/dev/null </dev/null)"})
    done
    found=(${found#${words[CURRENT-1]}/default/}) # behind a kind, as in deploy web, its names alone
    found=(${found#${words[CURRENT-1]}/})
    compadd -a found
}
_kplan_list() {
    compset -P '*,'
    "$@"
}
_kplan_names_or_files() {
    _kplan_names "$@"
    _files
}
@functions@
# As kubectl's script: a file of $fpath is called, and one that is sourced registers itself.
if [[ "$funcstack[1]" = "_kplan" ]]; then
    _kplan "$@"
else
    compdef _kplan kplan
fi
