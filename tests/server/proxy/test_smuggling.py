"""Request smuggling: whatever a client sends, the server behind gets only requests that nobody can read differently.

A recording server reads strictly. Each client connects from an address of its own, which the node tells the server; so
every request there is compared with what a second, strict reading finds in the bytes of its client.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
from typing import TYPE_CHECKING

import pytest

from tests.server.connection.probes import FIELDS, HOSTS, REQUEST_LINES
from tests.server.connection.probes_accepted import ACCEPTED
from tests.server.connection.probes_framing import BODIES, CHUNKS, FRAMING, PIPELINES
from tests.support.nodes import RunningNode
from tests.support.strict_http import Ambiguous, StrictRequest, read_all, read_request

if TYPE_CHECKING:
    from pathlib import Path

MUTATED = 20_000
AT_ONCE = 100
TRIES = 3
SEED = 21
LIMITS = ("--header-timeout", "1s", "--idle-timeout", "1s", "--send-timeout", "1s")

FIRST = b"GET /first HTTP/1.1\r\nHost: h\r\n\r\n"
END = b"GET /end HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: h\r\n\r\n"
BASES = (
    b"GET /a?b=c HTTP/1.1\r\nHost: h\r\nX-A: b\r\n\r\n",
    b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: %d\r\n\r\n%b" % (len(SMUGGLED), SMUGGLED),
    b"POST /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%b\r\n0\r\n\r\n"
    % (len(SMUGGLED), SMUGGLED),
    b"PUT /a HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nX-T: 1\r\n\r\n" + SMUGGLED,
    b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + SMUGGLED,
    b"GET /a HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Content-Length\r\nContent-Length: 3\r\n\r\nabc" + SMUGGLED,
)
SPICES = (
    b"\r", b"\n", b"\r\n", b"\0", b" ", b"\t", b":", b",", b";", b"0", b"1", b"-", b"+", b"\x0b", b"\x85", b"_",
    b"chunked", b"HTTP/1.0",
    b"Content-Length: 1\r\n", b"Transfer-Encoding: chunked\r\n", b"Transfer-Encoding: identity\r\n", b"\r\n ",
    b"\r\n\r\n", SMUGGLED, b"0\r\n\r\n", b"Content_Length: 9\r\n", b"Expect: 100-continue\r\n",
    b"Upgrade: websocket\r\n",
)  # fmt: skip


def mutated(dice: random.Random) -> bytes:
    data = bytearray(dice.choice(BASES))
    for _ in range(dice.choice((1, 1, 1, 2, 3))):
        at = dice.randrange(len(data))
        match dice.randrange(5):
            case 0:
                data[at : at + dice.randrange(1, 4)] = b""
            case 1:
                data[at] = dice.randrange(256)
            case 2:
                data[at:at] = data[at : at + dice.randrange(1, 30)]
            case _:
                data[at:at] = dice.choice(SPICES)
    return bytes(data)


class Recorder:
    """The server behind: reads strictly, records by client, responds."""

    def __init__(self) -> None:
        self.got: dict[str, list[StrictRequest]] = {}
        self.ambiguous: list[object] = []
        self.closed = asyncio.Event()  # no connection is open
        self._open = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        data = b""
        self._open += 1
        self.closed.clear()
        with contextlib.suppress(OSError):
            while more := await reader.read(65536):
                data += more
                try:
                    while data and (one := read_request(data)) is not None:
                        request, data = one
                        self._record(request)
                        empty = b"" if request.method == b"HEAD" else b"ok"
                        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n" + empty)
                except Ambiguous as found:
                    self.ambiguous.append(found)
                    break
        writer.close()
        self._open -= 1
        if not self._open:
            self.closed.set()

    def _record(self, request: StrictRequest) -> None:
        sources = [value.decode() for name, value in request.fields if name == b"x-forwarded-for"]
        assert len(sources) == 1, request
        self.got.setdefault(sources[0], []).append(request)


async def send(port: int, source: str, data: bytes) -> bytes:
    reader, writer, answer = await connect(port, source, FIRST if data.startswith(FIRST) else b"")
    with contextlib.suppress(OSError):
        writer.write(data.removeprefix(FIRST))
        while more := await reader.read(65536):
            answer += more
    writer.close()
    return answer


async def connect(port: int, source: str, first: bytes) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, bytes]:
    """Connect, and send `first`: the node has a shorter path for later requests. Returns its answer as well.

    The node closes connections that send nothing for a second. That can happen to this one while this process has no
    processor; then it connects again.
    """
    for attempt in range(TRIES):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        writer.write(first)
        try:
            return reader, writer, await reader.readuntil(b"\r\n\r\nok") if first else b""
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            writer.close()
            if attempt == TRIES - 1 or (isinstance(error, asyncio.IncompleteReadError) and error.partial):
                raise
    raise AssertionError


async def attack(folder: Path, requests: list[bytes]) -> tuple[Recorder, dict[str, bytes], list[bytes]]:
    """Send each of ``requests`` on its own connection, from its own address. Returns also all answers.

    On every other connection a good request comes first.
    """
    recorder, gate = Recorder(), asyncio.Semaphore(AT_ONCE)
    server = await asyncio.start_server(recorder.serve, "127.0.0.1", 0, backlog=1000)
    url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    node = await asyncio.to_thread(RunningNode, None, folder, "--upstream", url, *LIMITS)
    sources = {
        f"127.{1 + at // 62_500}.{at // 250 % 250}.{1 + at % 250}": FIRST * (at % 2) + data
        for at, data in enumerate(requests)
    }

    async def one(source: str, data: bytes) -> bytes:
        async with gate:
            return await send(node.port, source, data + END)

    with node:
        answers = await asyncio.gather(*(one(*item) for item in sources.items()))
        faults = [line for line in node.stderr if "internal error" in line]
    server.close()
    async with asyncio.timeout(60):
        await recorder.closed.wait()
    assert not faults
    return recorder, sources, answers


def origin_form(target: bytes) -> bytes:
    found = re.fullmatch(rb"(?i:https?)://[^/?]*(.*)", target)
    if found is None:
        return target
    return found[1] if found[1].startswith(b"/") else b"/" + found[1]


def judge(recorder: Recorder, sources: dict[str, bytes]) -> None:
    """Every request at the server is one that a strict reader finds in the bytes of its client, in this order."""
    assert not recorder.ambiguous
    for source, requests in recorder.got.items():
        allowed = iter([(one.method, origin_form(one.target), one.body) for one in read_all(sources[source] + END)])
        for request in requests:
            assert request[:3] in allowed, (source, request, sources[source])


@pytest.mark.long
def test_mutated_requests(tmp_path: Path) -> None:
    dice = random.Random(SEED)
    recorder, sources, answers = asyncio.run(attack(tmp_path, [mutated(dice) for _ in range(MUTATED)]))
    judge(recorder, sources)
    assert sum(len(requests) > 1 for requests in recorder.got.values()) > MUTATED // 10  # many pass
    assert sum(b"HTTP/1.1 400 " in answer for answer in answers) > MUTATED // 10  # and many are refused


def test_all_probes(tmp_path: Path) -> None:
    probes = [one.data for one in (*REQUEST_LINES, *HOSTS, *FIELDS, *FRAMING, *CHUNKS, *BODIES, *PIPELINES, *ACCEPTED)]
    recorder, sources, _ = asyncio.run(attack(tmp_path, [one for one in (*probes, *BASES) for _ in range(2)]))
    judge(recorder, sources)
    assert recorder.got
