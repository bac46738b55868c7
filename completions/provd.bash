# provd in bash: source this, or keep it as ~/.local/share/bash-completion/completions/provd
_provd_completion() {
    local type value help
    COMPREPLY=()
    while IFS=$'\t' read -r type value help; do
        case $type in
            dir) compopt -o filenames 2>/dev/null
                 mapfile -t COMPREPLY < <(compgen -d -- "${COMP_WORDS[COMP_CWORD]#[:=]}") ;;
            file) compopt -o filenames 2>/dev/null
                 mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]#[:=]}") ;;
            open) compopt -o nospace 2>/dev/null; COMPREPLY+=("$value") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" \
             _PROVD_COMPLETE=bash_complete "$1" 2>/dev/null)
}
complete -F _provd_completion provd
