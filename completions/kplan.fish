# fish completion for kplan
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
