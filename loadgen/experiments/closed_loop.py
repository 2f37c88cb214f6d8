"""Closed-loop load: each connection asks for its page again as soon as it has it. Prints the results as JSON.

Bodies are discarded in the kernel (``MSG_TRUNC``, Linux), so that one processor is enough to keep a server busy.

    python -m loadgen.experiments.closed_loop HOST PORT SECONDS PATH:CONNECTIONS...
"""

from __future__ import annotations

import re
import select
import socket
import sys
import time

import msgspec

SLOT_S = 0.5
HEAD_MAX = 4096
PIECE = 4 << 20
LISTENS_S = 30.0

_LENGTH = re.compile(rb"(?i)\r\nContent-Length: *(\d+)")
_DISCARDED = bytearray(PIECE)  # the kernel writes nothing into it


class ClassResult(msgspec.Struct):
    """Responses to the requests of one class. ``sizes``: bytes of bodies that were complete in each slot of SLOT_S."""

    path: str
    connections: int
    sizes: list[int]
    served: int = 0
    others: int = 0  # responses with another status than 200


class _LoopClient:
    """One client."""

    def __init__(self, host: str, port: int, result: ClassResult) -> None:
        self.result = result
        self.request = f"GET {result.path} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
        self.socket = socket.create_connection((host, port), LISTENS_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self._head_len = self._size = self._left = 0
        self._is_served = False

    def ask(self) -> None:
        self.socket.sendall(self.request)

    def read(self, slot: int) -> None:
        """Read the available bytes; after the end of a response, send the next request."""
        try:
            while True:
                if not self._left:
                    self._read_head()
                else:
                    got = self.socket.recv_into(_DISCARDED, min(self._left, PIECE), socket.MSG_TRUNC)
                    if not got:
                        raise ConnectionError("the server closed a connection")
                    self._left -= got
                if not self._left:
                    self._count(slot)
                    self.ask()
        except BlockingIOError:
            return

    def _read_head(self) -> None:
        head = self.socket.recv(HEAD_MAX)
        if head[9:12] != b"200" or head[self._head_len - 4 : self._head_len] != b"\r\n\r\n":  # not like the last one
            end, length = head.find(b"\r\n\r\n"), _LENGTH.search(head)
            if end < 0 or length is None:
                raise ConnectionError("the server closed a connection, or sent a head that is not understood")
            self._head_len, self._size = end + 4, int(length[1])
        self._is_served = head[9:12] == b"200"
        self._left = self._size - (len(head) - self._head_len)

    def _count(self, slot: int) -> None:
        result = self.result
        if not self._is_served:
            result.others += 1
            return
        result.served += 1
        if slot < len(result.sizes):
            result.sizes[slot] += self._size


def run(host: str, port: int, seconds: float, classes: list[ClassResult]) -> None:
    """Run the load; adds to the results of the classes."""
    _await_server(host, port)
    connections = [_LoopClient(host, port, one) for one in classes for _ in range(one.connections)]
    by_descriptor = {connection.socket.fileno(): connection for connection in connections}
    poll = select.epoll()
    for descriptor in by_descriptor:
        poll.register(descriptor, select.EPOLLIN)
    began = time.monotonic()
    for one in connections:
        one.ask()
    while (now := time.monotonic()) < began + seconds:
        slot = int((now - began) / SLOT_S)
        for descriptor, _ in poll.poll(0.1):
            by_descriptor[descriptor].read(slot)
    for one in connections:
        one.socket.close()


def _await_server(host: str, port: int) -> None:
    until = time.monotonic() + LISTENS_S
    while True:
        try:
            socket.create_connection((host, port), 1.0).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


def main(words: list[str]) -> int:
    host, port, seconds, *classes = words
    results = []
    for text in classes:
        path, _, count = text.rpartition(":")
        results.append(ClassResult(path, int(count), [0] * int(float(seconds) / SLOT_S)))
    run(host, int(port), float(seconds), results)
    print(msgspec.json.encode(results).decode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
