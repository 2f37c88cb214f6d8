"""Turns of plain requests: while the processor is full, a plain GET waits in the processor queue before it is answered.

The connection itself stands in the queue, blocked, with the head that waits: nothing is looked up before its turn.
``active_at`` is when that head arrived.
Neighbours: ``timeouts`` is below, ``connection`` derives from it; ``qosweb.admission.processor_queue`` is the queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.admission.processor_queue import TURN_COST
from qosweb.engine.local.requests import EXPIRED, FULL
from qosweb.server.connection.timeouts import Timeouts
from qosweb.server.request.stages import explain_denial

if TYPE_CHECKING:
    from qosweb.server.connection.context import ConnectionContext
    from qosweb.server.connection.fast_path import PlainHead


class Turns(Timeouts):
    """The part of `HttpConnection` that waits in the processor queue. Implements `Turn`."""

    __slots__ = ("_eof", "_processor", "deadline")

    def __init__(self, context: ConnectionContext) -> None:
        super().__init__(context)
        self._eof = False
        self.deadline = 0.0
        self._processor = context.services.admission.processor

    def _consume(self, data: bytes, now: float) -> None:
        """Handle the requests in ``data`` one by one, until the data ends or a request has to wait."""
        raise NotImplementedError

    def _answer_plain(self, plain: PlainHead, now: float, arrived: float | None = None) -> int:
        """The fast path; returns the cost. 0, without effect: the page is not in memory, not fresh, or may not start.

        ``arrived``: when the request began to wait for its turn, if it did.
        """
        raise NotImplementedError

    def _wait_for_turn(self, plain: PlainHead, now: float) -> bool:
        """Queue a plain request if the processor is full. False, without effect, if it is not."""
        processor = self._processor
        if processor is None or not processor.queues_all:
            return False
        self.active_at = now
        self._queued_plain = plain
        self._blocked = True
        if not processor.submit(plain.account, self, now):
            self._blocked = False
            self._deny(FULL)
        return True

    def take_turn(self, now: float) -> int:
        plain, arrived = self._queued_plain, self.active_at
        if plain is None:
            return 0
        self._queued_plain = None
        try:
            cost = self._answer_plain(plain, now, arrived)
            if cost:
                if not (self._unread or self._eof or self._reading_paused or self._write_paused):
                    self._blocked = self._closing
                    return cost
            else:
                cost = TURN_COST
                self._blocked = False
                self._context.services.admission.enter_in_turn(lambda: self._consume(plain.data, arrived))
        except Exception as error:  # a bug here must cost no more than this connection
            self._context.report_fault(error)
            self.abort()
            return TURN_COST
        self._end_turn()
        return cost

    def _end_turn(self) -> None:
        """Continue: with the next request in a turn of its own, if it is here already."""
        if self._unread or self._eof or self._reading_paused or self._context.connections.draining:
            self._blocked = True
            self._context.loop.call_soon(self._unblock)
        elif self._exchange is None and self._sender is None and self._relay is None and not self._write_paused:
            self._blocked = self._closing

    def miss_turn(self, now: float) -> None:
        if self._queued_plain is not None:
            self._deny(EXPIRED)
            self.active_at = now
            self._end_turn()

    def _deny(self, reason: str) -> None:
        plain, self._queued_plain = self._queued_plain, None
        assert plain is not None
        assert self._transport is not None
        assert self._processor is not None
        context, account = self._context, plain.account
        denial = self._processor.denial(account, reason)
        answer = context.error_pages.present(explain_denial(denial.status, denial.text, denial.fields), ())
        self._transport.writelines(
            (answer.head, account.header_line, self._clock.date_line, b"\r\n", *answer.body)  # type: ignore[arg-type]
        )
        self._record_queued_plain(plain, denial.decision, denial.status, answer.length, reason)

    def _leave_turns(self) -> None:
        """The client has closed its connection."""
        plain, self._queued_plain = self._queued_plain, None
        if plain is not None:
            self._record_queued_plain(plain, "failed", 499, 0, "")

    def _record_queued_plain(self, plain: PlainHead, decision: str, status: int, size: int, reason: str) -> None:
        target = plain.data.split(b" ", 2)[1].partition(b"?")[0].decode("utf-8", "surrogateescape")
        self._context.recorder.ended_in_queue(
            self._log_part, target, plain.host_part, plain.account, self.active_at,
            decision=decision, status=status, size=size, reason=reason,
        )  # fmt: skip
