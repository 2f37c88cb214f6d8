"""Access recorder: counts each finished request once and writes its access log line.

It runs for every request. So it only adds to plain numbers and appends a line to a list. The list goes to the log's
writer thread when it is long or old.
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import Counter
from typing import TYPE_CHECKING

from qosweb.admission.class_accounts import SERVICE_BUCKETS_S
from qosweb.admission.clock import THOUSANDTHS
from qosweb.engine.local.request_ids import LIFE_LEN, RequestId
from qosweb.server.accesslog.event_history import EventHistory
from qosweb.server.accesslog.line import MS_OF_US, CombinedLines, JsonLines, LogEntry, RequestDetails, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.admission import ClassAccount, Clock
    from qosweb.admission.class_accounts import ClassAccounts
    from qosweb.admission.resources import ResourceState
    from qosweb.http.request_heads import RequestHead
    from qosweb.server.accesslog.file import LogFile
    from qosweb.server.files.pages import Page
    from qosweb.server.proxy.plain_relay import PlainRelay
    from qosweb.server.request.exchange import Exchange

    # The parts of its line that belong to client, page and host, and when it arrived.
    ServedInTurn = tuple[str, Page, str, ClassAccount, float]

BATCH_LINES = 512
HOSTS_MAX = 1024
TOO_MANY = "connections"  # the reason of a denial by a connection limit

# Most responses from memory take less than a millisecond: values that depend on the time alone come from tables.
_BUCKET_OF_US = tuple(bisect_left(SERVICE_BUCKETS_S, (us + 0.5) / 1e6) for us in range(1000))


class AccessRecorder:
    def __init__(
        self,
        clock: Clock,
        node: str,
        log: LogFile | None,
        log_format: str,
        accounts: ClassAccounts,
        extra_fields: Sequence[str] = (),
    ) -> None:
        """``extra_fields``: names of `EXTRA_FIELDS` for every JSON line."""
        self.extra_fields = extra_fields
        self.accounts = accounts
        self.statuses: Counter[int] = Counter()
        self.hosts: dict[bytes, str] = {}  # valid Host fields seen so far -> their text in a JSON line
        self._log = log
        self._node = node
        self._view = ""
        self._json = JsonLines(node, self._view, accounts.classifier.policy_hash, extra_fields)
        self._form: JsonLines | CombinedLines = self._json if log_format == "json" else CombinedLines()
        self._lines: list[str] = []
        self._announced = ""
        self.events = EventHistory()
        self._contended: set[str] = set()  # resources
        self._in_force: dict[str, str] = {}  # event lines for the beginning of a new file: policy, view, capacities
        self._heading: tuple[str, ...] = ()  # events in force before the first collected line
        self._clock = clock
        self._life = os.urandom(LIFE_LEN)
        self._rid_prefix = self._life.hex() + "-"
        self._requests = 0
        self.in_turn: list[ServedInTurn] = []
        self._noted_s = 0.0  # service time of requests outside the fast path

    def policy_changed(self, index: int | None = None) -> None:
        """A new policy is in force: log it. ``index`` is its position in the group's order."""
        self._renew_form()
        self.announce_policy(index)

    def announce_policy(self, index: int | None = None) -> None:
        """Log the text of the specification, unless the last policy line has the same text. JSON format only."""
        text = self.accounts.classifier.text
        if text == self._announced and index is None:
            return
        self._announced = text
        self.events.add(
            self._now(), "policy", f"policy {self.accounts.classifier.policy_hash or '(empty)'} is in force"
        )
        self._event("policy", self._json.policy_event(self._now(), text, index))

    def view_changed(self, view: str, index: int | None, members: list[str], *, is_primary: bool) -> None:
        """The node is in another view, or in none: log it. The following lines name the new view."""
        self._view = view
        self._renew_form()
        if is_primary:  # every member reports its capacity anew
            known = {"policy", "view", *(f"capacity of {name}" for name in members)}
            self._in_force = {
                name: line
                for name, line in self._in_force.items()
                if name in known or name.startswith(("upstream ", "resource "))
            }
        what = f"primary view {view}: {' '.join(members)}" if is_primary else "no primary view: this node decides alone"
        self.events.add(self._now(), "view", what)
        self._event("view", self._json.view_event(self._now(), index, members, is_primary=is_primary))

    def capacity_fixed(self, index: int | None, of_node: str, capacity_bps: int) -> None:
        line = self._json.capacity_event(self._now(), index, of_node, capacity_bps)
        self._event(f"capacity of {of_node}", line)

    def upstream_changed(self, name: str, reason: str) -> None:
        """An upstream server is out, for ``reason``, or in again if that is empty."""
        self.events.add(self._now(), "upstream", f"{name} is out: {reason}" if reason else f"{name} is back")
        self._event(f"upstream {name}", self._json.upstream_event(self._now(), name, reason))

    def resource_changed(self, state: ResourceState) -> None:
        """A resource is contended from now on, or no longer, or its limit has changed."""
        if (state.cause is not None) != (state.name in self._contended):
            self._contended ^= {state.name}
            how = (
                "no longer contended"
                if state.cause is None
                else f"contended (cause: {state.cause}); requests that wait: {state.waiting:,}"
            )
            self.events.add(self._now(), "resource", f"{state.name} is {how}")
        self._event(f"resource {state.name}", self._json.resource_event(self._now(), state))

    def _renew_form(self) -> None:
        json = JsonLines(self._node, self._view, self.accounts.classifier.policy_hash, self.extra_fields)
        if self._form is self._json:
            self._form = json
        self._json = json

    def _event(self, what: str, line: str) -> None:
        """Log an event. It is in force until the next event with the same ``what``."""
        if self._log is not None and self._form is self._json:
            self._lines.append(line)
            self._in_force[what] = self._json.repeated(line)

    def _now(self) -> float:
        return self._clock.wall(self._clock.read())

    def client_part(self, client: str) -> str:
        return self._json.client_part(client)

    def served_plain(self, client_part: str, page: Page, host: str, account: ClassAccount, start: float) -> None:
        """Record a plain GET that was served from memory; ``prepare_plain`` made the parts of its line."""
        service_s = time.perf_counter() - start
        service_us = int(service_s * 1e6)
        account.plain_served += 1
        account.bytes_sent += page.size
        account.service_sum_s += service_s
        if service_us < 1000:
            account.service_counts[_BUCKET_OF_US[service_us]] += 1
            ms = MS_OF_US[service_us]
        else:
            account.service_counts[bisect_left(SERVICE_BUCKETS_S, service_s)] += 1
            ms = f"{service_s * 1e3:.3f}"
        self._requests = number = self._requests + 1
        if self._log is not None:
            lines = self._lines
            ts = self._clock.wall_text(start)
            lines.append(self._json.plain_line(ts, self._rid_prefix, number, client_part, host, page.wire_log_part, ms))
            if len(lines) >= BATCH_LINES:
                self.flush()

    def record_turn(self, began: float) -> None:
        """Record the requests `in_turn`: plain GETs that were served from memory in a turn that began at ``began``.

        The service of each is its part of the turn; until then it waited.
        """
        served = self.in_turn
        if not served:
            return
        self.in_turn = []
        ended = time.perf_counter()
        service_s = (ended - began) / len(served)
        service_us = int(service_s * 1e6)
        service_bucket = bisect_left(SERVICE_BUCKETS_S, service_s)
        for _, page, _, account, arrived in served:
            wait_s = ended - arrived - service_s
            account.plain_served += 1
            account.bytes_sent += page.size
            account.wait_sum_s += wait_s
            account.wait_counts[bisect_left(SERVICE_BUCKETS_S, wait_s)] += 1
            account.service_sum_s += service_s
            account.service_counts[service_bucket] += 1
        if self._log is not None:
            lines = self._lines
            lines += self._json.turn_lines(served, ended, service_us, self._clock, self._rid_prefix, self._requests)
            if len(lines) >= BATCH_LINES:
                self.flush()
        self._requests += len(served)

    def ended_in_queue(
        self, client_part: str, path: str, host: str, account: ClassAccount, arrived: float,
        *, decision: str, status: int, size: int, reason: str,
    ) -> None:  # fmt: skip
        """Record a plain GET that was denied, or left by its client, while it waited for its turn."""
        now = self._clock.read()
        account.decisions[decision] += 1
        account.bytes_sent += size
        account.other_bytes += size
        account.observe_wait(now - arrived)
        account.service_counts[0] += 1
        self.statuses[status] += 1
        tail = self._json.queued_tail(decision, status, size)
        rid = self._new_rid()
        if self._log is not None:
            page_part = f"{self._json.page_part(path)}{account.quoted}{tail}"
            ts, wait_us = self._clock.wall_text(arrived), int((now - arrived) * 1e6)
            self._lines.append(self._json.queued_line(ts, rid, client_part, host, page_part, wait_us, reason))
            if len(self._lines) >= BATCH_LINES:
                self.flush()

    # ---- the fast path of forwarded requests

    @property
    def has_fast_path(self) -> bool:
        """Whether a line of a forwarded request needs nothing but its head, times, status and size."""
        return self._form is self._json and "upstream_ms" not in self.extra_fields

    def relayed(self, client_part: str, relay: PlainRelay, now: float) -> None:
        """Record a request that an upstream server has answered, and that waited for nothing else."""
        started, size, status, known = relay.started, relay.sent, relay.status, relay.known
        account, service_s = known.account, now - started
        account.relayed_served += 1
        account.bytes_sent += size
        account.relayed_bytes += size
        account.service_counts[bisect_left(SERVICE_BUCKETS_S, service_s)] += 1
        account.service_sum_s += service_s
        self._noted_s += service_s
        self.statuses[status] += 1
        if self._log is not None:
            lines, us = self._lines, int(service_s * 1e6)
            ms = MS_OF_US[us] if us < 1000 else f"{us // 1000}.{THOUSANDTHS[us % 1000]}"
            first_byte_ms = ms if relay.first_byte_at == now else f"{(relay.first_byte_at - started) * 1e3:.3f}"
            lines.append(
                self._json.upstream_line(
                    self._clock.wall_text(started), relay.rid, client_part, known.log_part, status, size, ms,
                    first_byte_ms, relay.hold.resource, relay.request_id,
                )
            )  # fmt: skip
            if len(lines) >= BATCH_LINES:
                self.flush()

    def prepare_plain(self, exchange: Exchange, page: Page) -> None:
        """Prepare the log line of further plain GETs of this page, which ``served_plain`` then records."""
        if page.body is None or self._form is not self._json:
            return  # the page is on disk, or the combined format needs fields that the fast path does not parse
        if not page.log_part:
            page.log_part = self._json.page_part(exchange.logged_path)
            page.log_tail = self._json.page_tail(200, page.size)
        host = exchange.head.host
        if not host or (exchange.target and exchange.target.authority is not None):
            return  # the host that is logged is not that of the Host field
        if len(self.hosts) >= HOSTS_MAX:
            self.hosts.clear()
        self.hosts[host] = quoted(exchange.host)

    def extra_part(self, head: RequestHead) -> str:
        """The extra fields of every plain GET with this head."""
        return self._json.extra_part(_details(head))

    def record(self, exchange: Exchange, account: ClassAccount, decision: str, status: int, size: int) -> None:
        """Record the end of a request outside the fast path."""
        head = exchange.head
        entry = LogEntry(
            at_s=self._clock.wall(exchange.arrived),
            rid=self._new_rid() if exchange.rid is None else str(exchange.rid),
            client=exchange.client,
            method=head.method,
            host=exchange.host,
            path=exchange.logged_path,
            decision=decision,
            status=status,
            size=size,
            queue_s=exchange.started - exchange.arrived,
            service_s=self._clock.read() - exchange.started,
            class_name=account.name,
            version="1.1" if head.is_http_1_1 else "1.0",
            reason=exchange.reason if decision in ("denied", "expired") else "",
            details=_details(head, exchange.upstream_s),
            first_byte_s=None if exchange.first_byte_at is None else exchange.first_byte_at - exchange.started,
            request_id=exchange.request_id,
            resource=exchange.pool if exchange.slot is None else exchange.slot.resource,
            work_s=0.0 if exchange.slot is None else exchange.slot.work_s,
        )
        self._write(entry, account)

    def record_unread(self, client: str, decision: str, status: int, size: int, arrived: float) -> None:
        """Record a response without a request: malformed or late head, or one connection too many."""
        if decision == "denied":
            self.accounts.default.reasons[TOO_MANY] += 1
        self._write(
            LogEntry(
                at_s=self._clock.wall(arrived),
                rid=self._new_rid(),
                client=client,
                method="-",
                host="",
                path="-",
                decision=decision,
                status=status,
                size=size,
                queue_s=0.0,
                service_s=self._clock.read() - arrived,
                class_name=self.accounts.default.name,
                reason=TOO_MANY if decision == "denied" else "",
            ),
            self.accounts.default,
        )

    def plain_totals(self) -> tuple[int, int, float]:
        """Totals of the fast path: requests, bytes and service time in seconds."""
        accounts = self.accounts.all_accounts
        return (
            sum(account.plain_served for account in accounts),
            sum(account.plain_bytes for account in accounts),
            sum(account.service_sum_s for account in accounts) - self._noted_s,
        )

    def by_status(self) -> dict[int, int]:
        counts = dict(self.statuses)
        counts[200] = counts.get(200, 0) + sum(account.plain_served for account in self.accounts.all_accounts)
        return counts

    def flush(self) -> None:
        if self._lines and self._log is not None:
            self._log.put(self._lines, self._heading)
            self._lines, self._heading = [], tuple(self._in_force.values())

    def reopen(self) -> None:
        if self._log is not None:
            self.flush()
            self._log.reopen(self._heading)

    def close(self, timeout_s: float) -> None:
        self.flush()
        if self._log is not None:
            self._log.close(timeout_s)

    def _write(self, entry: LogEntry, account: ClassAccount) -> None:
        account.decisions[entry.decision] += 1
        account.bytes_sent += entry.size
        account.other_bytes += entry.size
        account.observe_service(entry.service_s)
        account.observe_wait(entry.queue_s)
        self._noted_s += entry.service_s
        self.statuses[entry.status] += 1
        if self._log is not None:
            self._lines.append(self._form.line(entry))
            if len(self._lines) >= BATCH_LINES:
                self.flush()

    # ---- request ids: each is the id of this life of the node and the next number

    def next_rid(self) -> RequestId:
        """A request id for a request that goes to another node, or that a full relay takes to an upstream server."""
        self._requests += 1
        return RequestId(self._life, self._requests)

    def next_id(self) -> tuple[int, str]:
        """The number and the text of a request id, for a plain relay, which most often needs no `RequestId`."""
        self._requests = number = self._requests + 1
        return number, f"{self._rid_prefix}{number}"

    def rid_of(self, number: int) -> RequestId:
        """The request id of a number from `next_id`, when the plain relay becomes a full one."""
        return RequestId(self._life, number)

    def _new_rid(self) -> str:
        """The text of a request id that only the log line has."""
        return self.next_id()[1]


def _details(head: RequestHead, upstream_s: float | None = None) -> RequestDetails:
    return RequestDetails(head.target, head.value("referer"), head.value("user-agent"), upstream_s)
