"""exec: run a command as an action, and tell what it changed.

Rule: its streams and its exit code are the command's own; what provd says goes to stderr, when the command has ended.
Where nothing was declared the action names nothing beforehand, since a declared directory would count as written
wherever somebody asks without reading; what changed is declared by name afterwards.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from provd import codes
from provd.cli import output, steps
from provd.cli.command import WORK_PATIENCE, Command, Usage, connected, least
from provd.cli.commands import action
from provd.cli.given import completing, names
from provd.cli.processes import child, keeper, orphans
from provd.cli.processes.held import Held
from provd.cli.screens import changed
from provd.cli.words import hints, permissions, records
from provd.client import ProvdUnreachable, RpcError, WirePath, local_path, wire_path
from provd.umask import usable

if TYPE_CHECKING:
    from provd.cli.command import Place
    from provd.cli.screens.changed import Changes
    from provd.client import Client

Json = dict[str, Any]

_SHOWN: Final = 10
_OTHERS: Final = 3
_NAMED: Final = 1000
"""Paths that are declared afterwards; of more, none."""
_STDOUT: Final = "-"
_NOT_RUN: Final = "; the command was not run"


@click.command(
    "exec",
    cls=Command,
    rare=("session", "turn", "note", "report", "wait"),
    context_settings={"allow_interspersed_args": False},
    examples=(
        "provd exec --session s1 --turn 41 -- make fmt   # what it changed, and who",
        "provd exec --write src -- ./codegen.py src      # seen as it happens",
        "provd exec --write object:api --if-usable plan -- kubectl apply -f a.yml",
        "provd exec -q --anyway -- make                  # also where no daemon is",
    ),
)
@action.described
@click.option("-q", "--quiet", is_flag=True, help="Do not tell what changed.")
@click.option(
    "--report",
    metavar="FILE",
    help="Write what changed to FILE, as JSON; - is stdout, in a line of its own behind what CMD wrote.",
)
@click.option("--wait", is_flag=True, help="Also wait for what CMD leaves running (Linux).")
@click.option("--anyway", is_flag=True, help="Run it even where no daemon answers.")
@click.argument("command", metavar="CMD...", nargs=-1, required=True, shell_complete=completing.program)
@connected
def exec_(
    command: tuple[str, ...],
    quiet: bool,
    report: str | None,
    wait: bool,
    anyway: bool,
    root: str | None,
    scope: str | None,
    at: Place,
    **described: Any,
) -> int:
    """Run a command as an action: begun before, ended after, and what changed is told on stderr.

    The exit code is the command's (128 + N by signal N, 126 and 127 as in a shell), but 5 for a 0 where a
    write to an object could not be recorded. It is not run where no daemon answers (3) or where
    --if-usable refuses (5). It ends with CMD: processes that go on
    are named (Linux), and what they write is not part of it.

    Without --write what changes meanwhile below the watched root around here is kept as its doing, others'
    changes too: --write names what is really its. Of two at once that name nothing neither gets it.
    """
    if not command[0]:
        raise Usage("the command is empty", "name a program behind --")
    if not orphans.adopt() and wait:
        raise Usage("--wait: this system does not tell what a command leaves running", "let CMD itself wait for it")
    where = names.Scope(root, scope)
    params = action.description(**described)
    try:
        run = _begin(at, params, where)
    except ProvdUnreachable as error:
        if not anyway:
            raise ProvdUnreachable(
                error.message + _NOT_RUN, steps.because(error.hint, "or run it with --anyway")
            ) from None
        output.warn(f"{error.message}; it is run all the same, and nobody will know what it changed")
        return _only_run(command, wait=wait)
    except RpcError as error:
        message, hint = hints.refusal(hints.unguarded(error, params["writes"]))
        raise hints.Advised(error.code, message + _NOT_RUN, hint, error.data) from None
    try:
        code = _run(command, run, wait=wait)
        _finish(run)
    finally:
        run.held.close()
    if not quiet:
        _tell(run)
    _tell_of_left(run)
    if report is not None:
        _write(report, run, command, code)
    return _code(code, run)


@dataclass
class _Run:
    """One run: where it may write, and what became known of it."""

    held: Held
    params: Json
    place: Json
    clock: str
    within: list[WirePath]
    declared: bool
    """Whether it said which paths it writes."""
    only_below: bool
    """Whether the current directory is not watched, and only what lies `within`, below it, is."""
    others: list[Json]
    """The actions of whoever else was at work and does not say what he changes."""
    affects: Json
    doing: int
    """The action under which the log has what it changed: itself, or the one that declared it afterwards."""
    lost: str = ""
    """Why what it declared was not recorded."""
    unreachable: bool = False
    """Whether that is since no daemon answered."""
    outcome: str = "done"
    left: list[int] | None = None
    """What it left running, as `orphans.left` tells."""
    changes: Changes = field(default_factory=changed.Changes)
    same: set[bytes] = field(default_factory=set)
    """What was written with the content that it had."""
    verdicts: dict[str, Json] = field(default_factory=dict)
    trouble: str = ""

    @property
    def client(self) -> Client:
        """The connection over which it is held."""
        return self.held.client


def _begin(at: Place, params: Json, where: names.Scope) -> _Run:
    """Begin the action; raises ProvdUnreachable, RpcError, and then the connection is closed."""
    client = at.connect(WORK_PATIENCE)
    try:
        return _begun(at, client, params, where)
    except BaseException:
        client.close()
        raise


def _begun(at: Place, client: Client, params: Json, where: names.Scope) -> _Run:
    place = where.params(client)
    clock = client.clock()  # whatever happened until now lies before it
    held = Held(at, client, params | place)
    number = held.ids[0]
    there = {item["id"]: item for item in client.call("action.list")["actions"]}
    paths: list[WirePath] = there[number]["paths"] if number in there else []
    others = [item for item in there.values() if item["id"] != number and not item["writes"]]
    around = None if paths else names.watched_around(client)
    below = [] if paths or around is not None else names.watched_below(client)
    within = paths or [wire_path(root) for root in ([around] if around is not None else below)]
    affects = held.begun.get("affects") or {}
    return _Run(held, params, place, clock, within, bool(paths), bool(below), others, affects, number)


def _only_run(command: tuple[str, ...], *, wait: bool) -> int:
    try:
        return child.run(command, wait=wait)
    except child.NotStarted as error:
        output.complain(str(error), _look(error, command[0]))
        return error.code


def _look(error: child.NotStarted, name: str) -> str:
    """What to do about a program that could not be started."""
    name = f"./{name}" if name.startswith("-") and "/" in name else name  # for its own path it is no option
    if error.code != codes.NOT_FOUND:
        return f"chmod +x {output.quoted(name)}  # or name the program that runs it"
    if "/" not in name:
        return "printenv PATH  # it is in none of these directories: name its own, as DIR/PROGRAM"
    if os.path.exists(name):
        return f"head -n1 {output.quoted(name)}  # its first line (#!) names a program that is not there"
    return f"ls {output.quoted(os.path.dirname(name))}  # correct the path: there is no such file"


def _run(command: tuple[str, ...], run: _Run, *, wait: bool) -> int:
    """Run the command; what it came to goes into `run.outcome`."""
    try:
        code = keeper.run(command, run.held, wait=wait)
    except child.NotStarted as error:
        output.complain(str(error), _look(error, command[0]))
        run.outcome = "aborted"
        return error.code
    run.outcome = "failed" if code else "done"
    return code


def _finish(run: _Run) -> None:
    """Find out what changed, say whose doing it was, end the action, and ask what that came to.

    The command has run, whatever becomes of this: trouble is told.
    """
    run.held.rest()
    try:
        run.client.greet(least(None))  # one that hangs by now is not waited for
        _learn(run)
    except (ProvdUnreachable, RpcError) as error:
        run.trouble = error.message
    run.left = orphans.left()  # before the end: what has ended by now wrote before it
    try:
        run.held.end(run.outcome)
    except (ProvdUnreachable, RpcError) as error:
        run.trouble = run.trouble or error.message
        run.lost = error.message if run.outcome != "aborted" else ""
        run.unreachable = isinstance(error, ProvdUnreachable)
    if not run.trouble:
        try:
            _ask(run)
        except (ProvdUnreachable, RpcError) as error:
            run.trouble = error.message


def _learn(run: _Run) -> None:
    """What changed meanwhile, and whose doing it was."""
    if run.outcome != "aborted" and run.within:
        run.client.clock()  # places that are polled are looked at now
        run.changes = changed.since(run.client, run.clock, run.within, actions=run.held.ids, declared=run.declared)
        run.same = changed.same(run.client, run.changes.newest(), run.held.ids[0])
    if not run.held.writes:
        _declare(run)


def _declare(run: _Run) -> None:
    """Say afterwards what changed, where nothing was said before: by name, so that nothing else counts as written.

    Only where nobody else was at work who says nothing either: it could be his.
    """
    paths = run.changes.paths()
    if not paths or len(paths) > _NAMED:
        return
    run.others = run.others or changed.others(run.client, run.clock, run.held.ids)
    if run.others:
        return
    told: Json = {word: run.params[word] for word in ("session", "turn") if word in run.params}
    told["note"] = records.seen(run.held.ids[0], run.params.get("note"))
    outcome = "failed" if run.outcome == "failed" else "done"
    told |= {"writes": list(map(names.file, paths)), "outcome": outcome}
    answer = run.client.call("action.record", **told, **run.place)
    run.affects, run.doing = answer["affects"], answer["id"]


def _ask(run: _Run) -> None:
    """What became of the entries that it may have made dirty."""
    keys = run.affects.get("keys") or []
    if keys and run.outcome != "aborted":
        told = run.client.check(keys=keys, **run.place)["verdicts"]
        run.verdicts = {key: verdict for key, verdict in told.items() if verdict.get("why") != "no-entry"}


def _code(code: int, run: _Run) -> int:
    """The command's code, unless that would say that all is well where a write is known to nobody."""
    objects = [write for write in run.held.writes if names.is_object(write)]
    if not run.lost or not objects:
        return code
    shown, number = output.some([output.name(write) for write in objects], _SHOWN), run.held.ids[-1]
    if run.held.ended_by_others:
        again = " ".join(f"--write {permissions.quoted(local_path(write))}" for write in objects[:_SHOWN])
        told = f"somebody ended action {number} while it ran, and nobody knows that it wrote {shown} after that"
        hint = f"provd action record {again}  # when the daemon is there again"
    else:
        told = f"the log has that action {number} began to write {shown}, and not that it ended"
        end = f"provd action end {number} --outcome {run.outcome}"
        until = "where it is open: it ended as failed if the daemon could write that"
        if run.unreachable:
            until = "what rests on it is dirty until then; 10 s after its start a daemon ends it as failed"
        start = "provd start && " if run.unreachable else ""
        hint = steps.because(f"{start}{end}", until)
    output.complain(f"{told}: {run.lost}", hint)
    return code or codes.REFUSED


