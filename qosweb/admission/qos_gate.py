"""The gate of a node that keeps promises: the engine decides who starts.

A plain request passes while nobody waits: that is one look into a list, and what passed is counted afterwards, from the
accounts. Any other starts at once if it may, or waits here, without a task, until the engine calls.
Neighbours: `stages.admit` asks, `connection` says when it is over, `engine_driver` carries what the engine has to tell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.local.requests import Decision, Deny, GoTo, Phase, Request, Start
from qosweb.server.request.answers import Answer, explain
from qosweb.server.request.exchange import WAITING, Exchange, Waiting
from qosweb.webqos.policy.environment import REQUEST_BYTES

if TYPE_CHECKING:
    from qosweb.admission.class_accounts import ClassAccounts
    from qosweb.admission.engine_driver import EngineDriver
    from qosweb.admission.redirects import Redirects
    from qosweb.server.accesslog.recorder import ClassAccount
    from qosweb.server.proxy.forward import ForwardTarget

MEAN_OF = 8  # answers, roughly
HEAD_BYTES = 256  # what a request costs beside its body, as long as nobody has measured it


class QosGate:
    __slots__ = ("_counted", "_means", "_opens", "_policy", "_room", "_visits", "fixed_bytes", "in_service", "paces")

    def __init__(self, room: EngineDriver, policy: ClassAccounts, visits: Redirects, *, paces: bool) -> None:
        self._room = room
        self._policy = policy
        self._visits = visits
        self.paces = paces  # answers leave at the rate of their channel
        self.fixed_bytes = HEAD_BYTES
        self.in_service = 0
        self._opens: list[bool] = []  # by class: whether a plain request may start at once
        self._counted: dict[str, tuple[int, int]] = {}  # plain requests and their bytes that the engine knows of
        self._means: dict[str, int] = {}  # by class: what answers that are no files were long, of late
        room.changed = self.renew

    # ---- the fast path

    def start(self, account: ClassAccount) -> bool:
        """A plain request: it starts and is over at once, or takes the way through the stages."""
        return self._opens[account.number]

    def renew(self) -> None:
        """Something has changed that decides who may start at once."""
        admission = self._room.engine.admission
        self._opens = [not self.paces and admission.is_open_to(number) for number in range(len(self._policy.accounts))]

    def count_plain(self) -> None:
        """Tell the engine of the plain requests since the last time."""
        admission = self._room.engine.admission
        for account in self._policy.accounts:
            served, size = account.plain_served, account.plain_bytes
            before = self._counted.get(account.name, (0, 0))
            if served != before[0]:
                count = served - before[0]
                admission.served(account.number, count, size - before[1] + count * self.fixed_bytes)
                self._counted[account.name] = served, size

    # ---- the stages

    def admit(self, exchange: Exchange, account: ClassAccount) -> Answer | ForwardTarget | Waiting | None:
        """None: it starts. WAITING: it is resumed with a decision. An answer: it may not, or not here."""
        if exchange.decision is None:
            step = self._ask(exchange, account)
            if step is not None:
                return step
        decision = exchange.decision
        match decision:
            case Start(rate_bps, since_s):
                exchange.rate_bps = rate_bps if self.paces else None
                exchange.fixed_bytes = self.fixed_bytes
                exchange.channel_since = since_s
                self.in_service += 1
                return None
            case GoTo():
                return self._visits.send_there(exchange, decision, account)
            case Deny():
                exchange.outcome = "expired" if decision.is_expired else "denied"
                account.reasons[decision.reason] += 1
                return denial(decision)
        return None

    def _ask(self, exchange: Exchange, account: ClassAccount) -> Waiting | None:
        self._room.look()
        admission = self._room.engine.admission
        cost = self.fixed_bytes + self._size(exchange, account)
        self._visits.look_at_ticket(exchange)
        visit = exchange.ticket
        if visit is not None and visit.class_number < len(self._policy.accounts):
            account = exchange.account = self._policy.accounts[visit.class_number]  # here it has another host
        request: Request | Deny | None = None
        if visit is not None:
            admission.now_ms = self._room.now_ms()
            decided = self._decided_of(exchange)
            request = admission.visit(visit.owner, visit.number, account.number, cost, decided, visit.left_ms)
        if request is None:
            request = admission.start_at_once(account.number, cost)
        if request is None:
            request = admission.submit(account.number, cost, self._room.now_ms(), self._decided_of(exchange))
        if isinstance(request, Deny):
            exchange.decision = request
            self._room.poke()
            return None
        exchange.request = request
        self._room.poke()
        if request.phase is Phase.RUNNING:
            exchange.decision = Start(request.rate_bps)
            return None
        self.renew()  # somebody waits now
        exchange.forget = lambda: self._forget(exchange, request)
        return WAITING

    def _decided_of(self, exchange: Exchange) -> _Decided:
        return _Decided(exchange, self._room)

    def _forget(self, exchange: Exchange, request: Request) -> None:
        """Its client is gone, or the node ends."""
        exchange.forget = None
        self._room.engine.admission.cancel(request)
        self._room.poke()

    def finish(self, exchange: Exchange, size: int) -> None:
        """The exchange is over, after so many bytes of body, whether or not it was admitted."""
        self.in_service -= exchange.admitted
        request, exchange.request = exchange.request, None
        if request is None:
            return
        admission = self._room.engine.admission
        admission.now_ms = self._room.now_ms()  # who starts next may be late already
        if exchange.admitted:
            admission.finish(request, self.fixed_bytes + size, exchange.channel_until)
            if exchange.resource is None and exchange.account is not None and not exchange.is_head:
                mean = self._means.get(exchange.account.name, size)
                self._means[exchange.account.name] = mean + (size - mean) // MEAN_OF
        else:
            admission.cancel(request)  # it may have been decided a moment before its client left
        self._room.poke()

    def _size(self, exchange: Exchange, account: ClassAccount) -> int:
        """Of the answer: that of the file, or what others of its class had."""
        if exchange.is_head:
            return 0
        if exchange.resource is None:
            return self._means.get(account.name, REQUEST_BYTES)
        return exchange.resource.plain.size


class _Decided:
    """The engine's call for one exchange that waits."""

    __slots__ = ("_exchange", "_room")

    def __init__(self, exchange: Exchange, room: EngineDriver) -> None:
        self._exchange = exchange
        self._room = room

    def __call__(self, decision: Decision) -> None:
        exchange = self._exchange
        if exchange.forget is None:  # decided at once, before it began to wait
            return
        exchange.forget = None
        exchange.decision = decision
        exchange.started = self._room.clock.read()
        self._room.resume(exchange)


def denial(decision: Deny) -> Answer:
    return explain(denial_status(decision), denial_words(decision), denial_fields(decision))


def denial_status(decision: Deny) -> int:
    return 429 if decision.is_of_client else 503


def denial_words(decision: Deny) -> str:
    return f"The request was not served: {decision.because}"


def denial_fields(decision: Deny) -> list[tuple[str, str]]:
    return [("Retry-After", str(max(1, decision.retry_s))), ("QoS-Decision", f"denied; reason={decision.reason}")]
