"""HTTP/1.1 head reader: extracts one request head at a time from a connection's bytes, within size limits.

A head is parsed when it is complete (`qosweb.http.request_heads`), and nothing after it is: bytes after a head stay
unread until its response is sent. Of an incomplete head, complete lines are checked at once, so that a client whose
bytes cannot become a request gets its response without delay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qosweb.http.request_heads import BadRequestHead
from qosweb.server.request.answers import Answer, explain

if TYPE_CHECKING:
    from qosweb.http.request_heads import RequestHead, RequestHeads

END_OF_HEAD = b"\r\n\r\n"


class HeadLimits(NamedTuple):
    request_line: int
    size: int
    fields: int


class RejectedHead(Exception):
    """The bytes are not an acceptable head. The connection closes after the response ``answer``."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(answer.status)
        self.answer = answer


class HeadParser:
    """The heads of one connection. An incomplete head is kept here."""

    __slots__ = ("_begun", "_checked", "_heads", "_limits", "partial_len", "partial_since")

    def __init__(self, limits: HeadLimits, heads: RequestHeads) -> None:
        self.partial_len = 0  # bytes of an incomplete head, with empty lines before it
        self.partial_since = 0.0
        self._limits = limits
        self._heads = heads
        self._begun = bytearray()  # the incomplete head, without empty lines before it
        self._checked = 0  # where its last line begins

    def end_of_head(self, data: bytes, start: int) -> int:
        """The end of the head that begins or continues at ``start``; the length of the data if it is incomplete."""
        if self._begun:
            tail = self._begun[-3:]
            across = (tail + data[start : start + 3]).find(END_OF_HEAD)
            if across >= 0:
                return start + across + len(END_OF_HEAD) - len(tail)
        end = data.find(END_OF_HEAD, start)
        return len(data) if end < 0 else end + len(END_OF_HEAD)

    def read(self, piece: bytes, now: float) -> RequestHead | None:
        """The head that ``piece`` completes; None if it is still incomplete. Raises RejectedHead."""
        if self.partial_len or len(piece) > self._limits.request_line:
            self._check_size(piece)
        if self.partial_len or piece[:2] == b"\r\n" or piece[-4:] != END_OF_HEAD:
            return self._read_piece(piece, now)
        try:
            return self._heads.read(piece)
        except BadRequestHead as bad:
            raise self._rejected(_explain(bad), piece) from None

    def too_late(self) -> RejectedHead:
        """The rejection of a head that was not complete in time."""
        return self._rejected(explain(408, "The request head did not arrive in time."), b"")

    def _read_piece(self, piece: bytes, now: float) -> RequestHead | None:
        if not self.partial_len:
            self.partial_since = now
        self.partial_len += len(piece)
        begun = self._begun
        begun += piece
        while begun[:2] == b"\r\n":  # RFC 9112 section 2.2
            del begun[:2]
        try:
            if begun.endswith(END_OF_HEAD):
                head = self._heads.read(bytes(begun))
                self.partial_len = self._checked = 0
                begun.clear()
                return head
            if begun and begun != b"\r":
                self._checked = self._heads.check_begun(bytes(begun), self._checked)
        except BadRequestHead as bad:
            raise self._rejected(_explain(bad), b"") from None
        return None

    def _check_size(self, piece: bytes) -> None:
        total = self.partial_len + len(piece)
        if total > self._limits.request_line and b"\n" not in self._begun:
            line_end = piece.find(b"\n")
            line_len = self.partial_len + (len(piece) if line_end < 0 else line_end)
            if line_len > self._limits.request_line:
                reason = f"The request line is longer than {self._limits.request_line} bytes."
                raise self._rejected(explain(414, reason), piece)
        if total > self._limits.size:
            raise self._rejected(explain(431, f"The request head is larger than {self._limits.size} bytes."), piece)

    def _rejected(self, answer: Answer, piece: bytes) -> RejectedHead:
        is_head = (bytes(self._begun[:5]) + piece[:5]).lstrip(b"\r\n").startswith(b"HEAD ")
        return RejectedHead(answer.without_body() if is_head else answer)


def _explain(bad: BadRequestHead) -> Answer:
    reason = bad.reason if bad.reason.endswith(".") else f"The request is malformed: {bad.reason}."
    return explain(bad.status, reason, must_close=True)
