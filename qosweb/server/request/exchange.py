"""One request on its way through the stages, and what it has become so far."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from aiohttp.http import HttpVersion10, HttpVersion11

if TYPE_CHECKING:
    from collections.abc import Callable

    from aiohttp.http import RawRequestMessage

    from qosweb.engine.local.request_ids import RequestId
    from qosweb.engine.local.requests import Decision, Request
    from qosweb.engine.local.tickets import Ticket
    from qosweb.http.targets import RequestTarget
    from qosweb.server.accesslog.recorder import ClassAccount
    from qosweb.server.files.page_store import Failure
    from qosweb.server.files.pages import Page, Resource


class Waiting(enum.Enum):
    """A stage that has to wait says so; the exchange goes on at the same stage when it is resumed."""

    WAITING = enum.auto()


WAITING: Final = Waiting.WAITING

PATH_LOGGED_MAX = 512


@dataclass(slots=True, eq=False)
class Exchange:
    message: RawRequestMessage
    has_body: bool
    client: str
    arrived: float
    started: float
    resume: Callable[[Exchange], None]
    host: str = ""
    target: RequestTarget | None = None
    resource: Resource | None = None
    failure: Failure | None = None  # why there is no resource
    page: Page | None = None
    account: ClassAccount | None = None  # of its class, once that is known
    admitted: bool = False
    request: Request | None = None  # as the engine knows it
    decision: Decision | None = None  # what the engine decided
    ticket: Ticket | None = None  # with which another node sent its client here
    rid: RequestId | None = (
        None  # its name in the log, if it came from another node or goes to one; else it has none yet
    )
    outcome: str = ""  # what the log says was decided, where that does not follow from the answer
    rate_bps: int | None = None  # of its channel, set when it is admitted; None: as fast as it goes
    fixed_bytes: int = 0  # what it costs beside its body; see qosweb.server.files.pacing
    channel_since: float | None = None  # when its channel became free, if not just now
    channel_until: float | None = None  # set at the end: when its last byte was due
    ticket_text: str | None = None  # as it stood behind the target; see qosweb.engine.local.tickets
    metered: tuple[float, float] | None = None  # since when it is in service; see qosweb.admission.capacity_meter
    slow_reader: bool = False  # its answer had to wait for the client
    stage: int = 0  # where to go on after waiting
    rereads: int = 0
    forget: Callable[[], None] | None = None  # while waiting: how to stop waiting

    @property
    def is_head(self) -> bool:
        return self.message.method == "HEAD"

    @property
    def keeps_alive(self) -> bool:
        return not (self.message.should_close or self.message.upgrade or self.has_body)

    @property
    def speaks_http_1(self) -> bool:
        return self.message.version in (HttpVersion10, HttpVersion11)

    @property
    def wants_keep_alive_line(self) -> bool:
        return self.message.version == HttpVersion10 and self.keeps_alive

    @property
    def logged_path(self) -> str:
        return self.target.escaped_path if self.target is not None else self.message.path[:PATH_LOGGED_MAX]

    def field(self, name: str) -> str | None:
        """A header field, its lines joined as RFC 9110 section 5.3 says; None if it was not sent."""
        values = self.message.headers.getall(name, None)
        return None if values is None else ", ".join(values)
