"""What the checks look at: gathered once, from the daemon, the disk and the service manager.

Rule: nothing here hangs or raises. Who does not answer in time is a fact too; what may hang is asked in a thread
that is left behind. But a thread that the kernel holds keeps its process from ending, so a child looks first whether
the places answer, and nobody goes where they do not.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from provd import places, reach, refusals
from provd.cli.given import looking
from provd.cli.processes.holding import Holder, bereft, holder
from provd.client import Client, ProvdUnreachable, RpcError, local_path

if TYPE_CHECKING:
    from provd.cli.command import Place
    from provd.services import Service

Json = dict[str, Any]
T = TypeVar("T")
_Asked = tuple[Json, ProvdUnreachable | None, RpcError | None, int | None]
"""What `_ask` returns."""

PATIENCE: Final = 5.0
"""Seconds that each of those who are asked has."""
HUNG: Final = (
    "mount  # lists what is mounted where: see to the disk or the server that holds it\n"
    "provd start --state DIR  # in another place, with a memory of its own"
)
"""What to do about a place that does not answer: nothing that would look there."""
_UNREAD: Final[tuple[str, str] | None] = ("the configuration cannot be read in time", "look at its disk")
_NOBODY_KNOWS: Final[int | None] = 0
_STATUS_TIMES: Final = 4
"""A status counts files and looks at roots, so it has so many times as long."""


@dataclass(frozen=True)
class Directory:
    """The state directory as it looks from here. `trouble` says why it could not be looked at, `hangs` that it does
    not answer, and `shut` which directory of this user's its mode keeps him out of; `refusal` why its file system takes
    no writes from anybody.

    `gone` says that it is not there, and `writable` then, that it can be made; `free` is in bytes; `names` are those
    that it holds.
    """

    path: str
    gone: bool = False
    trouble: str = ""
    hangs: bool = False
    shut: str = ""
    writable: bool = True
    refusal: refusals.Refusal | None = None
    owner: int = 0
    mode: int = 0o700
    network: bool = False
    free: int | None = None
    names: tuple[str, ...] = ()
    holder: Holder | None = None


@dataclass(frozen=True)
class Facts:
    """All that the checks know. `answer` is `daemon.status`; {} where none came, then `absence` says why, and `refusal`
    is what the daemon itself said.

    `peer` is the process that listens, where it can be seen; `mistake` what is wrong with the configuration, and the
    hint; `unit` the installed service, `units_hang` that nobody knows; `daemon_user` whose the socket is; `code_at`
    when the daemon's code was put where it is, 0 if nobody knows, None where there is none any more. That and `now` are
    nanoseconds of the wall clock.
    """

    socket: str
    version: str
    package: str
    answer: Json = field(default_factory=dict)
    absence: ProvdUnreachable | None = None
    refusal: RpcError | None = None
    peer: int | None = None
    peer_state: str = ""
    peer_killed: bool = False
    log_file: str = ""
    directory: Directory | None = None
    own_directory: Directory | None = None
    config: str = ""
    mistake: tuple[str, str] | None = None
    unit: Service | None = None
    units_hang: bool = False
    code_at: int | None = 0
    now: int = 0
    user: int = 0
    daemon_user: int | None = None

    @property
    def answered(self) -> bool:
        """Whether a daemon told its status."""
        return self.absence is None

    def part(self, name: str) -> Json:
        """An object of the answer; {} where it is not told."""
        value = self.answer.get(name)
        return value if isinstance(value, dict) else {}

    def rows(self, name: str) -> list[Json]:
        """A list of objects of the answer; [] where it is not told."""
        value = self.answer.get(name)
        return [row for row in value if isinstance(row, dict)] if isinstance(value, list) else []


def gather(at: Place, patience: float = PATIENCE) -> Facts:
    """Asks everybody. `patience` is in seconds; the disk has `PATIENCE`, since under load that takes its time."""
    from provd import __file__ as here  # noqa: PLC0415  only these two are of interest
    from provd import __version__  # noqa: PLC0415

    socket = places.socket_path(at.socket, at.state)
    own, config = places.state_dir(at.state), places.config_path()
    hanging = _Hanging()
    answer, absence, refusal, peer = _hung(socket, own, hanging) or _ask(socket, patience)
    told = answer.get("state")
    state = os.fsdecode(local_path(told)) if told else own
    seen = _directory(state, hanging)
    mine = seen if own == state else _directory(own, hanging)
    if absence is not None and absence.kind == "busy" and mine.holder is not None and mine.holder.socket == socket:
        peer = mine.holder.pid  # nobody was connected who could tell
    if absence is not None:
        absence = bereft(absence, mine.holder, socket, own)
    return Facts(
        socket=socket,
        version=__version__,
        package=os.path.dirname(here),
        answer=answer,
        absence=absence,
        refusal=refusal,
        peer=peer,
        peer_state=reach.state(peer) if peer else "",
        peer_killed=peer is not None and reach.is_killed(peer),
        log_file=_log_file(peer),
        directory=seen,
        own_directory=mine,
        config=config,
        mistake=_UNREAD if hanging(config) else _within(_mistake, _UNREAD),
        unit=None if hanging(places.config_home().path) else _unit(),
        units_hang=hanging(places.config_home().path),
        code_at=0 if answer.get("foreign") else _within(lambda: _code_at(answer), _NOBODY_KNOWS),
        now=time.time_ns(),
        user=os.geteuid(),
        daemon_user=None if absence is not None else _within(lambda: os.stat(socket).st_uid, None),
    )


class _Hanging:
    """Whether a place does not answer, asked once of each."""

    def __init__(self) -> None:
        self._known: dict[str, bool] = {}

    def __call__(self, path: str) -> bool:
        if path not in self._known:
            self._known[path] = looking.hangs(os.fsencode(path), PATIENCE)
        return self._known[path]


def _hung(socket: str, state: str, hanging: _Hanging) -> _Asked | None:
    """What became of asking, where the way to the socket does not answer, or nobody listens and the state does not.

    Then whoever looks for another daemon would read that one's lock.
    """
    from provd import elsewhere  # noqa: PLC0415  for the rare case that a state directory does not answer

    if hanging(os.path.dirname(socket)):
        what = f"{os.path.dirname(socket)}, where the socket is looked for, does not answer"
    elif hanging(state) and not elsewhere.answers(socket):
        what = f"nobody listens at {socket}, and the state directory {state} does not answer"
    else:
        return None
    return {}, ProvdUnreachable(what, HUNG, "hung"), None, None


def _ask(socket: str, patience: float) -> _Asked:
    """The status, or why there is none, and the refusal if it was one; and the process that listens."""
    peer = None
    try:
        with Client(socket, patience) as client:
            peer = client.peer_pid()
            client.hello()
            client.timeout = _STATUS_TIMES * patience
            answer = client.call("daemon.status")
    except ProvdUnreachable as error:
        return {}, error, None, peer
    except RpcError as error:
        told = ProvdUnreachable(f"the daemon at {socket} refuses: {error.message}", error.hint, "refused")
        return {}, told, error, peer
    if not isinstance(answer, dict):
        told = ProvdUnreachable(f"what answers at {socket} is not provd", "name another --socket", "stranger")
        return {}, told, None, peer
    return answer, None, None, peer


def _log_file(pid: int | None) -> str:
    """The file that a process has as stderr; empty where it is none, or cannot be seen."""
    try:
        path = os.readlink(f"/proc/{pid}/fd/2") if pid else ""
    except OSError:
        return ""
    is_file = path.startswith("/") and not path.startswith("/dev/") and not path.endswith(" (deleted)")
    return path if is_file else ""


def _within(work: Callable[[], T], late: T) -> T:
    """What `work` returns, or `late` where it fails or takes too long: a call on a dead mount cannot be ended."""
    found: list[T] = []

    def do() -> None:
        with contextlib.suppress(Exception):
            found.append(work())

    thread = threading.Thread(target=do, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    return found[0] if found else late


def _directory(path: str, hanging: _Hanging) -> Directory:
    late = Directory(path, trouble=f"it did not answer within {PATIENCE:g} s", hangs=True)
    return late if hanging(path) else _within(lambda: _look(path), late)


def _look(path: str) -> Directory:
    try:
        status = os.stat(path)
        names = tuple(sorted(os.listdir(path)))
    except FileNotFoundError:
        above = path
        while above != "/" and not os.path.exists(above):
            above = os.path.dirname(above)
        return Directory(path, gone=True, writable=_is_writable(above), refusal=refusals.met(above))
    except OSError as error:
        trouble = error.strerror or str(error)
        return Directory(path, trouble=trouble, shut=places.shut(path), refusal=refusals.of(error, path))
    free = None
    with contextlib.suppress(OSError):
        disk = os.statvfs(path)
        free = disk.f_bavail * disk.f_frsize
    return Directory(
        path,
        writable=_is_writable(path),
        refusal=refusals.met(path),
        owner=status.st_uid,
        mode=status.st_mode & 0o7777,
        network=_is_network(path),
        free=free,
        names=names,
        holder=holder(path),
    )


def _is_writable(directory: str) -> bool:
    """Whether names can be made in it; root may write everywhere but on what is mounted to be read."""
    return os.access(directory, os.W_OK | os.X_OK)


def _is_network(path: str) -> bool:
    from provd import filesystems  # noqa: PLC0415  few commands need it

    with contextlib.suppress(OSError):
        return filesystems.is_network(os.fsencode(path))
    return False


def _mistake() -> tuple[str, str] | None:
    """What is wrong with the configuration, and what to do; None where it can be used."""
    from provd import configuration  # noqa: PLC0415  few commands need it

    place = places.config_place()
    read = configuration.with_roots(configuration.read(place.path, needed=place.named))
    return (read.mistaken, configuration.CORRECT) if read.mistakes else None


def _code_at(answer: Json) -> int | None:
    """When the package that the daemon runs was written, if it can be seen from here; None where it is gone."""
    package = answer.get("package")
    try:
        return 0 if package is None else os.stat(os.path.join(local_path(package), b"__init__.py")).st_mtime_ns
    except (FileNotFoundError, NotADirectoryError):
        return None


def _unit() -> Service | None:
    from provd.services import found  # noqa: PLC0415  it starts programs, so it costs

    return found()
