"""provd in which each await and each call of the system or of LMDB is a place that can be told to fail.

It runs in the daemon's process. Modules are rewritten as they are imported: `await x` becomes `await passing(site, x)`,
and `os.stat(p)` becomes `calling(site, os.stat)(p)`. A site is called by the module, the function, what is called and
its kind: `recorder/mutations.py:Pump._piece:self._notices:await`; `#2` is the second such call there.

Over the socket `$INJECTED_CONTROL` one line arms a site (`{"arm": SITE, "error": NAME, "nth": N}`), has those that
begin so fail some times (`{"also": {BEGINNING: [NAME, TIMES]}}`), or asks what was passed (`{"passed": true}`).
`$INJECTED_AT` (`SITE NAME`) and `$INJECTED_ALSO` do so before anything is imported; `$INJECTED_QUICK`
(`{MODULE: {CONSTANT: VALUE}}`) gives times that tests need not wait for. What was passed by the end lies in
`$INJECTED_CONTROL.passed`; in the directory `$INJECTED_CACHE` rewritten modules are kept for the next daemon.
"""

from __future__ import annotations

import ast
import errno
import importlib.abc
import importlib.machinery
import json
import marshal
import os
import socket
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import lmdb

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import CodeType

PACKAGE: Final = "provd"
_LEFT_ALONE: Final = ("provd.cli", "provd.core", "provd.services", "provd.faults", "provd.__main__")


def _words(*lines: str) -> list[str]:
    return [word for line in lines for word in line.split()]


_SYSTEM: Final = frozenset(
    _words(
        "open read pread write pwrite stat lstat fstat listdir scandir readlink statvfs fsync unlink rename",
        "mkdir makedirs chmod fchmod posix_fallocate ftruncate pipe2",
        "eventfd getpriority exists lexists isdir getsize islink",
    )
)
_MODULES: Final = ("os", "fcntl", "select", "mmap", "termios", "resource")
_LMDB: Final = frozenset(
    _words(
        "begin get put delete cursor set_range set_key next prev first last open_db commit copy stat info iternext pop",
        "set_key_dup set_range_dup next_nodup replace putmulti getmulti drop sync",
    )
)
_LMDB_MODULES: Final = "provd.store."
_OTHERS: Final = {
    "threading.Thread": "thread",
    "self._transport.write": "memory",
    "self._loop.call_soon_threadsafe": "memory",
}
"""Other calls that are sites, and of which kind."""

ERRORS: Final[dict[str, Callable[[], BaseException]]] = {
    "os": lambda: OSError(errno.EIO, "injected"),
    "memory": lambda: MemoryError("injected"),
    "lmdb": lambda: lmdb.DiskError("injected"),
    "runtime": lambda: RuntimeError("injected"),
    "full": lambda: lmdb.MapFullError("injected"),
    "short write": lambda: lmdb.Error(os.strerror(errno.EIO)),
    "disk full": lambda: lmdb.Error(os.strerror(errno.ENOSPC)),
    "read-only": lambda: lmdb.Error(os.strerror(errno.EROFS)),
}

_state: dict[str, Any] = {"site": "", "error": "", "left": 0, "fired": False}
_passed: Counter[str] = Counter()
_known: set[str] = set()
_also: dict[str, tuple[str, int]] = json.loads(os.environ.get("INJECTED_ALSO", "{}"))
_quick: dict[str, dict[str, float]] = json.loads(os.environ.get("INJECTED_QUICK", "{}"))


def visit(site: str) -> None:
    """A site is passed; raises what is armed there."""
    _passed[site] += 1
    if _also:
        _fail_also(site)
    if site == _state["site"] and _state["left"]:
        _state["left"] -= 1
        if not _state["left"]:
            _state["fired"] = True
            error = ERRORS[_state["error"]]()
            raise error


def _fail_also(site: str) -> None:
    for beginning, (error, times) in _also.items():
        if site.startswith(beginning) and times > 0:
            _also[beginning] = (error, times - 1)
            failure = ERRORS[error]()
            raise failure


async def passing(site: str, awaited: Awaitable[Any]) -> Any:
    """An await."""
    try:
        visit(site)
    except BaseException:
        if hasattr(awaited, "close"):
            awaited.close()  # a coroutine that never began
        raise
    return await awaited


