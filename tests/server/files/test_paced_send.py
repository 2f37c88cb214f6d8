"""Schedule of a paced response, at simulated times, on a real transport with small buffers."""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from itertools import pairwise
from time import perf_counter

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from qosweb.server.files.pacing import EARLY_S, SLICE_S, PacedSend, SendPacer

RATE = 1_000_000
SLICE = int(RATE * SLICE_S)


class Pair:
    """A socket pair: the server's transport, and the client's received bytes."""

    async def __aenter__(self) -> Pair:
        self.client, server = socket.socketpair()
        self.client.setblocking(False)
        server.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        loop = asyncio.get_running_loop()
        self.transport, _ = await loop.create_connection(asyncio.Protocol, sock=server)
        self.ended: list[bool] = []
        return self

    async def __aexit__(self, *_: object) -> None:
        self.transport.abort()
        self.client.close()
        await asyncio.sleep(0)

    def send(self, pacer: SendPacer, body: bytes, *, fixed_bytes: int = 0, rate_bps: int = RATE) -> PacedSend:
        return PacedSend(
            pacer, self.transport, b"head", (body,), self.ended.append, rate_bps=rate_bps, fixed_bytes=fixed_bytes
        )

    async def drain(self) -> bytes:
        """Read everything until the transport's buffer is empty."""
        loop = asyncio.get_running_loop()
        got = b""
        while self.transport.get_write_buffer_size():
            got += await loop.sock_recv(self.client, 1 << 16)
        return got


@given(
    st.integers(0, 100_000),
    st.integers(0, 3000),
    st.lists(st.floats(0.0005, 0.05), max_size=20),
)
def test_exactly_the_due_bytes_are_sent(size: int, fixed: int, pauses: list[float]) -> None:
    async def run() -> None:
        async with Pair() as pair:
            send = pair.send(SendPacer(asyncio.get_running_loop()), bytes(size), fixed_bytes=fixed)
            began = send.until - (fixed + size) / RATE
            now = began
            for pause in pauses:
                now += pause
                again = send.pump(now)
                due = (now - began) * RATE - fixed
                assert send.sent <= 4 + max(0, min(size, due + RATE * 0.001))
                assert send.sent >= (4 + min(size, due - 1) if due >= 0 else 0)
                assert (again is None) == bool(pair.ended)
                if again is None:
                    assert send.sent == 4 + size
                    return
                assert now + 2 * EARLY_S <= again <= now + SLICE_S + 2.1 * EARLY_S
                await pair.drain()
            send.close()

    uvloop.run(run())


def test_a_slow_client_gets_one_slice_at_once_not_all_missed_bytes() -> None:
    async def run() -> None:
        async with Pair() as pair:
            send = pair.send(SendPacer(asyncio.get_running_loop()), bytes(1 << 20))
            now = send.until - (1 << 20) / RATE
            while not pair.transport.get_write_buffer_size():
                now += SLICE_S
                send.pump(now)
            sent = send.sent
            for _ in range(100):  # a second
                now += SLICE_S
                send.pump(now)
            assert send.sent == sent
            await pair.drain()
            amounts = [sent]
            for _ in range(5):
                now += SLICE_S
                send.pump(now)
                await pair.drain()
                amounts.append(send.sent)
            steps = [after - before for before, after in pairwise(amounts)]
            assert steps[0] <= 2 * SLICE + RATE // 1000
            assert all(abs(step - SLICE) <= 2 for step in steps[1:])
            send.close()

    uvloop.run(run())


def test_the_timer_alone_brings_answers_to_their_end_each_when_it_is_due() -> None:
    async def run() -> None:
        loop = asyncio.get_running_loop()
        pacer = SendPacer(loop)
        ended: dict[int, float] = {}
        async with Pair() as pair:
            sends = {}

            def note(number: int, complete: bool) -> None:
                assert complete
                ended[number] = perf_counter()

            for number in range(20):
                sends[number] = PacedSend(
                    pacer,
                    pair.transport,
                    b"head",
                    (b"",),
                    partial(note, number),
                    rate_bps=RATE,
                    fixed_bytes=3000 * (number + 1),
                )
                sends[number].start()
            assert len(pacer) == 20
            sends[7].close()
            assert len(pacer) == 19
            async with asyncio.timeout(20):
                while len(ended) < 19:
                    await pair.drain()
                    await asyncio.sleep(0.001)
            assert all(at >= sends[number].until - 0.001 for number, at in ended.items())
            assert 7 not in ended
            assert len(pacer) == 0

    uvloop.run(run())


def test_a_channel_that_became_free_a_moment_ago_is_taken_from_then() -> None:
    async def run() -> None:
        async with Pair() as pair:
            pacer, now = SendPacer(asyncio.get_running_loop()), perf_counter()
            after = PacedSend(
                pacer, pair.transport, b"", (bytes(1000),), pair.ended.append, rate_bps=RATE, since=now - 0.001
            )
            assert after.until == pytest.approx(now, abs=1e-9)
            long_ago = PacedSend(
                pacer, pair.transport, b"", (bytes(1000),), pair.ended.append, rate_bps=RATE, since=now - 60
            )
            assert long_ago.until >= now - SLICE_S

    uvloop.run(run())


@pytest.mark.parametrize(("rate", "fixed"), [(0, 0), (-1, 0), (1, -1)])
def test_an_invalid_channel_is_refused(rate: int, fixed: int) -> None:
    async def run() -> None:
        async with Pair() as pair:
            with pytest.raises(ValueError, match="invalid channel"):
                pair.send(SendPacer(asyncio.get_running_loop()), b"", rate_bps=rate, fixed_bytes=fixed)

    uvloop.run(run())
