"""Ways to change what is in a file, by hand: mappings without a descriptor, calls that Python has no words for.

Rule: nothing of the product. Python's own `mmap` keeps a copy of its descriptor, so that the file stays open for
writing; a `Mapping` keeps none.
"""

from __future__ import annotations

import array
import contextlib
import ctypes
import fcntl
import mmap
import os
import select
import shutil
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

SIZE = 3 * mmap.PAGESIZE
CONTENT = b"a" * SIZE
RESTS = 2.2
"""Seconds after which any file system's times tell nothing any more: the rule of age is no help then."""
MAY_LOOP = os.geteuid() == 0 and os.path.exists("/dev/loop-control") and shutil.which("losetup") is not None
LIBC = ctypes.CDLL(None, use_errno=True)
LIBC.mmap.restype = LIBC.mremap.restype = ctypes.c_void_p
LIBC.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
LIBC.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
LIBC.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
LIBC.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
_FAILED = ctypes.c_void_p(-1).value
_READ, _BOTH, _SHARED = mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_SHARED


def done(result: int) -> int:
    """The result of a call of libc; raises OSError where it failed."""
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def kernel(number: int, *arguments: object) -> int:
    """A system call by its number (of x86-64); raises OSError where it fails."""
    return done(LIBC.syscall(number, *arguments))


class Mapping:
    """A shared mapping of a file whose descriptor is closed; `store` writes at its beginning, or at a place in it."""

    def __init__(self, path: bytes, protection: int = _BOTH, flags: int = 0) -> None:
        descriptor = os.open(path, os.O_RDWR)
        try:
            address = LIBC.mmap(None, SIZE, protection, _SHARED | flags, descriptor, 0)
        finally:
            os.close(descriptor)
        assert address != _FAILED, os.strerror(ctypes.get_errno())
        self.address, self.size = address, SIZE

    def store(self, content: bytes, at: int = 0) -> None:
        ctypes.memmove(self.address + at, content, len(content))

    def load(self, at: int = 0) -> bytes:
        return ctypes.string_at(self.address + at, 1)

    def moves(self) -> None:
        """It is longer, and maybe elsewhere."""
        address = LIBC.mremap(self.address, self.size, 2 * self.size, 1)
        assert address != _FAILED, os.strerror(ctypes.get_errno())
        self.address, self.size = address, 2 * self.size

    def may_store(self) -> None:
        """It was made for reading alone; now it is for writing."""
        done(LIBC.mprotect(self.address, self.size, _BOTH))

    def gives_back(self, size: int) -> None:
        """Its first bytes, and those of the file, are a hole (MADV_REMOVE)."""
        done(LIBC.madvise(ctypes.c_void_p(self.address), ctypes.c_size_t(size), mmap.MADV_REMOVE))

    def close(self) -> None:
        done(LIBC.munmap(self.address, self.size))


@contextlib.contextmanager
def opened(path: bytes, flags: int = os.O_RDWR) -> Iterator[int]:
    descriptor = os.open(path, flags)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def mapped(path: bytes, flags: int = 0) -> Iterator[Mapping]:
    mapping = Mapping(path, flags=flags)
    try:
        yield mapping
    finally:
        mapping.close()


def page(content: bytes) -> mmap.mmap:
    """Aligned memory with this content all over."""
    memory = mmap.mmap(-1, mmap.PAGESIZE)
    memory[:] = content * (mmap.PAGESIZE // len(content))
    return memory


def address_of(memory: mmap.mmap) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(memory))


# ---- calls that Python has no words for


def allocates(mode: int) -> Callable[[bytes], None]:
    def act(path: bytes) -> None:
        with opened(path) as descriptor:
            done(LIBC.fallocate(descriptor, mode, ctypes.c_long(mmap.PAGESIZE), ctypes.c_long(mmap.PAGESIZE)))

    return act


