"""An exchange that another server answers: the one behind ``--upstream``, or a node of the cluster.

Both messages are streamed, with bounded buffers in both directions: the body of the request is read from the client as
fast as the server takes it, the answer from the server as fast as the client, or its channel, takes it. What goes out
is written anew from what was parsed; nothing is copied from one wire to the other. An answer that ends too early
is broken off, so that the client sees that it is incomplete. When the client goes away, so does the request.

A task for each such exchange: it waits for two peers. The connection owns it, keeps the time limits of the client, and
cancels it. Neighbours: ``qosweb.server.proxy.upstream`` has the connections, ``qosweb.http.hops`` the fields.
"""

from __future__ import annotations

import asyncio
import contextlib
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

import aiohttp
from aiohttp.http import HttpVersion11

from qosweb.http.hops import is_forwarding_loop, request_fields, response_fields
from qosweb.server.files.pacing import SLICE_S
from qosweb.server.proxy.request_body import CONTINUE, RequestBody
from qosweb.server.proxy.upstream import Unanswered
from qosweb.server.request.answers import CLOSE, KEEP_ALIVE, NO_CONNECTION_LINE, Answer, explain, status_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.request.exchange import Exchange

PIECE_MIN = 1 << 10  # of a paced answer
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)


class ForwardTarget(NamedTuple):
    """Where an exchange is answered instead of here."""

    origin: str  # http://host:port
    target: str
    peer: str = ""  # its name, if it is a node of the cluster


