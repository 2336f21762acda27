# fish completion for kplan
function __kplan_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -a words "$current"
    for line in (kubectl_complete-kplan $words[2..-1] 2>/dev/null </dev/null)
        switch $line
            case :0
                __fish_complete_path "$current"
            case ':*'
            case '*'
                echo $line
        end
    end
end
complete -c kplan -f -a '(__kplan_complete)'
