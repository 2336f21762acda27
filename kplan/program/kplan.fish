# fish completion for kplan
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
        kplan names $kind $snapshot $namespace 2>/dev/null </dev/null |
            string replace -r '^'(string escape --style=regex -- $words[-1])'/(default/)?' '' # behind a kind
    end
end
function __kplan_list
    set -l before (commandline -ct | string replace -r '^-[^=]*=' '' | string match -r '^.*,')
    for word in $argv
        echo "$before"$word
    end
end
@lines@
