"""etcd as a contender of ``./dev bench group``: three servers and a minimal gRPC client.

The client implements gRPC over HTTP/2 itself: `Put` only, constant headers, many requests on one connection. A general
client in Python would cost more than the servers do, and would dominate the figures.
RFC 9113 (frames, windows), RFC 7541 (literal headers), gRPC over HTTP/2.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import subprocess
import time
import urllib.request
from collections import deque
from struct import Struct
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DATA, HEADERS, RST_STREAM, SETTINGS, PING, GOAWAY, WINDOW_UPDATE = 0, 1, 3, 4, 6, 7, 8
END_STREAM, ACK, END_HEADERS = 1, 1, 4
HEAD = Struct(">BHBBI")  # length in three bytes, type, flags, stream
WORD = Struct(">I")
GRPC = Struct(">BI")
OUR_WINDOW = 1 << 30
KEYS = 1000
START_S = 20.0


def _frame(kind: int, flags: int, stream: int, body: bytes) -> bytes:
    return HEAD.pack(len(body) >> 16, len(body) & 0xFFFF, kind, flags, stream) + body


def _literal(name: bytes, value: bytes) -> bytes:
    """An HPACK literal header that is not added to a table."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


PUT_HEADERS = b"\x83\x86" + b"".join(  # POST, http
    _literal(*header)
    for header in (
        (b":path", b"/etcdserverpb.KV/Put"),
        (b":authority", b"etcd"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
    )
)


def _put_message(key: bytes, value: bytes) -> bytes:
    size = bytes([len(value)]) if len(value) < 128 else bytes([len(value) & 127 | 128, len(value) >> 7])
    message = b"\x0a" + bytes([len(key)]) + key + b"\x12" + size + value
    return GRPC.pack(0, len(message)) + message


class Client(asyncio.Protocol):
    """One connection: requests leave together at the end of a loop turn, as far as the server's window allows."""

    def __init__(self) -> None:
        self._held = b""
        self._stream = 1
        self._window = 65_535
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._ends: dict[int, Callable[[], None]] = {}
        self._answered: set[int] = set()
        self._due = False
        self._loop = asyncio.get_running_loop()
        self.refused = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        windows = b"\0\4" + WORD.pack(OUR_WINDOW)
        transport.write(
            b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
            + _frame(SETTINGS, 0, 0, windows)
            + _frame(WINDOW_UPDATE, 0, 0, WORD.pack(OUR_WINDOW))
        )

    def put(self, key: bytes, value: bytes, done: Callable[[], None]) -> None:
        stream, self._stream = self._stream, self._stream + 2
        self._ends[stream] = done
        self._waiting.append((stream, _put_message(key, value)))
        if not self._due:
            self._due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._due = False
        out: list[bytes] = []
        while self._waiting and len(self._waiting[0][1]) <= self._window:
            stream, message = self._waiting.popleft()
            self._window -= len(message)
            out += (_frame(HEADERS, END_HEADERS, stream, PUT_HEADERS), _frame(DATA, END_STREAM, stream, message))
        if out:
            self._transport.write(b"".join(out))

    def data_received(self, data: bytes) -> None:
        data = self._held + data if self._held else data
        at, end, credit = 0, len(data), 0
        while end - at >= HEAD.size:
            high, low, kind, flags, stream = HEAD.unpack_from(data, at)
            length = high << 16 | low
            if end - at - HEAD.size < length:
                break
            at += HEAD.size + length
            credit += length if kind == DATA else 0
            self._take(kind, flags, stream, data[at - length : at])
        self._held = data[at:]
        if credit:
            self._transport.write(_frame(WINDOW_UPDATE, 0, 0, WORD.pack(credit)))
        self._flush()

    def _take(self, kind: int, flags: int, stream: int, body: bytes) -> None:
        if kind == DATA:
            self._answered.add(stream)
        elif kind == WINDOW_UPDATE and stream == 0:
            self._window += WORD.unpack(body)[0]
        elif kind == SETTINGS and not flags & ACK:
            self._transport.write(_frame(SETTINGS, ACK, 0, b""))
        elif kind == PING and not flags & ACK:
            self._transport.write(_frame(PING, ACK, 0, body))
        elif kind == GOAWAY:
            raise RuntimeError(f"etcd closes the connection: {body[8:200]!r}")
        if kind == RST_STREAM or (kind in (DATA, HEADERS) and flags & END_STREAM):
            if stream not in self._answered:  # headers alone: an error
                self.refused += 1
                raise RuntimeError("etcd refused a Put")
            self._answered.discard(stream)
            self._ends.pop(stream)()


class Etcd:
    """The etcd client as a contender."""

    suspicions = 0
    address = ""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._count = 0

    @classmethod
    async def begin(cls, role: dict[str, Any]) -> Etcd:
        loop = asyncio.get_running_loop()
        _, client = await loop.create_connection(Client, "127.0.0.1", role["port"])
        return cls(client)

    async def whole(self, _count: int) -> None:
        end: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self.post(b"x", lambda: end.set_result(None))
        await end

    def post(self, body: bytes, done: Callable[[], None]) -> None:
        self._count += 1
        self._client.put(b"key%d" % (self._count % KEYS), body, done)


def missing() -> str:
    """Why etcd cannot be measured; empty if it can."""
    return "" if shutil.which("etcd") else "etcd is not installed (on Debian: apt-get install etcd-server)"


def free_ports(count: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports: list[int] = [each.getsockname()[1] for each in held]
    for each in held:
        each.close()
    return ports


class Servers:
    """Three servers on loopback, with their data below `folder`."""

    def __init__(self, folder: Path) -> None:
        peers, self.ports = free_ports(3), free_ports(3)
        everybody = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(peers))
        self.processes: list[subprocess.Popen[bytes]] = []
        self._log = (folder / "etcd.log").open("wb")
        for i, (peer, port) in enumerate(zip(peers, self.ports, strict=True)):
            own, clients = f"http://127.0.0.1:{peer}", f"http://127.0.0.1:{port}"
            self.processes.append(
                subprocess.Popen(
                    ["etcd", "--name", f"m{i}", "--data-dir", str(folder / f"m{i}"), "--log-level", "error",
                     "--listen-peer-urls", own, "--initial-advertise-peer-urls", own,
                     "--listen-client-urls", clients, "--advertise-client-urls", clients,
                     "--initial-cluster", everybody, "--initial-cluster-state", "new"],
                    stdout=self._log, stderr=subprocess.STDOUT,
                )
            )  # fmt: skip

    def leader(self) -> int:
        """The port of the leader, which saves a client a hop."""
        stop = time.monotonic() + START_S
        while time.monotonic() < stop:
            for port in self.ports:
                found = self._status(port)
                if found and found.get("leader") == found["header"]["member_id"]:
                    return port
            time.sleep(0.05)
        raise RuntimeError(f"etcd has no leader after {START_S:g} s")

    @staticmethod
    def _status(port: int) -> dict[str, Any]:
        request = urllib.request.Request(f"http://127.0.0.1:{port}/v3/maintenance/status", data=b"{}")
        try:
            with urllib.request.urlopen(request, timeout=1.0) as answer:
                found: dict[str, Any] = json.load(answer)
                return found
        except OSError:
            return {}

    def close(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()
        self._log.close()
