"""The limit of one server that one gateway uses alone: the Knee law with its samples.

With several gateways each has a `Sampler`, and one of them runs the `Knee` on all batches.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.laws.knee import LIMIT_MAX, Knee
from qosweb.engine.laws.service_samples import Sampler

if TYPE_CHECKING:
    from qosweb.engine.laws.knee import LimitDecision
    from qosweb.engine.laws.service_samples import Tag


class ServerLimit:
    """Calls for each request, and `tick` every 10 ms or so while there are any."""

    __slots__ = ("_sampler", "law")

    def __init__(self, limit_max: int = LIMIT_MAX) -> None:
        self.law = Knee(limit_max)
        self._sampler = Sampler()

    @property
    def limit(self) -> int:
        return self.law.limit

    def start(self, number: int, in_service: int, limited: bool) -> Tag:
        """A request starts; `in_service` includes it, `limited` says that it fills the last free slot."""
        return self._sampler.start(number, in_service, limited)

    def end(self, number: int, seconds: float, tag: Tag) -> None:
        self._sampler.end(number, seconds, tag)

    def fail(self, number: int, tag: Tag) -> None:
        """A request ended by an error or a time-out."""
        self._sampler.fail(number, tag)

    def tick(self, now_s: float, in_service: int) -> LimitDecision | None:
        self.law.absorb(self._sampler.take())
        decision = self.law.tick(now_s, in_service)
        if decision is not None:
            self._sampler.epoch = decision.epoch
        return decision

    def restart(self) -> None:
        """The server returns after it was ejected."""
        self.law.restart()

    def forget_classes(self) -> None:
        """The policy changed, and with it the numbers of the classes."""
        self._sampler.forget_classes()
        self.law.forget_classes()
