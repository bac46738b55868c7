"""What a request names: its root and scope, its dependencies, the real paths of what it rests on.

Rule: what may hang on a file system is asked in a worker. A root that once was one is known by name, so that
questions about a directory that is gone are still answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import stat
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from provd.core import dependency, errors, params
from provd.core.dependency import PATH_KINDS, Dependency, base
from provd.disk import Directory, RealPaths, Workers, is_near, real_directory, signature_of
from provd.store import Store

_PATIENCE = 2.0
"""Seconds for which a root's directory is waited for."""
_AT_ONCE = 16
"""Paths that are looked at in less time than they are handed to a thread in."""
_MANY = 2000
"""Dependencies whose parsing takes some milliseconds."""
_LONG = 8 * dependency.MAX_PATTERN
"""Bytes of dependencies that may take as long: an odd pattern is compiled in some 10 µs a byte."""


class Place(msgspec.Struct, frozen=True):
    """Where a request stands: relative paths are joined to `root`; keys live in `scope` (None: to be said)."""

    root: bytes | None
    scope: bytes | None

    def need_scope(self) -> bytes:
        """The scope; raises RootAmbiguous where none was given and there is not exactly one root."""
        if self.scope is None:
            raise errors.RootAmbiguous(
                "no root was given and there is not exactly one watched root",
                'send root (any directory), or scope: "NAME" for what belongs to none',
            )
        return self.scope


class Resolver:
    """Resolves requests against the roots of the moment, which `roots` tells."""

    def __init__(self, store: Store, workers: Workers, roots: Callable[[], Sequence[bytes]]) -> None:
        self._store = store
        self._workers = workers
        self._roots = roots

    async def place(self, root: params.Name | None, scope: str | None = None, *, foreign: bool = False) -> Place:
        """The place that `root` and `scope` say; raises RootMissing, InvalidParams."""
        place = self.known_place(root, scope, foreign=foreign)
        if place is not None:
            return place
        where = absolute(params.name_bytes(root), "root") if root is not None else b"/"
        real = await self._real(where)
        return Place(where, real if scope is None else params.scope_name(scope))

    def known_place(self, root: params.Name | None, scope: str | None = None, *, foreign: bool = False) -> Place | None:
        """The same where no directory has to be looked at for it, else None; raises InvalidParams."""
        where = None if root is None else absolute(params.name_bytes(root), "root")
        roots = self._roots()
        if where is None:
            where = real = roots[0] if len(roots) == 1 else None
        elif foreign or where in roots or self._known(where):
            real = where
        else:
            return None
        return Place(where, real if scope is None else params.scope_name(scope))

    def _known(self, scope: bytes) -> bool:
        with self._store.view() as view:
            return view.scope_number(scope) is not None

    async def _real(self, root: bytes) -> bytes:
        shown = root.decode("utf-8", "backslashreplace")
        try:
            real, directory = await self._workers.call(real_directory, root, timeout=_PATIENCE, about=root)
        except (OSError, ValueError) as e:  # TimeoutError is an OSError
            raise errors.RootMissing(f"{shown}: {e or 'it does not answer'}", "send an existing directory") from None
        if directory is None and not self._known(real):
            raise errors.RootMissing(f"{shown} is no directory", "send the absolute path of a directory that exists")
        return real

    async def directory(self, path: params.Name) -> Directory:
        """The existing directory at `path`; raises RootMissing, InvalidParams."""
        where = absolute(params.name_bytes(path), "path")
        shown = where.decode("utf-8", "backslashreplace")
        try:
            _, directory = await self._workers.call(real_directory, where, timeout=_PATIENCE, about=where)
        except (OSError, ValueError) as e:
            raise errors.RootMissing(f"{shown}: {e or 'it does not answer'}", "give an existing directory") from None
        if directory is None:
            raise errors.RootMissing(f"{shown} is no directory", "give an existing directory")
        return directory

    async def dependencies(self, given: params.Dependencies, root: bytes | None) -> list[tuple[Dependency, str | None]]:
        """As the function `dependencies`; in a thread where they take long (not a worker: those may all hang)."""
        if len(given) > _MANY or _are_long(given):
            return await asyncio.to_thread(dependencies, given, root)
        return dependencies(given, root)

    async def scopes(self, named: Collection[bytes]) -> dict[bytes, bytes]:
        """The scope that each directory is: as `place` has it where it is here, else as it is named."""
        roots = self._roots()
        return await self.real_paths({name for name in named if name not in roots and not self._known(name)})

    async def real_bases(self, deps: Iterable[Dependency]) -> dict[bytes, bytes]:
        """The real path of the base of each path dependency, where it can be told in time."""
        return await self.real_paths({base(dep) for dep in deps if dep.kind in PATH_KINDS})

    async def real_paths(self, paths: Collection[bytes]) -> dict[bytes, bytes]:
        """The real path of each path, where it can be told in time."""
        real = RealPaths()
        if len(paths) > _AT_ONCE or not self._workers.mounts.all_local() or not all(map(is_near, paths)):
            return await self._workers.each(real, paths, _PATIENCE)
        there: dict[bytes, bytes] = {}
        for path in paths:
            with contextlib.suppress(OSError):
                there[path] = real(path)
        return there

    async def leaves(self, paths: Collection[bytes]) -> frozenset[bytes]:
        """Those of the paths at which there is something now, links followed, that is no directory."""
        there = await self._workers.each(signature_of, paths, _PATIENCE)
        return frozenset(path for path, at in there.items() if at is not None and not stat.S_ISDIR(at.mode))


def absolute(path: bytes, field: str) -> bytes:
    """`path` without slashes at its end; raises InvalidParams where it is not absolute or no path at all."""
    if not path.startswith(b"/") or b"\0" in path:
        raise errors.InvalidParams(
            f"{field} {path[:120].decode('utf-8', 'backslashreplace')!r} is no absolute path", "send an absolute path"
        )
    return path.rstrip(b"/") or b"/"


def joined(path: bytes, place: Place, field: str) -> bytes:
    """`path` as an absolute one, joined to the root of `place`; raises RootAmbiguous, InvalidParams."""
    if not path.startswith(b"/"):
        if place.root is None:
            raise errors.RootAmbiguous(f"{field} is relative and there is no root to join it to", "send root")
        path = place.root.rstrip(b"/") + b"/" + path
    return absolute(path, field)


def _are_long(given: params.Dependencies) -> bool:
    if len(given) * dependency.MAX_PATTERN <= _LONG:
        return False
    return sum(len(params.wire_dependency(one)[0]) for one in given) > _LONG


def dependencies(given: params.Dependencies, root: bytes | None) -> list[tuple[Dependency, str | None]]:
    """Parsed dependencies with the client's digests; raises DependencyMalformed and its kin, LimitExceeded."""
    if len(given) > params.MAX_DEPENDENCIES:
        raise errors.LimitExceeded(
            f"{len(given)} dependencies", f"at most {params.MAX_DEPENDENCIES}; use tree: or glob:"
        )
    out = []
    for one in given:
        text, digest = params.wire_dependency(one)
        dep = dependency.parse(text, root)
        out.append((dep, None if digest is None else dependency.check_digest(dep, digest)))
    return out
