"""Relay: forwards one request to the upstream server or to another node, and streams its response back.

Request and response are streamed with bounded buffers: the request body is read from the client as fast as the server
takes it, the response from the server as fast as the client, or its channel, takes it. Both messages are serialised
anew from their parsed form; no head is copied as bytes. If the response ends too early, the connection to the client is
broken off, so that the client notices. If the client leaves, the request to the server is cancelled.

Each relay has a task, because it waits for two peers. The connection owns the relay, enforces the client's time limits,
and cancels it.
Neighbours: ``qosweb.server.proxy.upstream`` has the connections, ``qosweb.http.hops`` the header fields.
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

PIECE_MIN = 1 << 10  # of a paced response
QOS_FIELDS = ("qos-class", "qos-decision", "qos-scope")  # ours, not those of an upstream server
_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)


class ForwardTarget(NamedTuple):
    """The server that responds to a request instead of this node."""

    origin: str  # http://host:port
    target: str
    peer: str = ""  # the name of the node, if it is one of the cluster


class Relay:
    """Forwards one request. Calls ``end`` exactly once, unless it is cancelled before.

    ``end(answer)``: nothing was sent to the client yet; the connection is to send ``answer``. ``end(None)``: a response
    was sent. ``status`` and ``sent`` describe it, ``is_complete`` tells whether it is complete, and ``closes`` whether
    the connection has to close after it.
    """

    def __init__(
        self,
        context: ConnectionContext,
        exchange: Exchange,
        place: ForwardTarget,
        transport: asyncio.Transport,
        request_body: RequestBody | None,
        is_paused: Callable[[], bool],
        end: Callable[[Answer | None], None],
    ) -> None:
        self.place = place
        self.status = 499  # no response yet
        self.sent = 0  # bytes of the body
        self.is_complete = False
        self.closes = False
        self.request_body = request_body
        self._context = context
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
        if request_body is not None and exchange.expects_continue:
            transport.write(CONTINUE)
        self._task = context.loop.create_task(self._run(), name="relay")

    def cancel(self) -> None:
        self._task.cancel()

    def resumed(self) -> None:
        """The client takes more bytes."""
        if self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def client_ended(self) -> bool:
        """The client has closed its sending side. Returns whether it still gets a response.

        After a complete request it is most often gone, so the relay ends. A client that closed within its body gets an
        error.
        """
        if self.request_body is None or self.request_body.is_complete:
            return False
        self.request_body.break_off("it ended too early")
        return True

    def check_time(self, now: float, timeout_s: float) -> Answer | None:
        """Time out a stalled request body. (The connection to the other server has the response's time limit.)"""
        request_body = self.request_body
        if request_body is None or request_body.is_complete:
            return None
        if request_body.waits_for_client:
            if now - request_body.active_at > timeout_s:
                request_body.break_off("it did not arrive in time")
        elif now - request_body.taken_at > timeout_s:
            return explain(504, "The upstream server did not read the request body in time.", must_close=True)
        return None

    async def _run(self) -> None:
        answer: Answer | None = None
        try:
            with contextlib.suppress(*_BROKEN):  # in the middle of a response
                answer = await self._answer_in_turn()
            if self._rate_bps is not None:
                self._exchange.channel_until = self._due(0)
            self._end(answer)
        except Exception as error:  # a bug here must cost no more than this connection
            self._context.report_fault(error)
            self._transport.abort()

    async def _answer_in_turn(self) -> Answer | None:
        """Limit the upstream connections of one client: its other requests wait for one of them."""
        turns, client = self._context.upstreams.turns, self._exchange.client
        try:
            await turns.take(client)
        except TimeoutError:
            reason = "Too many requests from your address wait for the upstream server."
            return explain(429, reason, [("Retry-After", "1")])
        try:
            return await self._answer()
        finally:
            turns.give_back(client)

    async def _answer(self) -> Answer | None:
        exchange, context = self._exchange, self._context
        message = exchange.message
        fields = [(str(name), value) for name, value in message.headers.items()]
        if is_forwarding_loop(fields, context.name):
            return explain(508, f"Forwarding loop: the request has passed {context.name} before.")
        outgoing = request_fields(
            fields,
            host=exchange.host or self.place.origin.partition("//")[2],
            peer=exchange.proxy or exchange.client,
            is_trusted=bool(exchange.proxy),
            proto="https" if context.site.is_secure else "http",
            me=context.name,
            version=f"{message.version.major}.{message.version.minor}",
        )
        if self.request_body is not None and not message.chunked:
            outgoing.append(("Content-Length", str(int(message.headers["Content-Length"]))))
        body = None if self.request_body is None else self.request_body.parts(perf_counter)
        asked_at = perf_counter()
        try:
            response = await context.upstreams.request(
                self.place.origin, message.method, self.place.target, outgoing, body
            )
        except Unanswered as failed:
            if self.request_body is not None and self.request_body.broken is not None:
                return explain(400, f"The body is malformed: {self.request_body.broken}.", must_close=True)
            if self.place.peer:
                lost = f"The node {self.place.peer}, which was to serve this request, cannot be reached."
                return explain(503, lost, [("Retry-After", "1")])
            return explain(failed.status, failed.reason, [("Retry-After", "1")] if failed.status == 503 else ())
        finally:
            exchange.upstream_s = perf_counter() - asked_at
        try:
            return await self._pass_back(response)
        finally:
            if self.is_complete and (self.request_body is None or self.request_body.is_complete):
                response.release()
            else:
                response.close()

    async def _pass_back(self, response: aiohttp.ClientResponse) -> Answer | None:
        exchange = self._exchange
        coding = ", ".join(response.headers.getall("Transfer-Encoding", [])).strip().lower()
        if response.status < 200 or coding not in ("", "chunked"):
            return explain(502, "The upstream server sent a response that cannot be forwarded.")
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
        exchange, context = self._exchange, self._context
        message = exchange.message
        version = response.version
        fields = response_fields(
            fields, me=context.name, version="1.1" if version is None else f"{version.major}.{version.minor}"
        )
        if length is not None and (has_body or length or exchange.is_head):
            fields.append(("Content-Length", str(length)))
        elif has_body and message.version == HttpVersion11:
            self._chunked = True
            fields.append(("Transfer-Encoding", "chunked"))
        elif has_body:
            self.closes = True  # the end of the connection marks the end of the body
        self.closes |= message.should_close or message.upgrade or context.connections.draining
        self.closes |= self.request_body is not None and not self.request_body.is_complete
        stays = KEEP_ALIVE if exchange.wants_keep_alive_line else NO_CONNECTION_LINE
        dated = any(name.lower() == "date" for name, _ in fields)
        class_line = b""  # a node of the cluster has said it
        if not self.place.peer:
            account = context.site.account_of(exchange)
            class_line = account.failed_line if response.status >= 500 else account.served_line
        if class_line:
            fields = [(name, value) for name, value in fields if name.lower() not in QOS_FIELDS]
        return b"".join(
            (
                status_line(response.status),
                *(f"{name}: {value}\r\n".encode("latin-1") for name, value in fields),
                class_line,
                b"" if dated else context.site.clock.date_line,
                CLOSE if self.closes else stays,
                b"\r\n",
            )
        )

    async def _write(self, data: bytes) -> None:
        """Write at the rate of the channel, and wait until the client has taken enough."""
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
                self._drained = self._context.loop.create_future()
                await self._drained

    def _due(self, more: int) -> float:
        """When ``more`` bytes in addition to those sent may be sent."""
        rate = self._rate_bps
        return self._from if rate is None else self._from + (self._fixed_bytes + self.sent + more) / rate

    async def _wait_until(self, at: float) -> None:
        wait_s = at - perf_counter()
        if wait_s > 0:
            await asyncio.sleep(wait_s)

    def _note_links(self, values: list[str]) -> None:
        exchange = self._exchange
        if values and exchange.target is not None:
            self._context.site.admission.accounts.classifier.note_links(exchange.host, exchange.target.path, values)