def by_aio(flags: int = 0) -> Callable[[bytes], None]:
    """Linux AIO, of which no event tells before the close."""

    def act(path: bytes) -> None:
        context, memory = ctypes.c_ulong(0), page(b"AIO!")
        kernel(206, 1, ctypes.byref(context))
        with opened(path, os.O_RDWR | flags) as descriptor:
            block = struct.pack(
                "<QIIHhIQQqQII", 0, 0, 0, 1, 0, descriptor, address_of(memory), mmap.PAGESIZE, 0, 0, 0, 0
            )
            request = ctypes.create_string_buffer(block)
            kernel(209, context, 1, ctypes.byref(ctypes.c_void_p(ctypes.addressof(request))))
            kernel(208, context, ctypes.c_long(1), ctypes.c_long(1), ctypes.create_string_buffer(32), None)
        kernel(207, context)

    return act


def by_ring(path: bytes) -> None:
    """io_uring: one write, and its completion."""
    parameters = ctypes.create_string_buffer(120)
    ring = kernel(425, 4, parameters)
    try:
        told = struct.unpack("<30I", parameters.raw)
        tail, array_at = told[11], told[16]
        head_of, tail_of = told[20], told[21]
        with (
            mmap.mmap(ring, told[16] + 4 * told[0]) as queue,
            mmap.mmap(ring, 64 * told[0], offset=0x10000000) as rows,
            mmap.mmap(ring, told[25] + 16 * told[1], offset=0x8000000) as answers,
            opened(path) as descriptor,
        ):
            memory = page(b"ring")
            rows[:64] = struct.pack("<BBHiQQIIQ", 23, 0, 0, descriptor, 0, address_of(memory), 64, 0, 7) + bytes(24)
            queue[array_at : array_at + 4] = bytes(4)
            queue[tail : tail + 4] = struct.pack("<I", 1)
            kernel(426, ring, 1, 1, 1, None, 0)
            assert answers[head_of : head_of + 4] != answers[tail_of : tail_of + 4]
    finally:
        os.close(ring)


def spliced(path: bytes) -> None:
    reader, writer = os.pipe()
    os.write(writer, b"by splice")
    os.close(writer)
    with opened(path) as descriptor:
        os.splice(reader, descriptor, 9)
    os.close(reader)


def vmspliced(path: bytes) -> None:
    reader, writer = os.pipe()
    memory = page(b"page")
    done(LIBC.vmsplice(writer, struct.pack("<QQ", address_of(memory), 64), 1, 0))
    with opened(path) as descriptor:
        os.splice(reader, descriptor, 64)
    os.close(reader)
    os.close(writer)


def into_a_mapping(path: bytes) -> None:
    """The disk writes into the mapped page: no store of any processor."""
    with open(path + b".source", "wb") as file:
        file.write(b"direct!!" * (mmap.PAGESIZE // 8))
    with opened(path + b".source", os.O_RDONLY | os.O_DIRECT) as source, mapped(path) as mapping:
        memory = (ctypes.c_char * mmap.PAGESIZE).from_address(mapping.address)
        assert os.preadv(source, [memory], 0) == mmap.PAGESIZE


def by_memory_of_a_process(path: bytes) -> None:
    with mapped(path) as mapping, opened(b"/proc/self/mem") as memory:
        os.pwrite(memory, b"by mem", mapping.address)


def by_vm_writev(path: bytes) -> None:
    source = ctypes.create_string_buffer(b"by writev")
    with mapped(path) as mapping:
        here = struct.pack("<QQ", ctypes.addressof(source), 9)
        there = struct.pack("<QQ", mapping.address, 9)
        kernel(311, os.getpid(), here, ctypes.c_ulong(1), there, ctypes.c_ulong(1), ctypes.c_ulong(0))


def by_handle(path: bytes) -> None:
    """As an NFS server writes: by a handle, without a name."""
    handle, number = ctypes.create_string_buffer(struct.pack("<Ii", 128, 0) + bytes(128)), ctypes.c_int()
    done(LIBC.name_to_handle_at(-100, path, handle, ctypes.byref(number), 0))
    with opened(os.path.dirname(path), os.O_RDONLY) as directory:
        descriptor = done(LIBC.open_by_handle_at(directory, handle, os.O_WRONLY))
    os.pwrite(descriptor, b"by handle", 0)
    os.close(descriptor)


@contextlib.contextmanager
def looped(path: bytes) -> Iterator[str]:
    """A block device over the file."""
    told = subprocess.run(["losetup", "-f", "--show", path], capture_output=True, text=True, check=True)
    device = told.stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "-d", device], check=True)


