"""Request facts for tests of admission control, without a server."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from qosweb.admission import AdmissionControl, Clock
from tests.engine.driver import policy_of

if TYPE_CHECKING:
    from qosweb.admission import Decided, Wait
    from qosweb.admission.facts import FileFacts
    from qosweb.admission.gate import SendThrottle


@dataclass
class Facts:
    path: str | None = "/a"
    method: str = "GET"
    host: str = "shop.example"
    client: str = "192.0.2.1"
    ticket: str | None = None
    file: FileFacts | None = None
    fields: dict[str, list[str]] = field(default_factory=dict)

    @property
    def origin_form(self) -> str:
        return self.path or ""

    def field_lines(self, name: str) -> list[str]:
        return self.fields.get(name, [])


@dataclass
class File:
    size: int = 0
    mtime_ns: int = 0
    owner: str | None = None


class Door:
    """Admission control with one specification; `decided` has the outcomes that followed a wait."""

    def __init__(
        self,
        spec: str | None,
        capacity_bps: int,
        *,
        throttle: SendThrottle | None = None,
        finds_processor: bool = False,
    ) -> None:
        self.clock = Clock()
        policy = None if spec is None else policy_of(spec)
        loop = asyncio.get_running_loop()
        self.control = AdmissionControl(
            loop, self.clock, policy, name="a", capacity_bps=capacity_bps, throttle=throttle,
            finds_processor=finds_processor,
        )  # fmt: skip
        self.decided: list[Decided] = []
        if self.control.driver is not None:
            self.control.report()
            self.control.driver.turn()

    def enter(self, path: str = "/a", size: int | None = None) -> Decided | Wait:
        facts = Facts(path)
        account = self.control.classify(facts, self.clock.read())
        return self.control.enter(facts, account, self._on_decided, size=size)

    def _on_decided(self, decided: Decided, at: float) -> None:
        assert at <= self.clock.read()
        self.decided.append(decided)
