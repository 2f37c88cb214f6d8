"""Access log formats: one JSON object or one Apache combined line per request, and JSON lines for events. Pure.

A `LogEntry` has the facts of a request. The fast paths need none: `plain_line`, `queued_line`, `turn_lines` and
`upstream_line` join their lines from prepared parts. A field of every line has to be added to all of these.
"""

from __future__ import annotations

import functools
import json
import re
import time
from typing import TYPE_CHECKING, NamedTuple

from qosweb.admission.clock import THOUSANDTHS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from qosweb.admission import Clock
    from qosweb.admission.resources import ResourceState
    from qosweb.server.accesslog.recorder import ServedInTurn

MS_OF_US = tuple(f"0.{text}" for text in THOUSANDTHS)  # most times are less than a millisecond
TEXT_LOGGED_MAX = 512  # characters of a header field or query

_CONTROL_OR_QUOTE = re.compile(r'[\x00-\x1f\x7f"\\]|[^\x00-\x7f]')


class RequestDetails(NamedTuple):
    """Facts of a request that only some logs have."""

    target: str = "-"  # path and query as the client sent them
    referer: str | None = None
    agent: str | None = None
    upstream_s: float | None = None  # until the response of another server began, or failed


NO_DETAILS = RequestDetails()


class LogEntry(NamedTuple):
    """The logged facts of one request. Times are in seconds; ``at_s`` counts from 1970."""

    at_s: float
    rid: str
    client: str
    method: str
    host: str
    path: str
    decision: str
    status: int
    size: int
    queue_s: float
    service_s: float
    class_name: str = "default"
    version: str = "1.1"
    reason: str = ""  # of a denial
    details: RequestDetails = NO_DETAILS
    first_byte_s: float | None = None  # from the start of service until another server began to respond
    request_id: str = ""  # that a trusted proxy gave the request
    resource: str = ""  # the upstream server, or the pool of servers that it waited for in vain
    work_s: float = 0.0  # slot time at the server, or its cost converted to slot time


@functools.lru_cache(maxsize=4096)
def quoted(text: str) -> str:
    """``text`` as a JSON string. Bytes that were not UTF-8 on the wire appear as U+FFFD."""
    return json.dumps(text.encode("utf-8", "surrogateescape").decode("utf-8", "replace"))