def by_device(device: str, content: bytes) -> None:
    descriptor = os.open(device, os.O_WRONLY)
    os.pwrite(descriptor, content * (512 // len(content)), 0)
    os.fsync(descriptor)
    os.close(descriptor)


def leased_for_writing(descriptor: int) -> bool:
    """Takes a lease for writing; false where anybody else has the file open at this moment."""
    try:
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
    except BlockingIOError:
        return False
    return True


class Stalled:
    """A `pwrite` that moved the times and waits for the page that it writes from (userfaultfd)."""

    def __init__(self, descriptor: int) -> None:
        self._faults = kernel(323, os.O_CLOEXEC | os.O_NONBLOCK)
        fcntl.ioctl(self._faults, 0xC018AA3F, bytearray(struct.pack("<QQQ", 0xAA, 0, 0)))
        self._memory = mmap.mmap(-1, mmap.PAGESIZE)
        self._address = address_of(self._memory)
        register = struct.pack("<QQQQ", self._address, mmap.PAGESIZE, 1, 0)
        fcntl.ioctl(self._faults, 0xC020AA00, bytearray(register))
        write = [descriptor, ctypes.c_void_p(self._address), ctypes.c_size_t(9), ctypes.c_long(0)]
        self._thread = threading.Thread(target=lambda: LIBC.pwrite(*write), daemon=True)
        self._thread.start()
        assert select.select([self._faults], [], [], 60)[0], "it never came to the page"

    def goes_on(self, content: bytes) -> None:
        """The page is there, and the call ends."""
        source = page(content)
        fill = struct.pack("<QQQQq", self._address, address_of(source), mmap.PAGESIZE, 0, 0)
        fcntl.ioctl(self._faults, 0xC028AA03, bytearray(fill))
        self._thread.join()
        os.close(self._faults)


class Child:
    """A process that holds a mapping of the file, its own or one that it got from who forked it, and stores when told.

    `prefix` starts it elsewhere, as `unshare` does.
    """

    def __init__(self, path: bytes, *prefix: str, forked: bool = False) -> None:
        here = os.path.dirname(os.path.abspath(__file__))
        program = (
            f"import os, sys; sys.path[:0] = [{here!r}]; import writing_ways as w\n"
            f"m = w.Mapping({path!r})\n"
            f"if {forked} and os.fork(): os.wait(); os._exit(0)\n"
            "m.store(b'a'); print(flush=True); input(); m.store(b'child'); print(flush=True); input()"
        )
        command = [*prefix, sys.executable, "-c", program]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._told()

    def _told(self) -> None:
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == b"\n"

    def store(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        self._process.stdin.flush()
        self._told()

    def is_killed(self) -> None:
        """Waits for the end of its pipe, as who did not start it would."""
        self._process.kill()
        assert self._process.stdout is not None
        assert self._process.stdout.read() == b""

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._process.communicate(b"\n")


def sent(descriptor: int) -> Callable[[], int]:
    """Closes a descriptor that is in flight in a socket; gives what takes it out."""
    one, other = socket.socketpair()
    socket.send_fds(one, [b"x"], array.array("i", [descriptor]))
    os.close(descriptor)

    def take() -> int:
        _, (received,), _, _ = socket.recv_fds(other, 1, 1)
        one.close()
        other.close()
        return received

    return take
