"""Sending of responses on a connection: from memory, from disk, or by the pacer; then their record.

Neighbours: ``closing`` is below; ``forwarding`` and ``connection`` derive from it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from qosweb.server.accesslog.recorder import TOO_MANY
from qosweb.server.connection.closing import Closing
from qosweb.server.connection.decisions import CLIENT_SHARE, decision_lines, decision_of, denied_lines
from qosweb.server.files.file_sender import FileSender
from qosweb.server.files.files import NotServed
from qosweb.server.pacing.paced_send import PacedSend
from qosweb.server.pipeline import restart_at_find_page
from qosweb.server.request.answers import CLOSE, KEEP_ALIVE, NO_CONNECTION_LINE, Answer, FileSpan, explain

if TYPE_CHECKING:
    from qosweb.admission import Permit
    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.request.exchange import Exchange

WRITE_BUFFER_HIGH = 256 << 10
WRITE_BUFFER_LOW = 64 << 10
REREADS_MAX = 3

RETRY = [("Retry-After", "1")]
_TOO_MANY_FILES = explain(503, "The server has too many files open.", RETRY)
_TOO_MANY_FILES_TO_CLIENT = explain(429, "Too many files are being sent to your address.", RETRY)


class Sending(Closing):
    """The part of `HttpConnection` that sends responses and records their end."""

    __slots__ = ("_clock", "_sender", "_sending", "active_at")

    def __init__(self, context: ConnectionContext) -> None:
        super().__init__(context)
        self.active_at = 0.0
        self._clock = context.services.clock
        self._sender: FileSender | PacedSend | None = None
        self._sending: tuple[Exchange, Answer, bool] | None = None

    def _run(self, exchange: Exchange) -> None:
        """Run the stages of ``exchange`` and act on the result."""
        raise NotImplementedError

    def _unblock(self) -> None:
        """Continue with the data that was held back, unless the connection still has to wait."""
        raise NotImplementedError

    def _send(self, exchange: Exchange, answer: Answer) -> None:
        assert self._transport is not None
        if answer.error is not None:
            answer = self._context.error_pages.present(answer, exchange.field_lines("Accept"))
        closes = answer.must_close or not exchange.keeps_alive or self._context.connections.draining
        last_line = CLOSE if closes else KEEP_ALIVE if exchange.wants_keep_alive_line else NO_CONNECTION_LINE
        account = self._context.services.account_of(exchange)
        head = b"".join(
            (answer.head, decision_lines(account, exchange, answer), self._clock.date_line, last_line, b"\r\n")
        )
        if exchange.is_head:
            answer = answer.without_body()
        if answer.from_disk:
            self._send_from_disk(exchange, answer, head, closes=closes)
            return
        if exchange.permit is not None and exchange.permit.rate_bps is not None:
            self._send_paced(exchange, exchange.permit, answer, head, closes=closes)
            return
        self._transport.writelines((head, *answer.body))  # type: ignore[arg-type]  # no FileSpan: not from_disk
        self._finish(exchange, answer, answer.length)
        if closes:
            self._linger()  # a body or pipelined requests may still arrive

    def _send_from_disk(self, exchange: Exchange, answer: Answer, head: bytes, *, closes: bool) -> None:
        context = self._context
        assert self._transport is not None
        if not context.open_files.has_room_for(exchange.client):
            self._send(exchange, _TOO_MANY_FILES if context.open_files.is_full else _TOO_MANY_FILES_TO_CLIENT)
            return
        span = next(part for part in answer.body if isinstance(part, FileSpan))
        try:
            assert context.services.store.root is not None
            descriptor, identity = context.services.store.root.open(span.name)
        except (NotServed, OSError):
            descriptor, identity = -1, None
        if identity != span.identity:
            if descriptor >= 0:
                os.close(descriptor)
            self._read_again(exchange)
            return
        context.open_files.take(exchange.client)
        if exchange.permit is not None and exchange.permit.rate_bps is not None:
            self._send_paced(exchange, exchange.permit, answer, head, closes=closes, file=descriptor)
            return
        self._blocked = True
        self._sending = exchange, answer, closes
        self._sender = FileSender(context.loop, self._transport, descriptor, (head, *answer.body), self._on_sent)
        self._mark_at = 0.0
        if self._transport.get_write_buffer_size():
            self._transport.set_write_buffer_limits(high=0)  # calls resume_writing once it is empty
        else:
            self._start_sender()

    def _send_paced(
        self, exchange: Exchange, permit: Permit, answer: Answer, head: bytes, *, closes: bool, file: int = -1
    ) -> None:
        pacer = self._context.pacer
        assert self._transport is not None
        assert pacer is not None
        self._blocked = True
        self._mark_at = 0.0
        self._sending = exchange, answer, closes
        self._sender = PacedSend(pacer, self._transport, permit, head, answer.body, self._on_sent, file=file)
        self._transport.set_write_buffer_limits(high=0)  # calls resume_writing once it is empty
        self._sender.start()

    def pace_rest(self) -> None:
        """Responses are paced from now on: so is the rest of one from disk, which else would keep its channel."""
        pacer, sender = self._context.pacer, self._sender
        if not isinstance(sender, FileSender) or self._sending is None or self._transport is None or pacer is None:
            return
        permit = self._sending[0].permit
        if permit is None or not permit.pace():
            return
        rest = sender.hand_over()
        self._sender = paced = PacedSend(pacer, self._transport, permit, b"", (), self._on_sent)
        paced.go_on(rest, sender.sent)
        self._transport.set_write_buffer_limits(high=0)  # calls resume_writing once it is empty
        paced.start()

    def _start_sender(self) -> None:
        assert self._transport is not None
        assert self._sender is not None
        self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=WRITE_BUFFER_LOW)
        self._sender.start()

    def _on_sent(self, complete: bool) -> None:
        assert self._sender is not None
        assert self._sending is not None
        exchange, answer, closes = self._sending
        body_sent = max(0, self._sender.sent - (self._sender.size - answer.length))
        if isinstance(self._sender, FileSender):
            exchange.was_delayed = self._sender.waited
        elif self._transport is not None:
            self._transport.set_write_buffer_limits(high=WRITE_BUFFER_HIGH, low=WRITE_BUFFER_LOW)
        self._sender = self._sending = None
        self._mark_at = 0.0
        if answer.from_disk:
            self._context.open_files.give_back(exchange.client)
        self.active_at = self._clock.read()
        if not complete:
            self._record(exchange, "failed", answer.status, body_sent)
            self.abort()
            return
        self._finish(exchange, answer, body_sent)
        if closes and answer.from_disk:
            self._close()
        elif closes:
            self._linger()
        else:
            self._unblock()

    def _read_again(self, exchange: Exchange) -> None:
        """Restart ``exchange`` at its page: the file on disk is not the version that the response was made for."""
        assert exchange.resource is not None
        self._context.services.store.invalidate(exchange.resource)
        exchange.rereads += 1
        if exchange.rereads > REREADS_MAX:
            self._send(exchange, explain(503, "The file keeps changing. Try again.", RETRY))
        else:
            restart_at_find_page(exchange)
            self._run(exchange)

    def _finish(self, exchange: Exchange, answer: Answer, size: int) -> None:
        decision = decision_of(exchange, answer)
        if decision == "denied" and not exchange.outcome:
            exchange.reason = CLIENT_SHARE
            self._context.services.account_of(exchange).reasons[CLIENT_SHARE] += 1
        self._record(exchange, decision, answer.status, size)
        if answer.status == 200 and exchange.page is not None:
            self._context.recorder.prepare_plain(exchange, exchange.page)

    def _record(self, exchange: Exchange, decision: str, status: int, size: int) -> None:
        if exchange.is_internal:
            return
        permit, exchange.permit = exchange.permit, None
        if exchange.request_body is not None:
            exchange.request_body.release()
        if permit is not None:
            is_sample = decision == "served" and not exchange.was_delayed
            permit.close(size, is_sample=is_sample)
        self._context.recorder.record(exchange, self._context.services.account_of(exchange), decision, status, size)

    def _reject(self, answer: Answer, decision: str, now: float) -> None:
        assert self._transport is not None
        answer = self._context.error_pages.present(answer, ())  # its Accept field, if any, was not read
        self._context.recorder.record_unread(self.client, decision, answer.status, answer.length, now)
        account = self._context.recorder.accounts.default
        class_line = denied_lines(account, TOO_MANY) if decision == "denied" else account.failed_line
        head = b"".join((answer.head, class_line, self._clock.date_line, CLOSE, b"\r\n"))
        self._transport.writelines((head, *answer.body))  # type: ignore[arg-type]  # no FileSpan
        self._linger()
