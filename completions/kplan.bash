# bash completion for kplan
_kplan_names() {
    local kind snapshot="" index
    for ((index = 1; index < COMP_CWORD; index++)); do
        case "${COMP_WORDS[index]}" in
            -s | --snapshot) snapshot="${COMP_WORDS[index + 1]}" ;;
        esac
    done
    for kind in "$@"; do
        kplan names "$kind" ${snapshot:+--snapshot "$snapshot"} 2>/dev/null </dev/null
    done
}
_kplan() {
    local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}" path="kplan" word words=""
    for word in "${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
        case " capacity check completion config diff drain explain place plan pods preempt rbac save schema show snapshot " in *" $word "*) path="$path $word" ;; esac
    done
    case "$previous" in
        --runs) COMPREPLY=(); return ;;
        --rollout) COMPREPLY=($(compgen -W "auto always never" -- "$current")); return ;;
        --filename|-f) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --kustomize|-k) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --namespace|-n) COMPREPLY=($(compgen -W "$(_kplan_names namespaces)" -- "$current")); return ;;
        --validate) COMPREPLY=($(compgen -W "strict warn ignore" -- "$current")); return ;;
        --replicas) COMPREPLY=(); return ;;
        --workers) COMPREPLY=(); return ;;
        --dask) COMPREPLY=(); return ;;
        --snapshot|-s) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --kubeconfig) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --context) COMPREPLY=($(compgen -W "$(_kplan_names contexts)" -- "$current")); return ;;
        --cluster) COMPREPLY=(); return ;;
        --user) COMPREPLY=(); return ;;
        --as) COMPREPLY=(); return ;;
        --as-group) COMPREPLY=(); return ;;
        --request-timeout) COMPREPLY=(); return ;;
        --namespaces) COMPREPLY=($(compgen -W "$(_kplan_names namespaces)" -- "$current")); return ;;
        --with) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --without) COMPREPLY=($(compgen -W "$(_kplan_names workloads)" -- "$current")); return ;;
        --add-nodes) COMPREPLY=($(compgen -W "$(_kplan_names nodes)" -- "$current")); return ;;
        --cordon) COMPREPLY=($(compgen -W "$(_kplan_names nodes)" -- "$current")); return ;;
        --uncordon) COMPREPLY=($(compgen -W "$(_kplan_names nodes)" -- "$current")); return ;;
        --scale) COMPREPLY=($(compgen -W "$(_kplan_names workloads)" -- "$current")); return ;;
        --scheduler-config) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --kubernetes-version) COMPREPLY=(); return ;;
        --feature-gates) COMPREPLY=(); return ;;
        --sampling) COMPREPLY=($(compgen -W "all as-configured" -- "$current")); return ;;
        --start-index) COMPREPLY=(); return ;;
        --ties) COMPREPLY=($(compgen -W "scheduler name even" -- "$current")); return ;;
        --seed) COMPREPLY=(); return ;;
        --extenders) COMPREPLY=($(compgen -W "ignore call" -- "$current")); return ;;
        --output|-o) COMPREPLY=($(compgen -W "table wide json yaml markdown name junit github sarif html" -- "$current")); return ;;
        --report) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --top) COMPREPLY=(); return ;;
        --max-listed) COMPREPLY=(); return ;;
        --fail-on) COMPREPLY=(); return ;;
        --selector|-l) COMPREPLY=(); return ;;
        --max-rounds) COMPREPLY=(); return ;;
        --save) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --max) COMPREPLY=(); return ;;
        --exclude-nodes) COMPREPLY=($(compgen -W "$(_kplan_names nodes)" -- "$current")); return ;;
        --mix) COMPREPLY=(); return ;;
        --lose) COMPREPLY=(); return ;;
        --shapes) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --zone) COMPREPLY=(); return ;;
        --by) COMPREPLY=(); return ;;
        --output|-o) COMPREPLY=($(compgen -W "yaml json table name junit github sarif" -- "$current")); return ;;
        --against) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --against-config) COMPREPLY=($(compgen -f -- "$current")); return ;;
        --against-version) COMPREPLY=(); return ;;
        --against-manifests) COMPREPLY=(); return ;;
        --output|-o) COMPREPLY=($(compgen -W "table json yaml" -- "$current")); return ;;
        --output|-o) COMPREPLY=($(compgen -W "table json yaml junit github sarif" -- "$current")); return ;;
        --name) COMPREPLY=(); return ;;
        --output|-o) COMPREPLY=($(compgen -W "yaml json" -- "$current")); return ;;
        -o|--output) COMPREPLY=($(compgen -W "table json yaml" -- "$current")); return ;;
        -o|--output) COMPREPLY=($(compgen -W "table json yaml junit github sarif" -- "$current")); return ;;
    esac
    case "$path" in
        "kplan") words="place preempt plan capacity drain pods explain diff show schema completion snapshot config --version --debug -h --help" ;;
        "kplan place") words="--runs --rollout --run-cronjobs --filename -f --kustomize -k --namespace -n --validate --replicas --workers --dask --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help" ;;
        "kplan preempt") words="--settle-preemption --follow --no-follow --run-cronjobs --all-namespaces -A --selector -l --filename -f --kustomize -k --namespace -n --validate --replicas --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help" ;;
        "kplan plan") words="--queue --only-given --recreate --no-recreate --max-rounds --rollout --save --runs --run-cronjobs --all-namespaces -A --selector -l --filename -f --kustomize -k --namespace -n --validate --replicas --workers --dask --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help" ;;
        "kplan capacity") words="--max --exclude-nodes --mix --preempt --headroom --lose --zones --shapes --shrink --force --delete-emptydir-data --save --workers --dask --filename -f --kustomize -k --namespace -n --validate --replicas --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help" ;;
        "kplan drain") words="--selector -l --zone --lost --one-by-one --rolling --replace --each --by --force --delete-emptydir-data --disable-eviction --save --runs --workers --dask --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help" ;;
        "kplan pods") words="--output -o --filename -f --kustomize -k --namespace -n --validate --replicas --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --settle --verbose -v --quiet -q --no-color -h --help" ;;
        "kplan explain") words="--namespace -n --all-namespaces -A --selector -l --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help" ;;
        "kplan diff") words="--against --against-config --against-version --against-manifests --save --run-cronjobs --filename -f --kustomize -k --namespace -n --validate --replicas --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help" ;;
        "kplan show") words="--output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help" ;;
        "kplan schema") words="-h --help" ;;
        "kplan completion") words="-h --help" ;;
        "kplan snapshot") words="save show check rbac -h --help" ;;
        "kplan snapshot save") words="--redact --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --settle --quiet -q -h --help" ;;
        "kplan snapshot show") words="--output -o --namespace -n --all-namespaces -A --selector -l --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --settle --quiet -q -h --help" ;;
        "kplan snapshot check") words="--output -o --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --settle --quiet -q -h --help" ;;
        "kplan snapshot rbac") words="--name --output -o -h --help" ;;
        "kplan config") words="show check -h --help" ;;
        "kplan config show") words="--scheduler-config --kubernetes-version --feature-gates -o --output -h --help" ;;
        "kplan config check") words="--scheduler-config --kubernetes-version --feature-gates -o --output -h --help" ;;
    esac
    if [[ "$current" == -* || "${words:0:1}" != - ]]; then
        COMPREPLY=($(compgen -W "$words" -- "$current"))
        return
    fi
    words=""
    case "$path" in
        "kplan place") words="$(_kplan_names pods)" ;;
        "kplan preempt") words="$(_kplan_names pods)" ;;
        "kplan drain") words="$(_kplan_names nodes)" ;;
        "kplan explain") words="$(_kplan_names pods workloads)" ;;
        "kplan diff") words="$(_kplan_names pods)" ;;
        "kplan completion") COMPREPLY=($(compgen -W "bash zsh fish" -- "$current")); return ;;
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
}
complete -o filenames -F _kplan kplan