def _tell(run: _Run) -> None:
    """What it came to, on stderr, without colours: it may go elsewhere than the command's own words."""
    if run.trouble:
        output.warn(
            f"what it changed is not known: {run.trouble}",
            f"provd since {output.quoted(run.clock)}  # tells it, once the daemon answers again",
        )
        return
    newest = run.changes.newest()
    begun = run.held.ids[0]
    aside = f" (begun as record {begun})" if run.doing != begun else ""
    output.note(f"provd: action {run.doing} {run.outcome}{aside}: {_count(run, newest)}")
    for mutation in newest[-_SHOWN:]:
        output.note(f"  {changed.line(mutation, run.same)}")
    if len(newest) > _SHOWN:
        output.note(f"  and {len(newest) - _SHOWN} more")
        output.advise(f"provd since {output.quoted(run.clock)}  # all of it")
    for when, keys in changed.when_dirty(run.verdicts, run.changes, run.held.ids[0]).items():
        if keys:
            output.note(f"  {when}: {output.printable(output.some(keys, _SHOWN))}")
    if newest and run.only_below:
        output.note(f"  only what is watched below here was looked at: {_within(run)}")
    if newest and run.others:
        them = output.some(list(map(action.named, run.others)), _OTHERS)
        output.note(f"  others were at work ({them}), so none of it is kept as its doing: --write names what is")
    if not run.held.writes and len(run.changes.paths()) > _NAMED:
        output.note(f"  more than {_NAMED} paths are not kept as its doing, nor is it looked what rests on them:")
        output.advise("provd ls --dirty  # what is; and --write DIR the next time, then it is told")
    if run.changes.foreign:
        output.warn(records.FOREIGN, hints.OWN_DAEMON)
    elif not run.changes.whole:
        output.warn("incomplete: not all of it is watched, or events were lost; provd check answers by reading")
    if not run.within and run.outcome != "aborted":
        output.advise("provd watch add .  # then the next one is told what changed")