class JsonLines:
    """Formats JSON lines with the documented fields. Parts that rarely change are formatted once."""

    def __init__(self, node: str, view: str, policy: str, fields: Sequence[str] = ()) -> None:
        """``fields``: names of `EXTRA_FIELDS` that every request has, too."""
        self._fields = fields
        self._fixed = f'"node":{quoted(node)},"view":{quoted(view)},"policy":{quoted(policy)}'

    def policy_event(self, at_s: float, text: str, index: int | None = None) -> str:
        """A policy takes effect: it holds for all following lines. ``index`` is its position in the group's order."""
        return f'{{"event":"policy","ts":{at_s:.3f},{self._fixed},"index":{_number(index)},"text":{quoted(text)}}}\n'

    def view_event(self, at_s: float, index: int | None, members: list[str], *, is_primary: bool) -> str:
        """A view begins: it holds for all following lines. Outside a primary view a node decides alone."""
        return (
            f'{{"event":"view","ts":{at_s:.3f},{self._fixed},"index":{_number(index)},'
            f'"members":{json.dumps(members)},"primary":{"true" if is_primary else "false"}}}\n'
        )

    def capacity_event(self, at_s: float, index: int | None, of_node: str, capacity_bps: int) -> str:
        """The capacity of a node was set at position ``index`` of the group's order."""
        return (
            f'{{"event":"capacity","ts":{at_s:.3f},{self._fixed},"index":{_number(index)},'
            f'"of":{quoted(of_node)},"capacity_bps":{capacity_bps}}}\n'
        )

    def upstream_event(self, at_s: float, name: str, reason: str) -> str:
        """An upstream server of this node is out, for ``reason``, or in again if that is empty."""
        return (
            f'{{"event":"upstream","ts":{at_s:.3f},{self._fixed},"upstream":{quoted(name)},'
            f'"health":"{"out" if reason else "in"}","reason":{quoted(reason)}}}\n'
        )

    def resource_event(self, at_s: float, state: ResourceState) -> str:
        """A resource is contended from now on, or no longer, or its limit has changed."""
        cause = "null" if state.cause is None else f'"{state.cause}"'
        return (
            f'{{"event":"resource","ts":{at_s:.3f},{self._fixed},"resource":{quoted(state.name)},"kind":"{state.kind}",'
            f'"pool":{quoted(state.pool)},"limit":{state.limit},"found":"{state.found}","in_use":{state.in_use},'
            f'"waiting":{state.waiting},"cause":{cause},"request_bytes":{state.request_bytes}}}\n'
        )

    @staticmethod
    def repeated(event: str) -> str:
        """An event line for the beginning of a new file, marked as a copy: its time is that of the original."""
        return event[:-2] + ',"repeated":true}\n'

    def client_part(self, client: str) -> str:
        """The part of a line that is constant for one connection."""
        return f'{self._fixed},"client":{quoted(client)}'

    def extra_part(self, details: RequestDetails) -> str:
        """The extra fields, which follow the host; empty if there are none."""
        return "".join(f',"{name}":{EXTRA_FIELDS[name](details)}' for name in self._fields)

    def page_part(self, path: str) -> str:
        """The part of a line that is constant for every plain GET of one page, up to the class."""
        return f'"path":{quoted(path)},"class":'

    def page_tail(self, status: int, size: int) -> str:
        """The part of a line that is constant for every plain GET of one page, after the class."""
        return f',"decision":"served","status":{status},"bytes":{size}'

    def queued_tail(self, decision: str, status: int, size: int) -> str:
        """`page_tail` of a plain GET that was not served."""
        return f',"decision":"{decision}","status":{status},"bytes":{size}'

    def queued_line(
        self, ts: str, rid: str, client_part: str, host_part: str, page_part: str, wait_us: int, reason: str
    ) -> str:
        """The line of a plain GET that was not served after it had waited for its turn, joined from prepared parts."""
        queue_ms = f"{wait_us // 1000}.{THOUSANDTHS[wait_us % 1000]}"
        reason_part = f',"reason":"{reason}"' if reason else ""
        return (
            f'{{"ts":{ts},"rid":"{rid}",{client_part},"method":"GET","host":{host_part},{page_part},'
            f'"queue_ms":{queue_ms},"service_ms":0.000,"total_ms":{queue_ms}{reason_part}}}\n'
        )

    def turn_lines(
        self, served: Sequence[ServedInTurn], ended: float, service_us: int, clock: Clock, rid_prefix: str, number: int
    ) -> list[str]:
        """The lines of plain GETs that were served in one turn, numbered from ``number`` on."""
        lines = []
        began_at, second_text = clock.next_second_at - 1, clock.second_text
        service_ms = f"{service_us // 1000}.{THOUSANDTHS[service_us % 1000]}"
        for client_part, page, host_part, account, arrived in served:
            number += 1
            total_us = int((ended - arrived) * 1e6)
            wait_us = total_us - service_us
            at_ms = int((arrived - began_at) * 1000)
            ts = f"{second_text}{THOUSANDTHS[at_ms]}" if 0 <= at_ms < 1000 else clock.wall_text(arrived)
            lines.append(
                f'{{"ts":{ts},"rid":"{rid_prefix}{number}",{client_part},"method":"GET","host":{host_part},'
                f'{page.log_part}{account.quoted}{page.log_tail},"queue_ms":{wait_us // 1000}.'
                f'{THOUSANDTHS[wait_us % 1000]},"service_ms":{service_ms},"total_ms":{total_us // 1000}.'
                f"{THOUSANDTHS[total_us % 1000]}}}\n"
            )
        return lines

    def plain_line(
        self, ts: str, rid_prefix: str, number: int, client_part: str, host_part: str, page_part: str, ms: str
    ) -> str:
        """The line of a plain GET, joined from prepared parts. Its request id is the prefix and the number."""
        return (
            f'{{"ts":{ts},"rid":"{rid_prefix}{number}",{client_part},"method":"GET","host":{host_part},{page_part},'
            f'"queue_ms":0.000,"service_ms":{ms},"total_ms":{ms}}}\n'
        )

    def upstream_line(
        self,
        ts: str,
        rid: str,
        client_part: str,
        request_part: str,
        status: int,
        size: int,
        ms: str,
        first_byte_ms: str,
        resource: str,
        request_id: str,
    ) -> str:
        """The line of a forwarded request that did not wait, joined from prepared parts. Its slot time is ``ms``."""
        id_part = f',"request_id":{quoted(request_id)}' if request_id else ""
        work_part = f',"resource":{quoted(resource)},"work":{ms}' if resource else ""
        return (
            f'{{"ts":{ts},"rid":"{rid}",{client_part},{request_part},"decision":"served","status":{status},'
            f'"bytes":{size},"queue_ms":0.000,"service_ms":{ms},"total_ms":{ms},'
            f'"first_byte_ms":{first_byte_ms}{work_part}{id_part}}}\n'
        )

    def line(self, entry: LogEntry) -> str:
        total_ms = (entry.queue_s + entry.service_s) * 1e3
        reason = f',"reason":{quoted(entry.reason)}' if entry.reason else ""
        if entry.first_byte_s is not None:
            reason += f',"first_byte_ms":{entry.first_byte_s * 1e3:.3f}'
        if entry.resource:
            reason += f',"resource":{quoted(entry.resource)},"work":{entry.work_s * 1e3:.3f}'
        if entry.request_id:
            reason += f',"request_id":{quoted(entry.request_id)}'
        extra = self.extra_part(entry.details) if self._fields else ""
        return (
            f'{{"ts":{entry.at_s:.3f},"rid":"{entry.rid}",{self.client_part(entry.client)},'
            f'"method":{quoted(entry.method)},"host":{quoted(entry.host)}{extra},"path":{quoted(entry.path)},'
            f'"class":{quoted(entry.class_name)},"decision":"{entry.decision}","status":{entry.status},'
            f'"bytes":{entry.size},"queue_ms":{entry.queue_s * 1e3:.3f},"service_ms":{entry.service_s * 1e3:.3f},'
            f'"total_ms":{total_ms:.3f}{reason}}}\n'
        )


