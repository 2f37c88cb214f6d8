"""Pipeline stages of a site that the cluster stores: the release that a client gets, and files for other nodes."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from qosweb.server.releases.released_site import NewerReleaseSeen, fields_of
from qosweb.server.request.answers import Answer, explain
from qosweb.server.request.exchange import WAITING, Exchange, Waiting

if TYPE_CHECKING:
    from qosweb.server.releases.blob_server import BlobServer
    from qosweb.server.releases.released_site import ReleasedSite
    from qosweb.server.request.stages import RequestServices

BLOB_PATH = "/.qosweb/blobs/"  # hidden, so that no page has such a path
WAIT_S = 2.0  # for a release that the client has seen elsewhere


class SiteReleases(Protocol):
    """The part of the node's release service that the stages use."""

    site: ReleasedSite

    @property
    def is_behind(self) -> bool:
        """Whether this node may lack the current release: it is cut off, or does not have its list of files yet."""

    @property
    def blob_server(self) -> BlobServer: ...


def send_blob(exchange: Exchange, services: RequestServices) -> Answer | None:
    """Send a file of a release to another node of the cluster."""
    if services.releases is None or not exchange.head.target.startswith(BLOB_PATH):
        return None
    exchange.is_internal = True
    return services.releases.blob_server.answer(exchange, exchange.head.target.removeprefix(BLOB_PATH))


def choose_release(exchange: Exchange, services: RequestServices) -> Answer | Waiting | None:
    """Choose the release of the site that the client gets. A client that has seen a newer one than this node waits."""
    releases = services.releases
    if releases is None:
        return None
    has_waited = exchange.has_waited_for_release
    must_decide = has_waited and not releases.is_behind
    chosen = releases.site.choose(fields_of(exchange.head), exchange.key, must_decide=must_decide)
    if isinstance(chosen, NewerReleaseSeen):
        if not has_waited:
            return _wait(exchange, releases.site)
        text = "This node does not have the release of the site that this client has seen."
        return explain(503, text, [("Retry-After", "1")])
    exchange.release = chosen
    return None


def _wait(exchange: Exchange, site: ReleasedSite) -> Waiting:
    """Wait for another release; for WAIT_S at most."""

    def over() -> None:
        forget()
        exchange.resume(exchange)

    def too_late() -> None:
        exchange.has_waited_for_release = True
        over()

    def forget() -> None:
        exchange.forget = None
        timer.cancel()
        site.forget(over)

    timer = asyncio.get_running_loop().call_later(WAIT_S, too_late)
    exchange.forget = forget
    exchange.was_delayed = True
    site.wait(over)
    return WAITING
