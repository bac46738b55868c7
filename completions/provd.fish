# provd in fish: keep this as ~/.config/fish/completions/provd.fish, or source it
function __provd_complete
    set -lx COMP_LINE (commandline -cp)
    set -lx _PROVD_COMPLETE fish_complete
    set -l option (string match -r -- '^--[^=]*=' (commandline -ct))
    for line in (provd 2>/dev/null)
        set -l told (string split \t -- $line)
        set -l word (string escape -- $told[2])
        switch $told[1]
            case dir
                for path in (complete -C "'' $word" | string match -r '.*/(?:\t.*)?$')
                    echo "$option$told[3]"$path
                end
            case file
                for path in (complete -C "'' $word")
                    echo "$option$told[3]"$path
                end
            case '*'
                printf '%s\t%s\n' "$option$told[2]" $told[3]
        end
    end
end
complete --no-files --command provd --arguments '(__provd_complete)'