class Relay:
    """One exchange on its way. Calls ``end`` exactly once, unless it is cancelled before.

    ``end(answer)``: nothing was sent yet, and this is to be. ``end(None)``: ``status`` and ``sent`` say what was;
    ``is_complete`` whether it was all, ``closes`` whether the connection ends with it.
    """

    def __init__(
        self,
        hub: ConnectionContext,
        exchange: Exchange,
        place: ForwardTarget,
        transport: asyncio.Transport,
        intake: RequestBody | None,
        is_paused: Callable[[], bool],
        end: Callable[[Answer | None], None],
    ) -> None:
        self.place = place
        self.status = 499  # nothing was answered yet
        self.sent = 0  # of the body
        self.is_complete = False
        self.closes = False
        self.intake = intake
        self._hub = hub
        self._exchange = exchange
        self._transport = transport
        self._is_paused = is_paused
        self._end = end
        self._drained: asyncio.Future[None] | None = None
        self._chunked = False
        permit = exchange.permit
        self._rate_bps = None if permit is None else permit.rate_bps
        self._fixed_bytes = 0 if permit is None else permit.fixed_bytes
        since = None if permit is None else permit.channel_since
        now = perf_counter()
        self._from = now if since is None else max(since, now - SLICE_S)
        if intake is not None and exchange.expects_continue:
            transport.write(CONTINUE)
        self._task = hub.loop.create_task(self._run(), name="relay")

    def cancel(self) -> None:
        self._task.cancel()

    def resumed(self) -> None:
        """The client takes more."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def client_ended(self) -> bool:
        """It will send no more. Whether it is to be told anything: most often it is gone, and the other server works
        for nothing; but one that ended in the middle of its body is told."""
        if self.intake is None or self.intake.is_complete:
            return False
        self.intake.break_off("it ended too early")
        return True

    def check_time(self, now: float, timeout_s: float) -> Answer | None:
        """End a body that does not move. (The answer's time is kept by the connection to the other server.)"""
        intake = self.intake
        if intake is None or intake.is_complete:
            return None
        if intake.waits_for_client:
            if now - intake.active_at > timeout_s:
                intake.break_off("it did not arrive in time")
        elif now - intake.taken_at > timeout_s:
            return explain(504, "The server behind this one did not take the body in time.", must_close=True)
        return None

    async def _run(self) -> None:
        answer: Answer | None = None
        try:
            with contextlib.suppress(*_BROKEN):  # in the middle of an answer
                answer = await self._answer_in_turn()
            if self._rate_bps is not None:
                self._exchange.channel_until = self._due(0)
            self._end(answer)
        except Exception as error:  # a fault of ours must not cost more than this connection
            self._hub.report_fault(error)
            self._transport.abort()

    async def _answer_in_turn(self) -> Answer | None:
        """One client has only some of the connections: its other requests wait for one of them."""
        turns, client = self._hub.upstreams.turns, self._exchange.client
        try:
            await turns.take(client)
        except TimeoutError:
            reason = "Too many requests from your address wait for the server behind this one."
            return explain(429, reason, [("Retry-After", "1")])
        try:
            return await self._answer()
        finally:
            turns.give_back(client)

    async def _answer(self) -> Answer | None:
        exchange, hub = self._exchange, self._hub
        message = exchange.message
        fields = [(str(name), value) for name, value in message.headers.items()]
        if is_forwarding_loop(fields, hub.name):
            return explain(508, f"The request has been at {hub.name} before: the servers pass it on in a circle.")
        outgoing = request_fields(
            fields,
            host=exchange.host or self.place.origin.partition("//")[2],
            client=exchange.client,
            proto="https" if hub.site.is_secure else "http",
            me=hub.name,
            version=f"{message.version.major}.{message.version.minor}",
        )
        if self.intake is not None and not message.chunked:
            outgoing.append(("Content-Length", str(int(message.headers["Content-Length"]))))
        body = None if self.intake is None else self.intake.parts(perf_counter)
        try:
            response = await hub.upstreams.ask(self.place.origin, message.method, self.place.target, outgoing, body)
        except Unanswered as failed:
            if self.intake is not None and self.intake.broken is not None:
                return explain(400, f"The body is malformed: {self.intake.broken}.", must_close=True)
            if self.place.peer:
                lost = f"It was for {self.place.peer}, which had room for it and cannot be reached any more."
                return explain(503, lost, [("Retry-After", "1")])
            return explain(failed.status, failed.reason, [("Retry-After", "1")] if failed.status == 503 else ())
        try:
            return await self._pass_back(response)
        finally:
            if self.is_complete and (self.intake is None or self.intake.is_complete):
                response.release()
            else:
                response.close()

    async def _pass_back(self, response: aiohttp.ClientResponse) -> Answer | None:
        exchange = self._exchange
        coding = ", ".join(response.headers.getall("Transfer-Encoding", [])).strip().lower()
        if response.status < 200 or coding not in ("", "chunked"):
            return explain(502, "The server behind this one answered in a way that cannot be passed on.")
        fields = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in response.raw_headers]
        self._note_links([value for name, value in fields if name.lower() == "link"])
        has_body = not exchange.is_head and response.status not in (204, 304)
        length = None if coding else response.content_length
        await self._wait_until(self._due(0))
        head = self._head(response, fields, length, has_body=has_body)
        self.status = response.status
        self._transport.write(head)
        if has_body:
            while data := await response.content.readany():
                await self._write(data)
            if self._chunked:
                self._transport.write(b"0\r\n\r\n")
        self.is_complete = not has_body or length is None or self.sent == length
        return None

    def _head(
        self, response: aiohttp.ClientResponse, fields: list[tuple[str, str]], length: int | None, *, has_body: bool
    ) -> bytes:
        exchange, hub = self._exchange, self._hub
        message = exchange.message
        version = response.version
        fields = response_fields(
            fields, me=hub.name, version="1.1" if version is None else f"{version.major}.{version.minor}"
        )
        if length is not None and (has_body or length or exchange.is_head):
            fields.append(("Content-Length", str(length)))
        elif has_body and message.version == HttpVersion11:
            self._chunked = True
            fields.append(("Transfer-Encoding", "chunked"))
        elif has_body:
            self.closes = True  # its end is where the connection ends
        self.closes |= message.should_close or message.upgrade or hub.connections.draining
        self.closes |= self.intake is not None and not self.intake.is_complete
        stays = KEEP_ALIVE if exchange.wants_keep_alive_line else NO_CONNECTION_LINE
        dated = any(name.lower() == "date" for name, _ in fields)
        return b"".join(
            (
                status_line(response.status),
                *(f"{name}: {value}\r\n".encode("latin-1") for name, value in fields),
                b"" if self.place.peer else hub.site.account_of(exchange).header_line,  # a node has said it
                b"" if dated else hub.site.clock.date_line,
                CLOSE if self.closes else stays,
                b"\r\n",
            )
        )

    async def _write(self, data: bytes) -> None:
        """Hand over, at the pace of the channel, and wait until the client has taken enough of it."""
        rate = self._rate_bps
        size = len(data) if rate is None else max(PIECE_MIN, int(rate * SLICE_S))
        for at in range(0, len(data), size):
            piece = data[at : at + size]
            if rate is not None:
                now = perf_counter()
                self._from = max(self._from, now - SLICE_S - (self._due(len(piece)) - self._from))  # no catching up
                await self._wait_until(self._due(len(piece)))
            if self._chunked:
                self._transport.writelines((b"%x\r\n" % len(piece), piece, b"\r\n"))
            else:
                self._transport.write(piece)
            self.sent += len(piece)
            while self._is_paused():
                self._drained = self._hub.loop.create_future()
                await self._drained

    def _due(self, more: int) -> float:
        """When ``more`` bytes beyond those sent may leave."""
        rate = self._rate_bps
        return self._from if rate is None else self._from + (self._fixed_bytes + self.sent + more) / rate

    async def _wait_until(self, at: float) -> None:
        wait_s = at - perf_counter()
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def _note_links(self, values: list[str]) -> None:
        exchange = self._exchange
        if values and exchange.target is not None:
            self._hub.site.admission.accounts.classifier.note_links(exchange.host, exchange.target.path, values)
