"""help: on a command, or on what all commands share.

Rule: a topic fits a screen and says what the contract says, in the words of the command line.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click
from click.shell_completion import CompletionItem

from provd.cli import helptext, output, steps
from provd.cli.command import Command, Usage, nearest

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXIT_CODES: Final = """\
Exit codes: one for each outcome, so that a script can trust it.

    0  fresh, or done
    1  dirty; audit or doctor found something
    2  usage: the command line is wrong
    3  no daemon could be reached
    4  unknown: nothing shows that it is fresh, or there is no such entry.
       Treat it as dirty; audit could not look at everything
    5  refused, provd's own fault, or an answer that could not be written
  130  interrupted (128 + N: ended by signal N)

  if provd check -q api; then echo use it; else echo read it again; fi

is safe whatever goes wrong: only a daemon that answered fresh gives 0. Of
several keys it is dirty if any is, else unknown if any is not fresh.

  check, get, why, revalidate, confirm   exit by the verdict
  get                                    4 where there is nothing to hand out
  exec                                   exits as its command does; before it is
                                         run 2, 3, 5; 126 and 127 as a shell

An error says on stderr what, why, and what to type next; with --json it is
on stdout too: {"error": {"code", "message", "hint"}}.
"""

_CLOCKS: Final = """\
Clocks: a token for a moment, taken before something is read.

  c=$(provd clock)                   # first the clock,
  cat src/api.py                     # then the reading,
  provd put api --value-file api.md --dep src/api.py --fetched-at $c

A put says when its sources were read, since somebody may have written to them
between the reading and the put. There are three ways, the surest first:

  --sums FILE       the digests of what was read (sha256sum, before you read).
                    Works anywhere; compared when you put: if a file differs,
                    the entry is dirty at birth. For files only.
  --fetched-at C    nothing is known to have changed since C: of objects and
                    entries by what was declared and put; of files on a watched
                    root of ext4, xfs or btrfs that have been at rest. What
                    cannot be shown is unproven: never fresh until put again.
  --as-of-now       you say that the value is true of what is there now.

A clock holds for one run of the daemon: from before a restart it shows nothing
of files, and objects are unknown (nobody could declare a write meanwhile).
Clocks count records, not seconds: nothing expires, and age is never consulted.
provd since C tells what happened after C, and whether the log is whole there.
"""

_DEPENDENCIES: Final = """\
Dependencies: what an entry rests on. Fresh while all are, without any unknown.

  file:PATH     what reading PATH gives, links followed. Missing is an answer.
                PATH alone is the same. FIFOs, devices, proc: never fresh
  dir:PATH      the names and types directly inside
  names:GLOB    which paths match, and their types
  glob:GLOB     those, and their contents; a link that matches is followed
  tree:PATH     everything below: names, types, contents, link targets (a file
                at PATH is no directory: absent, as before, and fresh)
  object:ID     something that is no file: dirty when an action declares a write
                to this very ID, which is no path: svc:x is nothing in svc
  entry:KEY     another entry: its version, and it is only as good as that is

A relative path means what it means in the current directory. Globs (quoted)
know * ? [..] [!..] ** and no braces: {x,y} is literal, so write two --dep. A
leading dot is matched only by a dot. .git/ is left out of sets, unless one
lies in it or the root has other rules. A colon in a name: file:a:b.

  provd put api --value-file api.md --sums sums          # as it was read
  provd put conf --value none --dep file:my.conf --as-of-now    # its absence
  provd put routes --value-file r --dep 'glob:src/**/*.py' --fetched-at $c
  provd put plan --value-file p --dep object:svc:api --fetched-at $c
  provd put pi --value 3.14 --no-deps                    # rests on nothing
"""

TOPICS: Final = {
    "exit-codes": ("what each exit code says", _EXIT_CODES),
    "clocks": ("when something was read, and how a put says it", _CLOCKS),
    "dependencies": ("what an entry can rest on", _DEPENDENCIES),
}


def _offered(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """What a shell may complete: the topics and commands, or the commands of the group named before."""
    words = context.params.get(parameter.name or "") or ()
    try:
        there = _described(context.find_root(), words)
    except Usage:
        return []
    group = there.command
    names = [*group.list_commands(there), *([] if words else TOPICS)] if isinstance(group, click.Group) else []
    return [CompletionItem(name) for name in names if name.startswith(incomplete)]


@click.command("help", cls=Command, examples=("provd help put", "provd help --all put", "provd help exit-codes"))
@click.argument("words", metavar="[COMMAND|TOPIC]...", nargs=-1, shell_complete=_offered)
@click.option("--all", "whole", is_flag=True, help="All that there is to tell of a command, however long.")
@click.pass_context
def help_(context: click.Context, words: tuple[str, ...], whole: bool) -> int:
    """The help of a command, or on a topic: exit-codes, clocks, dependencies."""
    root = context.find_root()
    root.meta[helptext.WHOLE] = whole
    if not words:
        output.line(root.get_help())
        output.line("Topics: " + ", ".join(f"provd help {topic}" for topic in TOPICS))
    elif len(words) == 1 and words[0] in TOPICS:
        output.line(TOPICS[words[0]][1].rstrip("\n"))
    else:
        output.line(_described(root, words).get_help())
    return 0


def _described(root: click.Context, words: Sequence[str]) -> click.Context:
    """The context of the command that `words` name; raises Usage with the nearest command or topic."""
    there = root
    for word in words:
        group = there.command
        if not isinstance(group, click.Group):
            raise Usage(f"{there.command_path} has no commands of its own", f"provd help {_typed(there)}")
        command = group.get_command(there, word)
        if command is None:
            names = group.list_commands(there) + (list(TOPICS) if there is root else [])
            raise Usage(f"there is no help on {word!r}", _nearest(there, word, names))
        there = click.Context(command, info_name=word, parent=there, **command.context_settings)
    return there


def _nearest(there: click.Context, word: str, names: Sequence[str]) -> str:
    near = nearest(word, names)
    below = f"{_typed(there)} " if there.parent is not None else ""
    known = f"provd help {below}".rstrip() + "  # lists all"
    return steps.ways(f"provd help {below}{near}  # did you mean that?" if near else "", known)


def _typed(there: click.Context) -> str:
    return there.command_path.partition(" ")[2]
