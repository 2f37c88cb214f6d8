"""Doorkeeper: admission control inside the process of an application.

The application is a server of the scope "node" to the engine: a request holds one of its slots from its start until its
handler is done. How many slots there are is found while it works, as for a server behind a proxy. Work is slot time.
A handler that takes longer than LONG_S (an event stream, a WebSocket) gives its slot back.

If a `capacity` in bytes per second is set by hand, there are channels of the rate `set channel` instead of slots. The
size of a response is unknown in advance: a request is charged with the mean of its class at its start, and with the
bytes really sent at its end.
Needs a running event loop from the first request on.
Above: `for_aiohttp`, `for_asgi`.  Below: `qosweb.admission`.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from http import HTTPStatus
from typing import TYPE_CHECKING

from multidict import CIMultiDict

from qosweb.admission import AdmissionControl, Clock, Denial, Permit, Wait
from qosweb.engine.local.requests import Phase
from qosweb.engine.replicated.compiled_policy import CompiledPolicy
from qosweb.engine.replicated.upstreams import UpstreamReport
from qosweb.errors import UsageError
from qosweb.http.forwarded import TrustedNetworks
from qosweb.http.hosts import parse_host
from qosweb.http.problems import preferred_json_type, problem_body
from qosweb.http.targets import BadTarget, parse_target
from qosweb.setting_values import parse_byte_rate, parse_networks
from qosweb.webqos import compile_policy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from qosweb.admission import Decided
    from qosweb.admission.gate import Servers

MEASURE_EVERY_S = 1.0
LONG_S = 10.0  # a handler that takes longer holds no slot
SLOTS_MAX = 1024
ERROR = 500  # responses from here on: the application failed
SERVERS = (("application", False),)  # the application as a pool of one server


class ApplicationRequest:
    """A request to an application. Implements `qosweb.admission.facts.RequestFacts`."""

    ticket = None  # there are no other nodes
    file = None

    def __init__(self, method: str, target: str, fields: Iterable[tuple[str, str]], client: str) -> None:
        """`target` is path and query as the client sent them; `client` is its address."""
        self.method = method
        self.client = client
        self.origin_form = target
        self._fields = CIMultiDict(fields)
        self.host = parse_host(self._fields.get("Host", "")) or ""
        self.path: str | None
        try:
            self.path = parse_target(target).path
        except BadTarget:
            self.path = None  # the request is in the default class

    def field_lines(self, name: str) -> list[str]:
        return self._fields.getall(name, [])


class Doorkeeper:
    """Admits the requests of one process according to one specification."""

    def __init__(
        self,
        spec: str,
        *,
        capacity: str | None = None,
        slots: int | None = None,
        source: str = "specification",
        trust_proxy: Iterable[str] = (),
    ) -> None:
        """Admit requests by the specification `spec`. Raises UsageError if it is invalid.

        How many requests run at a time is found, up to `slots`. `capacity` is a rate such as ``2MB/s`` instead:
        channels of this rate are divided, and nothing is found.

        `trust_proxy`: networks such as ``10.0.0.0/8``. The client of a request from there is the last other address in
        its X-Forwarded-For or Forwarded, as with ``qosweb serve --trust-proxy``. Leave it out if the server in which
        the application runs sets the client's address itself.
        """
        if spec.endswith(".webqos"):
            raise UsageError(f"{spec!r} is the name of a file, not a specification: use Doorkeeper.from_file")
        self._policy = _compile(source, spec)
        try:
            self._trusted = TrustedNetworks(parse_networks(",".join(trust_proxy)))
        except ValueError as error:
            raise UsageError(f"trust_proxy: {error}") from None
        try:
            self._capacity_bps = None if capacity is None else parse_byte_rate(capacity)
        except ValueError as error:
            raise UsageError(f"capacity: {error}") from None
        if slots is not None and (slots < 1 or capacity is not None):
            raise UsageError("slots: at least 1, and only without a capacity")
        self._slots = SLOTS_MAX if slots is None else slots
        self._running: deque[tuple[float, Permit]] = deque()  # by start: the slots given in the last LONG_S
        self._clock = Clock()
        self._control: AdmissionControl | None = None
        self._measuring: asyncio.Task[None] | None = None

    @classmethod
    def from_file(
        cls,
        path: str | Path,
        *,
        capacity: str | None = None,
        slots: int | None = None,
        trust_proxy: Iterable[str] = (),
    ) -> Doorkeeper:
        """Read the specification from a file. Raises UsageError if the file cannot be read or is invalid."""
        try:
            with open(path, encoding="utf-8") as file:
                text = file.read()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
            raise UsageError(f"{path}: {reason}") from None
        return cls(text, capacity=capacity, slots=slots, source=str(path), trust_proxy=trust_proxy)

    async def enter(self, request: ApplicationRequest) -> Permit | Denial:
        """Wait until the request may start or is denied. Close the permit when the request is over.

        Tell an error of the application by `Permit.leave_server(failed=True)` before.
        If the task is cancelled, the request leaves the queue.
        """
        control = self._opened()
        if request.client in self._trusted:
            fields = (request.field_lines(name) for name in ("X-Forwarded-For", "Forwarded"))
            request.client = self._trusted.client_of(request.client, *fields)
        now = self._clock.read()
        account = control.classify(request, now)
        control.record_access(request, now)
        decision: asyncio.Future[Decided] = asyncio.get_running_loop().create_future()

        def on_decided(decided: Decided, at: float) -> None:  # noqa: ARG001
            if not decision.done():
                decision.set_result(decided)
            elif isinstance(decided, Permit):  # the task was cancelled just before
                decided.close(0, is_sample=False)

        entered = control.enter(request, account, on_decided, servers=self._servers)
        if isinstance(entered, Wait):
            try:
                decided = await decision
            except asyncio.CancelledError:
                if decision.cancelled():
                    entered.cancel()
                elif isinstance(permit := decision.result(), Permit):
                    permit.close(0, is_sample=False)
                raise
        else:
            decided = entered
        assert isinstance(decided, Permit | Denial)  # there is no other node to go to
        if isinstance(decided, Permit) and self._servers is not None:
            self._running.append((self._clock.read(), decided))
        return decided

    def waiting(self) -> Counter[str]:
        """Number of waiting requests by class."""
        if self._control is None or self._control.engine is None:
            return Counter()
        engine = self._control.engine
        queue = engine.pipe_queue if self._servers is None else engine.slot_queue(self._servers)
        waiting = [request for request in queue.requests if request.phase in (Phase.WAITING, Phase.READY)]
        return Counter(engine.machine.classes[one.class_number].name for one in waiting)

    def change_policy(self, spec: str, source: str = "specification") -> None:
        """Use another specification from now on. Raises UsageError, and changes nothing, if it is invalid."""
        self._policy = _compile(source, spec)
        if self._control is not None:
            self._control.change_policy(self._policy)

    async def close(self) -> None:
        """Stop measuring and deciding. The next request opens the doorkeeper again."""
        if self._measuring is not None:
            self._measuring.cancel()
            await asyncio.gather(self._measuring, return_exceptions=True)
        if self._control is not None:
            self._control.close()
        self._control = self._measuring = None
        self._running.clear()

    @property
    def _servers(self) -> Servers | None:
        """The pool whose slots are divided; None: channels are."""
        return SERVERS if self._capacity_bps is None else None

    def _opened(self) -> AdmissionControl:
        """Admission control, created with the first request."""
        if self._control is not None:
            return self._control
        loop = asyncio.get_running_loop()
        self._control = control = AdmissionControl(
            loop, self._clock, self._policy, name="application", capacity_bps=self._capacity_bps,
            is_application=True,
        )  # fmt: skip
        control.report()
        assert control.driver is not None
        assert control.engine is not None
        if self._servers is not None:
            [(name, is_shared)] = self._servers
            control.engine.report_upstreams([UpstreamReport(name, "", is_shared, 1, self._slots, (), ())])
        control.driver.turn()
        self._measuring = loop.create_task(self._measure(control), name="doorkeeper")
        return control

    async def _measure(self, control: AdmissionControl) -> None:
        while True:
            await asyncio.sleep(MEASURE_EVERY_S)
            await control.sample_load()
            control.report()
            self._end_long(self._clock.read() - LONG_S)

    def _end_long(self, before: float) -> None:
        """Requests that started before this time hold no slot any longer."""
        while self._running and self._running[0][0] < before:
            _, permit = self._running.popleft()
            permit.leave_server(withdrawn=True)


def response_fields(decided: Permit | Denial) -> list[tuple[str, str]]:
    """The header fields of the response that tell the decision."""
    of_class = ("QoS-Class", decided.account.field_text)
    if isinstance(decided, Permit):
        return [of_class, ("QoS-Decision", "served")]
    return [of_class, *decided.fields, ("Vary", "Accept")]


def response_body(denial: Denial, request: ApplicationRequest) -> tuple[str, bytes]:
    """The media type and the body of a denial: text, or JSON if the client prefers it."""
    json_type = preferred_json_type(request.field_lines("Accept"), "text/plain")
    if json_type is None:
        return "text/plain; charset=utf-8", f"{denial.text}\n".encode()
    return json_type, problem_body(denial.status, HTTPStatus(denial.status).phrase, denial.text)


def _compile(source: str, spec: str) -> CompiledPolicy:
    policy = compile_policy(spec, source)
    if policy.model is None:
        raise UsageError(policy.render_diagnostics().rstrip())
    return CompiledPolicy.of_model(spec, policy.model)