def calling(site: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """A call."""
    visit(site)
    return function


class _Rewriter(ast.NodeTransformer):
    def __init__(self, name: str, path: str) -> None:
        self._lmdb = name.startswith(_LMDB_MODULES)
        self._path = path
        self._within: list[str] = []
        self._named: Counter[str] = Counter()

    def visit(self, node: ast.AST) -> Any:
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            return super().visit(node)
        self._within.append(node.name)
        self.generic_visit(node)
        self._within.pop()
        return node

    def visit_Await(self, node: ast.Await) -> ast.AST:
        awaited = node.value.func if isinstance(node.value, ast.Call) else node.value
        what = ast.unparse(awaited)
        self.generic_visit(node)
        node.value = self._call("injected_passing__", what, "await", node.value)
        return node

    def visit_Call(self, node: ast.Call) -> ast.AST:
        kind, what = self._kind(node.func), ast.unparse(node.func)
        self.generic_visit(node)
        if kind:
            if what == "faults.point":
                what = ast.unparse(node.args[0])
            node.func = self._call("injected_calling__", what, kind, node.func)
        return node

    def _kind(self, function: ast.expr) -> str:
        if isinstance(function, ast.Name):
            return "os" if function.id == "open" else ""
        if not isinstance(function, ast.Attribute):
            return ""
        base = function.value
        while isinstance(base, ast.Attribute):
            base = base.value
        if isinstance(base, ast.Name) and base.id in _MODULES:
            return "os" if base.id != "os" or function.attr in _SYSTEM else ""
        words = ast.unparse(function)
        if words in _OTHERS:
            return _OTHERS[words]
        if words in {"lmdb.open", "faults.point"}:
            return "lmdb" if self._lmdb else ""
        words = words.removesuffix(function.attr)
        if self._lmdb and function.attr in _LMDB and ("txn" in words or "env" in words or "cursor" in words):
            return "lmdb"
        return ""

    def _call(self, name: str, what: str, kind: str, inner: ast.expr) -> ast.expr:
        where = f"{self._path}:{'.'.join(self._within)}:{''.join(what.replace(':', '').split())[:60]}"
        self._named[where] += 1
        number = self._named[where]
        site_name = f"{where}{f'#{number}' if number > 1 else ''}:{kind}"
        _known.add(site_name)
        site = ast.Constant(site_name)
        made = ast.Call(ast.Name(name, ast.Load()), [site, inner], [])
        return ast.fix_missing_locations(ast.copy_location(made, inner))


class _Loader(importlib.machinery.SourceFileLoader):
    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        text = os.fspath(path)
        short = text.partition(f"{os.sep}{PACKAGE}{os.sep}")[2]
        tree = _Rewriter(self.name, short).visit(ast.parse(data, text))
        code: CodeType = compile(tree, text, "exec", dont_inherit=True, optimize=_optimize)
        return code

    def get_code(self, fullname: str) -> CodeType:
        """Rewritten once for all daemons of a run: that takes longer than all else of a start."""
        kept = os.path.join(os.environ["INJECTED_CACHE"], fullname)
        try:
            with open(kept, "rb") as file:
                sites, code = marshal.load(file)
        except FileNotFoundError:
            before = set(_known)
            code = self.source_to_code(self.get_data(self.get_filename(fullname)), self.get_filename(fullname))
            with open(f"{kept}.{os.getpid()}", "wb") as new:
                marshal.dump((sorted(_known - before), code), new)
            os.rename(new.name, kept)
        else:
            _known.update(sites)
        rewritten: CodeType = code
        return rewritten

    def exec_module(self, module: Any) -> None:
        vars(module).update(injected_passing__=passing, injected_calling__=calling)
        super().exec_module(module)
        vars(module).update(_quick.get(module.__name__, {}))


class _Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if not fullname.startswith(f"{PACKAGE}.") or fullname.startswith(_LEFT_ALONE):
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path)
        if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
            return spec
        spec.loader = _Loader(fullname, spec.origin)
        return spec


def _control(path: str) -> None:
    """Listens for what is to fail, in a thread of its own."""
    server = socket.socket(socket.AF_UNIX)
    server.bind(path)
    server.listen(1)

    def serve() -> None:
        while True:
            client = server.accept()[0]
            with client, client.makefile("rwb") as stream:
                for line in stream:
                    stream.write(json.dumps(_told(json.loads(line))).encode() + b"\n")
                    stream.flush()

    threading.Thread(target=serve, daemon=True).start()


def _told(asked: dict[str, Any]) -> Any:
    if "passed" in asked:
        return dict(_passed)
    if "known" in asked:
        return sorted(_known)
    if "also" in asked:
        _also.update({beginning: (error, times) for beginning, (error, times) in asked["also"].items()})
        return {}
    fired = _state["fired"]
    _state.update(site=asked["arm"], error=asked["error"], left=asked["nth"], fired=False)
    return fired


def main() -> int:
    """The daemon."""
    sys.dont_write_bytecode = True
    sys.meta_path.insert(0, _Finder())
    if at := os.environ.get("INJECTED_AT"):
        site, _, error = at.rpartition(" ")
        _state.update(site=site, error=error, left=1)
    control = os.environ["INJECTED_CONTROL"]
    if os.path.exists(control):
        os.unlink(control)
    _control(control)
    from provd.__main__ import run

    try:
        return run()
    finally:
        with open(f"{control}.passed", "w", encoding="utf-8") as file:
            json.dump({"passed": dict(_passed), "known": sorted(_known), "fired": _state["fired"]}, file)


if __name__ == "__main__":
    sys.exit(main())
