"""Clients that put without end, each waiting for its answer before the next: the load of row 11, in its own process.

    putters.py SOCKET ROOT CLIENTS SECONDS

Each put has a new value and rests on one file. Prints `ready` when the first put is answered, then puts a second.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time


def main() -> None:
    """See the module. Ends with status 1 at the first error."""
    path, root = sys.argv[1:3]
    clients, seconds = int(sys.argv[3]), float(sys.argv[4])
    poll = select.epoll()
    socks: dict[int, tuple[socket.socket, bytes]] = {}
    for number in range(clients):
        sock = socket.socket(socket.AF_UNIX)
        sock.connect(path)
        poll.register(sock, select.EPOLLIN)
        params = {"key": f"put{number}", "deps": ["file:small"], "as_of": "put", "root": root, "value": 0}
        head = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "entry.put", "params": params}).encode()
        socks[sock.fileno()] = sock, head.removesuffix(b"0}}")
    for sock, head in socks.values():
        sock.sendall(b"%b%d}}\n" % (head, time.time_ns()))
    select.select([sock for sock, _ in socks.values()], [], [])
    print("ready", flush=True)
    count, start = 0, time.perf_counter()
    while (now := time.perf_counter()) - start < seconds:
        for fd, _ in poll.poll():
            sock, head = socks[fd]
            answer = sock.recv(65536)
            if b'"error"' in answer:
                sys.exit(f"a put was refused: {answer!r}")
            count += answer.count(b"\n")
            sock.sendall(b"%b%d}}\n" % (head, time.time_ns()))
    print(count / (now - start))


if __name__ == "__main__":
    main()
