"""Who may enter an application now: the engine of a node, without the node.

The pipe is what `capacity` says, in bytes per second, or what is measured; it holds as many channels as `set channel`
fits into it, and a request has one from when it may start until its handler is done. What a request will cost is not
known before it is answered: it is charged with the mean of its class, and with what it really sent when it ends.
Needs a running event loop from the first request on. Neighbours: `for_aiohttp`, `for_asgi` ask;
`qosweb.admission.qos_gate` decides.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from aiohttp.http import HttpVersion11, RawRequestMessage
from multidict import CIMultiDict, CIMultiDictProxy
from yarl import URL

from cluster.names import ProcessId
from qosweb.admission.capacity_meter import CapacityMeter
from qosweb.admission.capacity_report import CapacityReporter
from qosweb.admission.class_accounts import ClassAccounts, field_text
from qosweb.admission.classifier import Classifier
from qosweb.admission.clock import Clock
from qosweb.admission.engine_driver import EngineDriver
from qosweb.admission.qos_gate import QosGate, denial_fields, denial_status, denial_words
from qosweb.admission.redirects import Redirects
from qosweb.engine.engine import Engine
from qosweb.engine.local.requests import Deny, Phase
from qosweb.engine.replicated.compiled_policy import CompiledPolicy
from qosweb.errors import UsageError
from qosweb.http.hosts import parse_host
from qosweb.http.targets import BadTarget, parse_target
from qosweb.server.process.console import say
from qosweb.server.request.exchange import WAITING, Exchange
from qosweb.settings import parse_byte_rate
from qosweb.webqos import compile_policy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from cluster.names import View
    from qosweb.engine.replicated.effects import EntryRejected, Reported
    from qosweb.server.accesslog.recorder import ClassAccount
    from qosweb.webqos import Environment

MEASURE_EVERY_S = 1.0


class Asked(NamedTuple):
    """What a specification may ask of a request."""

    method: str
    target: str  # path and query, as they were sent
    fields: list[tuple[str, str]]
    client: str  # an address


class Place:
    """What became of one request: `denial` is why it may not enter; else `leave` is to be called, once, at its end."""

    def __init__(self, door: Doorkeeper, exchange: Exchange, account: ClassAccount) -> None:
        self._door = door
        self._exchange = exchange
        self.class_name = account.name

    @property
    def denial(self) -> Deny | None:
        decision = self._exchange.decision
        return decision if isinstance(decision, Deny) else None

    @property
    def status(self) -> int:
        """Of the answer to one that is denied."""
        return 503 if self.denial is None else denial_status(self.denial)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """What its answer is to say of the decision."""
        of_class = ("QoS-Class", field_text(self.class_name))
        if self.denial is None:
            return [of_class, ("QoS-Decision", "served")]
        return [of_class, *denial_fields(self.denial)]

    @property
    def words(self) -> str:
        """For the person who is denied."""
        return "" if self.denial is None else f"{denial_words(self.denial)}\n"

    def leave(self, size: int) -> None:
        """It is over, after so many bytes of body."""
        self._door.left(self._exchange, size)


class Doorkeeper:
    """Decides by one specification, for one process."""

    def __init__(self, spec: str, *, capacity: str | None = None, source: str = "specification") -> None:
        """`capacity` is a rate such as ``2MB/s``; without one it is measured. Raises UsageError for a bad `spec`."""
        self._law = _law_of(source, spec)
        try:
            self._capacity_bps = None if capacity is None else parse_byte_rate(capacity)
        except ValueError as error:
            raise UsageError(f"capacity: {error}") from None
        self._room: EngineDriver | None = None
        self._chores: asyncio.Task[None] | None = None
        self._policy: ClassAccounts
        self._gate: QosGate
        self._meter: CapacityMeter
        self._clock: Clock

    @classmethod
    def from_file(cls, path: str | Path, *, capacity: str | None = None) -> Doorkeeper:
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise UsageError(f"{path}: {reason}") from None
        return cls(text, capacity=capacity, source=str(path))

    # ---- requests

    async def enter(self, asked: Asked) -> Place:
        """Wait until it may enter, or may not. Cancelled: it waits no more."""
        room = self._opened()
        exchange = self._exchange_of(asked)
        account = self._policy.account_of(exchange)
        self._policy.labels.note(exchange, exchange.started)
        waiter: asyncio.Future[None] | None = None

        def resumed(_exchange: Exchange) -> None:
            if waiter is not None and not waiter.done():
                waiter.set_result(None)

        exchange.resume = resumed
        while self._gate.admit(exchange, account) is WAITING:
            waiter = asyncio.get_running_loop().create_future()
            try:
                await waiter
            except asyncio.CancelledError:
                if exchange.forget is not None:
                    exchange.forget()
                self._gate.finish(exchange, 0)
                raise
        place = Place(self, exchange, account)
        if place.denial is None:
            exchange.admitted = True
            account.in_service += 1
            self._meter.began(exchange, room.clock.read())
        return place

    def left(self, exchange: Exchange, size: int) -> None:
        if not exchange.admitted:
            return
        self._gate.finish(exchange, size)
        self._meter.ended(exchange, size, self._clock.read(), counts=True)
        exchange.admitted = False
        self._policy.account_of(exchange).in_service -= 1

    def _exchange_of(self, asked: Asked) -> Exchange:
        headers = CIMultiDictProxy(CIMultiDict(asked.fields))
        message = RawRequestMessage(
            asked.method, asked.target, HttpVersion11, headers, (), False, None, False, False, URL("/")
        )
        now = self._clock.read()
        exchange = Exchange(message, False, asked.client, now, now, lambda _exchange: None)
        exchange.host = parse_host(headers.get("Host", "")) or ""
        try:
            exchange.target = parse_target(asked.target)
        except BadTarget:
            exchange.target = None  # it is in the class of what nobody speaks of
        return exchange

    # ---- what can be seen and changed

    def waiting(self) -> Counter[str]:
        """How many wait, by class."""
        if self._room is None:
            return Counter()
        engine = self._room.engine
        waiting = [one for one in engine.admission.requests if one.phase in (Phase.WAITING, Phase.READY)]
        return Counter(engine.machine.classes[one.class_number].name for one in waiting)

    def change_policy(self, spec: str, source: str = "specification") -> None:
        """From now on. Raises UsageError for a bad one, and changes nothing then."""
        self._law = _law_of(source, spec)
        if self._room is not None:
            self._room.engine.change_policy(self._law)
            self._room.turn()

    async def close(self) -> None:
        if self._chores is not None:
            self._chores.cancel()
            await asyncio.gather(self._chores, return_exceptions=True)
        if self._room is not None:
            self._room.close()
        self._room = self._chores = None

    # ---- the engine

    def _opened(self) -> EngineDriver:
        """The room of the engine, from the first request on."""
        if self._room is not None:
            return self._room
        loop = asyncio.get_running_loop()
        self._clock = Clock()
        self._policy = ClassAccounts(self._labels(self._law))
        engine = Engine(ProcessId("application"), self._law, self, is_member=False)
        self._room = EngineDriver(loop, engine, self._clock)
        self._gate = QosGate(self._room, self._policy, Redirects(say), paces=False)
        self._meter = CapacityMeter(self._capacity_bps)
        reporter = CapacityReporter(self._room, self._meter, self._clock)
        reporter.report()
        self._room.turn()
        self._chores = loop.create_task(self._measure(reporter), name="doorkeeper")
        return self._room

    async def _measure(self, reporter: CapacityReporter) -> None:
        while True:
            await asyncio.sleep(MEASURE_EVERY_S)
            await asyncio.to_thread(self._meter.watch.look)
            reporter.report()

    def _labels(self, law: CompiledPolicy) -> Classifier:
        return Classifier(self._clock, law.model, text=law.text, noted=self._noted, environment=self._environment)

    def _noted(self, page_sets: Iterable[int]) -> None:
        if self._room is not None:
            self._room.accessed(page_sets)

    def _environment(self) -> Environment:
        assert self._room is not None
        return self._room.engine.machine.environment

    # ---- what the engine tells

    def policy_changed(self, position: int, law: CompiledPolicy) -> None:  # noqa: ARG002
        self._policy.change(self._labels(law))

    def viewed(self, position: int, view: View) -> None: ...
    def reported(self, effect: Reported) -> None: ...
    def refused(self, effect: EntryRejected) -> None: ...


def _law_of(source: str, spec: str) -> CompiledPolicy:
    policy = compile_policy(spec, source)
    if policy.model is None:
        raise UsageError(policy.render_diagnostics().rstrip())
    return CompiledPolicy.of_model(spec, policy.model)
