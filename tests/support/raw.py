"""Raw HTTP client: sends exactly the given bytes and reads responses strictly as RFC 9112 frames them."""

from __future__ import annotations

import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ssl


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]  # names in lower case
    body: bytes
    raw_head: bytes


class Closed(Exception):
    """The server closed the connection before a complete response."""


class RawConnection:
    def __init__(
        self,
        port: int,
        host: str = "127.0.0.1",
        *,
        timeout_s: float = 60.0,
        tls: ssl.SSLContext | None = None,
        source: str | None = None,
    ):
        """``source`` is the address to connect from, such as 127.0.0.2."""
        from_address = None if source is None else (source, 0)
        self.sock: socket.socket = socket.create_connection((host, port), timeout_s, from_address)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self.sock = tls.wrap_socket(self.sock, server_hostname="localhost")
        self._buffer = b""

    def __enter__(self) -> RawConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def half_close(self) -> None:
        self.sock.shutdown(socket.SHUT_WR)

    def get(self, target: str, *fields: str, method: str = "GET") -> Reply:
        """Send one request with Host and the given field lines; returns the response."""
        lines = [f"{method} {target} HTTP/1.1", "Host: localhost", *fields]
        self.send("".join(f"{line}\r\n" for line in [*lines, ""]).encode("latin-1"))
        return self.read_reply(head_only=method == "HEAD")

    def read_reply(self, *, head_only: bool = False) -> Reply:
        head = self._read_until(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        version, status, *_ = lines[0].split(" ")
        assert version == "HTTP/1.1", lines[0]
        headers: dict[str, str] = {}
        for line in lines[1:-2]:
            name, _, value = line.partition(":")
            assert name.lower() not in headers, f"repeated field {name}"
            headers[name.lower()] = value.strip()
        body = b""
        if not head_only and int(status) not in (204, 304):
            body = self._read_exactly(int(headers["content-length"]))
        return Reply(int(status), headers, body, head)

    def read_to_end(self) -> bytes:
        """Everything until the server closes (or resets)."""
        parts = [self._buffer]
        self._buffer = b""
        while True:
            try:
                part = self.sock.recv(65536)
            except (ConnectionResetError, BrokenPipeError):
                break
            if not part:
                break
            parts.append(part)
        return b"".join(parts)

    def is_closed(self) -> bool:
        """Whether the server closes now; waits for it at most the socket's timeout."""
        try:
            return not self._buffer and self.sock.recv(1) == b""
        except ConnectionResetError:
            return True

    def _read_until(self, mark: bytes) -> bytes:
        while mark not in self._buffer:
            self._fill()
        end = self._buffer.index(mark) + len(mark)
        found, self._buffer = self._buffer[:end], self._buffer[end:]
        return found

    def _read_exactly(self, size: int) -> bytes:
        parts = [self._buffer[:size]]
        have = len(parts[0])
        self._buffer = self._buffer[size:]
        while have < size:
            part = self._recv(min(1 << 20, size - have))
            parts.append(part)
            have += len(part)
        return b"".join(parts)

    def _fill(self) -> None:
        self._buffer += self._recv(65536)

    def _recv(self, size: int) -> bytes:
        try:
            part = self.sock.recv(size)
        except ConnectionResetError:
            part = b""
        if not part:
            raise Closed(self._buffer)
        return part