def _text_or_null(text: str | None) -> str:
    return "null" if text is None else quoted(text[:TEXT_LOGGED_MAX])


def _query(target: str) -> str | None:
    _, mark, query = target.partition("?")
    return query if mark else None


def _ms_or_null(time_s: float | None) -> str:
    return "null" if time_s is None else f"{time_s * 1e3:.3f}"


# Fields of a request that are logged on demand, with their JSON text.
EXTRA_FIELDS: dict[str, Callable[[RequestDetails], str]] = {
    "user_agent": lambda details: _text_or_null(details.agent),
    "referer": lambda details: _text_or_null(details.referer),
    "query": lambda details: _text_or_null(_query(details.target)),
    "upstream_ms": lambda details: _ms_or_null(details.upstream_s),
}


def _number(index: int | None) -> str:
    return "null" if index is None or index < 0 else str(index)


class CombinedLines:
    """Formats lines in Apache's combined log format."""

    def line(self, entry: LogEntry) -> str:
        target, referer, agent, _ = entry.details
        line = f"{entry.method} {target[:TEXT_LOGGED_MAX]} HTTP/{entry.version}"
        return (
            f"{entry.client} - - [{_day_and_time(int(entry.at_s))}] "
            f'"{_plain(line)}" {entry.status} {entry.size or "-"} '
            f'"{_plain(referer or "-")}" "{_plain(agent or "-")}"\n'
        )


def _plain(text: str) -> str:
    return _CONTROL_OR_QUOTE.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    if found[0] in '"\\':
        return "\\" + found[0]
    return "".join(f"\\x{byte:02x}" for byte in _bytes(found[0]))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@functools.lru_cache(maxsize=4)
def _day_and_time(second: int) -> str:
    at = time.gmtime(second)
    return f"{at.tm_mday:02}/{_MONTHS[at.tm_mon - 1]}/{at.tm_year}:{at.tm_hour:02}:{at.tm_min:02}:{at.tm_sec:02} +0000"