def _tell_of_left(run: _Run) -> None:
    """What goes on, and may write after the end."""
    if run.left is None:
        return
    who = output.count(len(run.left), "process", "processes") if run.left else "processes"
    pids = f" ({output.some(list(map(str, run.left)), _SHOWN)})" if run.left else ""
    told = f"{who} started by it still run{'s' if len(run.left) == 1 else ''}{pids}"
    again = " ".join(f"--write {permissions.quoted(local_path(write))}" for write in run.held.writes[:_SHOWN])
    declare = f"\nprovd action record {again}  # when that has ended" if again else ""
    output.warn(
        f"{told}: what that writes from now on is not part of action {run.held.ids[-1]}",
        f"provd exec --wait -- CMD  # waits for all that CMD starts{declare}",
    )


def _count(run: _Run, newest: list[Json]) -> str:
    if newest:
        return changed.counted(newest, run.same, "" if run.declared else " meanwhile")
    if run.outcome == "aborted":
        return "nothing was started"
    if run.changes.foreign:
        return "what it changed is not known"
    if run.within and not run.changes.whole:
        return f"nothing is known to have changed in {_within(run)}"
    if run.within:
        return f"nothing changed in {_within(run)}; ignored places, by default .git/, are not looked at"
    return "no watched directory is here, so nobody knows what changed"


def _within(run: _Run) -> str:
    return output.some([output.name(path) for path in run.within], _SHOWN)


def _write(report: str, run: _Run, command: tuple[str, ...], code: int) -> None:
    """The same for programs: one JSON object."""
    told = {
        "command": list(command),
        "exit": code,
        "action": run.doing,
        "outcome": run.outcome,
        "clock": run.clock,
        "changed": run.changes.newest(),
        "complete": run.changes.whole and bool(run.within) and not run.only_below and not run.trouble,
        "running": run.left or [],
        "affects": run.affects,
        "verdicts": run.verdicts,
        "trouble": run.trouble or (records.FOREIGN if run.changes.foreign else ""),
    }
    text = json.dumps(told)
    try:
        if report == _STDOUT:
            output.line()  # what the command wrote may end within a line
            output.line_written(text)
            sys.stdout.flush()
        else:
            with usable(), open(report, "w", encoding="utf-8") as file:
                file.write(text + "\n")
    except OSError as error:
        if report == _STDOUT:
            output.discard(sys.stdout)  # the exit code is the command's all the same
        message = f"the report could not be written: {'stdout' if report == _STDOUT else report}: {error.strerror}"
        output.complain(message, f"provd since {run.clock}  # what changed; name a FILE that can be written")
