"""Misbehaving upstream servers: they read a request head and hand the socket to a script of the test."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from random import SystemRandom
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable

    Script = Callable[["Talk"], None]

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Talk:
    """One connection after the head of a request was read. ``number`` counts the server's requests from 1."""

    def __init__(self, sock: socket.socket, stopping: threading.Event) -> None:
        self.sock = sock
        self.stopping = stopping
        self.number = 0
        self.head = b""
        self.rest = b""  # bytes after the head that were not read yet

    def read(self, size: int) -> bytes:
        """Read ``size`` bytes after the head."""
        while len(self.rest) < size:
            data = self.sock.recv(65536)
            if not data:
                raise ConnectionResetError("the client ended in the middle")
            self.rest += data
        taken, self.rest = self.rest[:size], self.rest[size:]
        return taken

    def read_chunked(self) -> bytes:
        """Read a chunked body, strictly."""
        body = b""
        while True:
            line = b""
            while not line.endswith(b"\r\n"):
                line += self.read(1)
            size = int(line, 16)
            body += self.read(size)
            assert self.read(2) == b"\r\n"
            if not size:
                return body

    def field(self, name: str) -> str | None:
        """The single field of that name."""
        lines = [line.decode("latin-1").partition(":") for line in self.head.split(b"\r\n")[1:]]
        found = [value.strip() for field, _, value in lines if field.lower() == name.lower()]
        assert len(found) <= 1, f"repeated field {name}"
        return found[0] if found else None

    @property
    def path(self) -> str:
        return self.head.split(b" ")[1].decode()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def hang(self) -> None:
        """Send nothing more until the end of the test."""
        self.stopping.wait(60)

    def pause(self, seconds: float) -> None:
        self.stopping.wait(seconds)

    def reset(self) -> None:
        """Close with a TCP reset."""
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()

    def close(self) -> None:
        self.sock.close()


class MisbehavingServer:
    """Runs ``script`` for every request; a script that returns without closing keeps the connection."""

    def __init__(self, script: Script, port: int = 0, *, tls: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1000)
        self.port: int = self._listener.getsockname()[1]
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []
        self._busy: set[socket.socket] = set()
        self._draining = False
        self.requests = 0
        self.connections = 0
        self.heads: list[bytes] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> MisbehavingServer:
        return self

    def __exit__(self, *_: object) -> None:
        if self._stopping.is_set():
            return
        self._stopping.set()
        with contextlib.suppress(OSError):  # drained
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            for sock in self._sockets:
                with contextlib.suppress(OSError):  # it wakes the thread that reads; close alone does not
                    sock.shutdown(socket.SHUT_RDWR)
                sock.close()

    def drain(self) -> None:
        """Stop as a good server does: close idle connections, finish the requests, then exit."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._draining = True
        with self._lock:
            for sock in self._sockets:
                if sock not in self._busy:
                    with contextlib.suppress(OSError):
                        sock.shutdown(socket.SHUT_RDWR)
        while self._busy:
            self._stopping.wait(0.01)
        self.__exit__()

    @property
    def url(self) -> str:
        return f"{'http' if self._tls is None else 'https'}://127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self._sockets.append(sock)
                self.connections += 1
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        buffer = b""
        with contextlib.suppress(OSError):
            if self._tls is not None:
                sock = self._tls.wrap_socket(sock, server_side=True)
                with self._lock:
                    self._sockets.append(sock)
            talk = Talk(sock, self._stopping)
            while True:
                while b"\r\n\r\n" not in buffer:
                    data = sock.recv(65536)
                    if not data:
                        return
                    buffer += data
                talk.head, _, talk.rest = buffer.partition(b"\r\n\r\n")
                with self._lock:
                    self.requests += 1
                    talk.number = self.requests
                    self.heads.append(talk.head)
                    self._busy.add(sock)
                try:
                    self._script(talk)
                finally:
                    with self._lock:
                        self._busy.discard(sock)
                if self._draining:
                    sock.close()
                buffer = talk.rest


def free_port() -> int:
    """An unused port outside the ephemeral range, which normally begins at 32768."""
    while True:
        port = SystemRandom().randrange(20_000, 32_000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
