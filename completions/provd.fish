# provd in fish: keep this as ~/.config/fish/completions/provd.fish, or source it
function __provd_complete
    set -lx COMP_LINE (commandline -cp)
    set -lx _PROVD_COMPLETE fish_complete
    for line in (provd 2>/dev/null)
        set -l told (string split \t -- $line)
        set -l word (string escape -- (string replace -r '.*:' '' -- $told[2]))
        set -l before (string replace -r '[^:]*$' '' -- $told[2])
        switch $told[1]
            case dir
                complete -C "'' $word" | string match -r '.*/(?:\t.*)?$'
            case file
                for path in (complete -C "'' $word")
                    echo $before$path
                end
            case '*'
                printf '%s\t%s\n' $told[2] $told[3]
        end
    end
end
complete --no-files --command provd --arguments '(__provd_complete)'
