"""HTTP client for upstream servers and other nodes, with a bounded pool of reused connections.

It is aiohttp's client without redirects, cookies, decoding and proxies. Errors before a response begins become
responses: 502 if the server cannot be reached or does not speak HTTP, 504 if it takes too long, 503 if all connections
to it are in use for too long.
Neighbours: ``qosweb.server.proxy.forward`` sends requests and reads responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import aiohttp
from yarl import URL

from qosweb.server.connection.client_share import part_of
from qosweb.server.proxy.client_turns import ClientTurns

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from qosweb.http.hops import Fields

CONNECTIONS_MAX = 200  # to all servers together
CONNECT_S = 5.0
KEPT_S = 15.0  # keep-alive of an idle connection; shorter than most servers' timeout
BUFFER_BYTES = 64 << 10  # of a response that its client does not take
LINE_MAX = 32 << 10

_OWN_FIELDS = ("Accept", "Accept-Encoding", "User-Agent", "Content-Type")


class Unanswered(Exception):
    """The server did not respond; the client gets ``status``."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class Upstreams:
    """Connection pool to other servers. Needs a running event loop."""

    def __init__(self, timeout_s: float, share_ppm: int) -> None:
        """``timeout_s``: how long a server may send nothing. ``share_ppm``: one client's part of the connections."""
        self.turns = ClientTurns(part_of(CONNECTIONS_MAX, share_ppm), 2 * CONNECT_S)
        self._timeout_s = timeout_s
        self._session: aiohttp.ClientSession | None = None

    async def request(
        self, origin: str, method: str, target: str, fields: Fields, body: AsyncIterator[bytes] | None
    ) -> aiohttp.ClientResponse:
        """Send a request; returns the response once its head has arrived. Raises Unanswered."""
        try:
            url = URL(origin + target, encoded=True)
            return await self._opened().request(
                method, url, headers=fields, data=body, allow_redirects=False, skip_auto_headers=_OWN_FIELDS
            )
        except aiohttp.ConnectionTimeoutError:
            raise Unanswered(503, "No connection to the upstream server in time.") from None
        except TimeoutError:
            raise Unanswered(504, "The upstream server did not respond in time.") from None
        except aiohttp.ClientConnectorError:
            raise Unanswered(502, "The upstream server cannot be reached.") from None
        except aiohttp.ServerDisconnectedError:
            raise Unanswered(502, "The upstream server closed the connection without a response.") from None
        except aiohttp.ClientResponseError:
            raise Unanswered(502, "The upstream server sent a response that is not valid HTTP.") from None
        except (aiohttp.ClientError, OSError):
            raise Unanswered(502, "The upstream server broke the connection off.") from None
        except ValueError:  # a field that aiohttp cannot serialise
            raise Unanswered(400, "The request has a header field that cannot be forwarded.") from None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=CONNECTIONS_MAX, keepalive_timeout=KEPT_S),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
                read_bufsize=BUFFER_BYTES,
                max_line_size=LINE_MAX,
                max_field_size=LINE_MAX,
                timeout=aiohttp.ClientTimeout(
                    total=None, connect=2 * CONNECT_S, sock_connect=CONNECT_S, sock_read=self._timeout_s
                ),
            )
        return self._session
