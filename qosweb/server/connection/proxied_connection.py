"""Connection of a node that trusts proxies: each request of a proxy has its own client.

All connections of a node with ``--trust-proxy`` are of this class. One that comes from another address behaves as
`HttpConnection`. On one that comes from a proxy, ``client`` is that of the current request: requests are handled one
after the other. The client of a repeated head is cached by its bytes, like its meaning; see ``fast_path``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.server.connection.connection import HttpConnection

if TYPE_CHECKING:
    from qosweb.http.request_heads import RequestHead
    from qosweb.server.connection.head_parser import HeadParser


class ProxiedConnection(HttpConnection):
    __slots__ = ()

    def data_received(self, data: bytes) -> None:
        if not self.proxy or self._blocked:
            super().data_received(data)
        else:
            self._consume(data, self._clock.read())

    def _consume_head(self, reader: HeadParser, data: bytes, start: int, end: int, now: float) -> int:
        if self.proxy:
            client = None if self._in_head else self._context.plain_heads.clients.get((self.proxy, data[start:end]))
            if client is None:
                self.client, self._log_part = self.proxy, ""  # until the head is parsed
            elif client != self.client or not self._log_part:
                self.client = client
                self.block_list_changed()
                self._log_part = self._context.recorder.client_part(client)
        return super()._consume_head(reader, data, start, end, now)

    def _on_new_client(self, head: RequestHead, piece: bytes) -> None:
        if self.proxy:
            self.client = self._context.trusted.client_of(
                self.proxy, head.values("x-forwarded-for"), head.values("forwarded")
            )
            self.block_list_changed()
            context = self._context
            if piece in context.plain_heads.known or piece in context.forward_heads.known:
                context.plain_heads.remember_client(self.proxy, piece, self.client)
        super()._on_new_client(head, piece)
