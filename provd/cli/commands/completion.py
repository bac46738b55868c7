"""completion: the scripts that make a shell ask us, and the answers.

Rule: the scripts are few lines and know nothing; they run `provd` with _PROVD_COMPLETE set and the line as it stands,
and take `type<TAB>value<TAB>help` back, one a line. For a path `help` is the kind before it (`file:`); an `--option=`
before the value is left out. Keys and dependencies have colons, which bash takes for the end of a word; so the line
goes whole, and bash gets back only what stands behind the last colon, quoted: bash puts it into the line as it comes,
where a key could be a command. zsh and fish quote by themselves.
"""

from __future__ import annotations

import os
import sys
from typing import Final

import click
from click.shell_completion import (
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
)

from provd import fastpath
from provd.cli import output
from provd.cli.command import Command, Usage
from provd.cli.given import typed

_BASH: Final = """\
# provd in bash: source this, or keep it as ~/.local/share/bash-completion/completions/provd
_provd_completion() {
    local type value help
    COMPREPLY=()
    while IFS=$'\\t' read -r type value help; do
        case $type in
            dir) compopt -o filenames 2>/dev/null
                 mapfile -t COMPREPLY < <(compgen -d -- "${COMP_WORDS[COMP_CWORD]#[:=]}") ;;
            file) compopt -o filenames 2>/dev/null
                 mapfile -t COMPREPLY < <(compgen -f -- "${COMP_WORDS[COMP_CWORD]#[:=]}") ;;
            open) compopt -o nospace 2>/dev/null; COMPREPLY+=("$value") ;;
            plain) COMPREPLY+=("$value") ;;
        esac
    done < <(COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" \\
             _PROVD_COMPLETE=bash_complete "$1" 2>/dev/null)
}
complete -F _provd_completion provd
"""

_ZSH: Final = """\
#compdef provd
# provd in zsh: keep this as _provd in a directory of $fpath, or source it after compinit
_provd() {
    local -a plain described
    local type value help line
    compset -P 1 '--*='
    while IFS= read -r line; do
        type=${line%%$'\\t'*} line=${line#*$'\\t'}
        value=${line%%$'\\t'*} help=${line#*$'\\t'}
        case $type in
            dir) [[ -n $help ]] && compset -P "$help"; _path_files -/ ;;
            file) [[ -n $help ]] && compset -P "$help"; _files ;;
            open) compadd -S '' -- "$value" ;;
            plain) if [[ -n $help ]]; then described+=("${value//:/\\\\:}:$help"); else plain+=("$value"); fi ;;
        esac
    done < <(COMP_LINE="${(j: :)${(@)words[1,CURRENT]}}" _PROVD_COMPLETE=zsh_complete $words[1] 2>/dev/null)
    (( $#described )) && _describe -V provd described
    (( $#plain )) && compadd -- $plain
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then _provd "$@"; else compdef _provd provd; fi
"""

_FISH: Final = """\
# provd in fish: keep this as ~/.config/fish/completions/provd.fish, or source it
function __provd_complete
    set -lx COMP_LINE (commandline -cp)
    set -lx _PROVD_COMPLETE fish_complete
    set -l option (string match -r -- '^--[^=]*=' (commandline -ct))
    for line in (provd 2>/dev/null)
        set -l told (string split \\t -- $line)
        set -l word (string escape -- $told[2])
        switch $told[1]
            case dir
                for path in (complete -C "'' $word" | string match -r '.*/(?:\\t.*)?$')
                    echo "$option$told[3]"$path
                end
            case file
                for path in (complete -C "'' $word")
                    echo "$option$told[3]"$path
                end
            case '*'
                printf '%s\\t%s\\n' "$option$told[2]" $told[3]
        end
    end
end
complete --no-files --command provd --arguments '(__provd_complete)'
"""


class _Complete(ShellComplete):
    """A shell that hands over the line up to the cursor, and quotes what it gets back."""

    def _line(self) -> typed.Typed:
        """The line."""
        return typed.take_apart(os.environ.get("COMP_LINE", ""), os.environ.get("COMP_BREAKS", ":="))

    def get_completion_args(self) -> tuple[list[str], str]:
        """The words before the one that is being typed, and that one."""
        line = self._line()
        return line.words[1:], line.word

    def format_completion(self, item: CompletionItem) -> str:
        """One line: type, value, help."""
        kind = "open" if item.type == "plain" and str(item.value).endswith(":") else item.type
        return f"{kind}\t{item.value}\t{(item.help or '').partition(chr(10))[0]}"


@add_completion_class
class _Bash(_Complete):
    name = "bash"
    source_template = _BASH

    def get_completions(self, args: list[str], incomplete: str) -> list[CompletionItem]:
        """As click finds them, where it is certain how bash reads what stands there."""
        return super().get_completions(args, incomplete) if self._line().certain else []

    def format_completion(self, item: CompletionItem) -> str:
        """As the others, quoted, without what bash leaves as it stands."""
        line, value = self._line(), str(item.value)
        if item.type == "plain":
            whole = line.option + value
            kept = line.start if whole.startswith(line.word[: line.start]) else len(line.option)
            item.value = typed.quoted(whole[kept:], line.quote)
        return super().format_completion(item)


@add_completion_class
class _Zsh(_Complete):
    name = "zsh"
    source_template = _ZSH


@add_completion_class
class _Fish(_Complete):
    name = "fish"
    source_template = _FISH


SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def answer(app: click.Command, instruction: str) -> int:
    """What a shell asked for: `instruction` is SHELL_complete; its exit code.

    Names go back as the bytes that they are, keys as UTF-8, whatever the locale has signs for.
    """
    shell, _, asked = instruction.partition("_")
    kind = get_completion_class(shell)
    if kind is None or asked != "complete":
        return shell_complete(app, {}, "provd", fastpath.COMPLETE, instruction)
    told = kind(app, {}, "provd", fastpath.COMPLETE).complete()
    sys.stdout.buffer.write(told.encode("utf-8", "surrogateescape") + b"\n")
    return 0


@click.command(
    cls=Command,
    examples=(
        'eval "$(provd completion bash)"                        # in ~/.bashrc',
        "provd completion zsh > ~/.zfunc/_provd                 # a directory of $fpath",
        "provd completion fish > ~/.config/fish/completions/provd.fish",
    ),
)
@click.argument("shell", metavar="bash|zsh|fish", type=click.Choice(list(SCRIPTS)), required=False)
def completion(shell: str | None) -> int:
    """The script that completes commands, options, paths and keys in a shell.

    For zsh, in ~/.zshrc before compinit: fpath=(~/.zfunc $fpath). Keys are those of the running
    daemon; where none answers there are none.
    """
    if shell is None:
        raise Usage(
            "nothing says for which shell", "provd completion bash\nprovd completion zsh\nprovd completion fish"
        )
    output.line(SCRIPTS[shell].rstrip("\n"))
    return 0
