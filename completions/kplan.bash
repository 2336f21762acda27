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
        case " ask capacity check completion config diff drain explain groups mcp nodes place plan pods preempt rbac remedy save schema show snapshot types " in *" $word "*) path="$path $word" ;; esac
    done
    case "$path $previous" in
        "kplan pods --output"|"kplan pods -o") _kplan_words yaml json table name junit github sarif codequality; return ;;
        "kplan diff --fail-on") _kplan_list; _kplan_words regression warning none; return ;;
        "kplan snapshot show --output"|"kplan snapshot show -o") _kplan_words table json yaml; return ;;
        "kplan snapshot check --output"|"kplan snapshot check -o") _kplan_words table json yaml junit github sarif codequality; return ;;
        "kplan snapshot rbac --output"|"kplan snapshot rbac -o") _kplan_words yaml json; return ;;
        "kplan snapshot types --output"|"kplan snapshot types -o") _kplan_words yaml json; return ;;
        "kplan snapshot groups --output"|"kplan snapshot groups -o") _kplan_words yaml json; return ;;
        "kplan config show -o"|"kplan config show --output") _kplan_words table json yaml; return ;;
        "kplan config check -o"|"kplan config check --output") _kplan_words table json yaml junit github sarif codequality; return ;;
        *" --namespace"|*" -n") _kplan_names namespaces; return ;;
        *" --selector"|*" -l") return ;;
        *" --autoscaler") _kplan_words auto karpenter cluster-autoscaler none; return ;;
        *" --node-groups") _kplan_files; return ;;
        *" --instance-types") _kplan_files; return ;;
        *" --karpenter-version") return ;;
        *" --snapshot"|*" -s") _kplan_files; return ;;
        *" --kubeconfig") _kplan_files; return ;;
        *" --context") _kplan_names contexts; return ;;
        *" --cluster") return ;;
        *" --user") return ;;
        *" --as") return ;;
        *" --as-group") return ;;
        *" --request-timeout") return ;;
        *" --namespaces") _kplan_names namespaces; return ;;
        *" --with") _kplan_files; return ;;
        *" --without") _kplan_names workloads; return ;;
        *" --add-nodes") _kplan_names nodes; return ;;
        *" --cordon") _kplan_names nodes; return ;;
        *" --uncordon") _kplan_names nodes; return ;;
        *" --scale") _kplan_names workloads; return ;;
        *" --apply-recommendations") return ;;
        *" --recommendations") _kplan_files; return ;;
        *" --scheduler-config") _kplan_files; return ;;
        *" --kubernetes-version") return ;;
        *" --feature-gates") return ;;
        *" --sampling") _kplan_words all as-configured; return ;;
        *" --start-index") return ;;
        *" --ties") _kplan_words scheduler name even; return ;;
        *" --seed") return ;;
        *" --extenders") _kplan_words ignore call; return ;;
        *" --output"|*" -o") _kplan_words table wide short json yaml markdown name junit github sarif codequality openmetrics html; return ;;
        *" --report") _kplan_files; return ;;
        *" --top") return ;;
        *" --max-listed") return ;;
        *" --fail-on") _kplan_list; _kplan_words unschedulable stuck preemption pdb-violation gated pending unavailable new-nodes warning none; return ;;
        *" --requests") return ;;
        *" --toleration") return ;;
        *" --runs") return ;;
        *" --rollout") _kplan_words auto always never; return ;;
        *" --start") return ;;
        *" --stop") return ;;
        *" --run") return ;;
        *" --node-start") return ;;
        *" --until") return ;;
        *" --for") return ;;
        *" --min-ready") return ;;
        *" --filename"|*" -f") _kplan_files; return ;;
        *" --kustomize"|*" -k") _kplan_files; return ;;
        *" --validate") _kplan_words strict warn ignore; return ;;
        *" --replicas") return ;;
        *" --as-deployment") return ;;
        *" --workers") return ;;
        *" --dask") return ;;
        *" --max-rounds") return ;;
        *" --save") _kplan_files; return ;;
        *" --zone") _kplan_names zones; return ;;
        *" --pool") _kplan_names pools; return ;;
        *" --by") _kplan_words zone pool; return ;;
        *" --grace-period") return ;;
        *" --skip-wait-for-delete-timeout") return ;;
        *" --timeout") return ;;
        *" --surge") return ;;
        *" --max-unavailable") return ;;
        *" --profile") _kplan_words gke eks aks; return ;;
        *" --loops") return ;;
        *" --only") _kplan_list; _kplan_words wait uncordon moves budgets quotas pools nodes scale requests selectors tolerations rules names priority changes; return ;;
        *" --not") _kplan_list; _kplan_words wait uncordon moves budgets quotas pools nodes scale requests selectors tolerations rules names priority changes; return ;;
        *" --exclude-nodes") _kplan_list; _kplan_names nodes; return ;;
        *" --mix") return ;;
        *" --max") return ;;
        *" --shapes") _kplan_files; return ;;
        *" --since") _kplan_files; return ;;
        *" --against") return ;;
        *" --against-config") _kplan_files; return ;;
        *" --against-version") return ;;
        *" --against-manifests") return ;;
        *" --name") return ;;
        *" --ec2") _kplan_files; return ;;
    esac
    case "$path" in
        "kplan") words="explain place plan preempt pods drain nodes remedy capacity check diff ask show snapshot config mcp schema completion --version --debug -h --help" ;;
        "kplan explain") words="--namespace -n --all-namespaces -A --selector -l --autoscaler --node-groups --instance-types --karpenter-version --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan place") words="--requests --toleration --runs --rollout --run-cronjobs --timeline --start --stop --run --node-start --until --for --min-ready --all-namespaces -A --selector -l --filename -f --kustomize -k --namespace -n --validate --replicas --as-deployment --skip-others --workers --dask --autoscaler --node-groups --instance-types --karpenter-version --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan plan") words="--queue --rollout --only-given --recreate --no-recreate --max-rounds --runs --run-cronjobs --timeline --start --stop --run --node-start --until --for --min-ready --all-namespaces -A --selector -l --filename -f --kustomize -k --namespace -n --validate --replicas --as-deployment --skip-others --workers --dask --autoscaler --node-groups --instance-types --karpenter-version --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --save --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan preempt") words="--settle-preemption --follow --no-follow --run-cronjobs --all-namespaces -A --selector -l --filename -f --kustomize -k --namespace -n --validate --replicas --as-deployment --skip-others --autoscaler --node-groups --instance-types --karpenter-version --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan pods") words="--output -o --filename -f --kustomize -k --namespace -n --validate --replicas --as-deployment --skip-others --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan drain") words="--selector -l --zone --pool --lost --one-by-one --rolling --replace --each --by --force --delete-emptydir-data --disable-eviction --grace-period --skip-wait-for-delete-timeout --timeout --surge --max-unavailable --profile --ignore-daemonsets --runbook --runs --timeline --start --stop --run --node-start --until --for --min-ready --workers --dask --autoscaler --node-groups --instance-types --karpenter-version --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --save --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan nodes") words="--full --loops --timeline --start --stop --run --node-start --until --for --min-ready --autoscaler --node-groups --instance-types --karpenter-version --filename -f --kustomize -k --namespace -n --validate --replicas --as-deployment --skip-others --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --save --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan remedy") words="--namespace -n --only --not --autoscaler --node-groups --instance-types --karpenter-version --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --save --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan capacity") words="--exclude-nodes --mix --max --preempt --headroom --all-namespaces -A --shapes --shrink --force --delete-emptydir-data --workers --dask --filename -f --kustomize -k --namespace -n --validate --replicas --as-deployment --skip-others --autoscaler --node-groups --instance-types --karpenter-version --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --save --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan check") words="--since --workers --dask --autoscaler --node-groups --instance-types --karpenter-version --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan diff") words="--against --against-config --against-version --against-manifests --run-cronjobs --filename -f --kustomize -k --namespace -n --validate --replicas --as-deployment --skip-others --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --save --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan ask") words="--workers --dask --autoscaler --node-groups --instance-types --karpenter-version --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan show") words="--output -o --report --explain --top --max-listed --all-nodes --fail-on --exit-zero --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan snapshot") words="save show check rbac types groups -h --help" ;;
        "kplan snapshot save") words="--redact --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --quiet -q -h --help --help-all" ;;
        "kplan snapshot show") words="--output -o --namespace -n --durations --all-namespaces -A --selector -l --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --quiet -q -h --help --help-all" ;;
        "kplan snapshot check") words="--output -o --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --quiet -q -h --help --help-all" ;;
        "kplan snapshot rbac") words="--name --output -o -h --help --help-all" ;;
        "kplan snapshot types") words="--ec2 --output -o --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --quiet -q -h --help --help-all" ;;
        "kplan snapshot groups") words="--output -o --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --quiet -q -h --help --help-all" ;;
        "kplan config") words="show check -h --help" ;;
        "kplan config show") words="--scheduler-config --kubernetes-version --feature-gates -o --output -h --help --help-all" ;;
        "kplan config check") words="--scheduler-config --kubernetes-version --feature-gates -o --output -h --help --help-all" ;;
        "kplan mcp") words="--timeout --autoscaler --node-groups --instance-types --karpenter-version --snapshot -s --kubeconfig --context --cluster --user --as --as-group --request-timeout --insecure-skip-tls-verify --namespaces --with --without --add-nodes --cordon --uncordon --scale --apply-recommendations --recommendations --settle --scheduler-config --kubernetes-version --feature-gates --sampling --start-index --ties --seed --extenders --verbose -v --quiet -q --no-color -h --help --help-all" ;;
        "kplan schema") words="-h --help --help-all" ;;
        "kplan completion") words="-h --help --help-all" ;;
    esac
    if [[ "$current" == -* || "${words:0:1}" != - ]]; then
        _kplan_words $words
        return
    fi
    case "$path" in
        "kplan explain") _kplan_names pods workloads ;;
        "kplan place") _kplan_names pods workloads ;;
        "kplan preempt") _kplan_names pods ;;
        "kplan drain") _kplan_names nodes ;;
        "kplan remedy") _kplan_names pods workloads ;;
        "kplan capacity") _kplan_names workloads ;;
        "kplan diff") _kplan_names pods ;;
        "kplan schema") _kplan_words BudgetsReport CapacityReport ChecksReport ClustersReport DiffReport DrainsReport HeadroomReport NodesReport OddsReport PlacementReport PlanReport PodsReport PreemptionReport QueueReport RemedyReport RunbookReport SchedulerConfigCheck SchedulerConfigReport ShrinkReport SnapshotCheck SnapshotOverview AtMaximumQuestion BudgetsQuestion CapacityQuestion ChecksQuestion DiffQuestion DrainQuestion ExplainQuestion HeadroomQuestion InTurnQuestion ManyRunsQuestion NodesQuestion PlaceQuestion PlanQuestion PodsQuestion PoolRoomQuestion PreemptQuestion QueueQuestion RemedyQuestion RunbookQuestion ShapesQuestion ShrinkQuestion SurgeQuestion WhatIfQuestion; return ;;
        "kplan completion") _kplan_words bash zsh fish; return ;;
    esac
    _kplan_files
}
complete -o filenames -F _kplan kplan
