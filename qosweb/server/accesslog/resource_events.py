"""Decides when the access log gets an event about a resource: contention begins or ends, or its limit has changed.

Resources are sampled. Each has an event at first, and then at most one every EVERY_S. Contention ends when no sample
has shown it for CALM_S: a queue that is empty for a moment is no end. Knee's dips are no change of a limit.
Neighbours: `recorder` writes the lines; `qosweb.admission.resources` has the states.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from qosweb.admission.resources import LimitSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qosweb.admission.resources import ResourceState

SAMPLE_EVERY_S = 0.1
EVERY_S = 1.0
CALM_S = 1.0
MATERIAL = 0.1  # of the limit
MEASURED_MATERIAL = 0.5  # of a limit that is a rough estimate


@dataclass(slots=True)
class _LoggedResource:
    """A resource as the log has it."""

    logged: ResourceState
    logged_at: float
    contended_at: float = 0.0  # of the last sample that showed contention


class ResourceEvents:
    """Samples the resources of one node and passes on the changes to log."""

    def __init__(self, sample: Callable[[], Iterable[ResourceState]], log: Callable[[ResourceState], None]) -> None:
        self._sample = sample
        self._log = log
        self._known: dict[str, _LoggedResource] = {}

    async def run(self) -> None:
        while True:
            self.observe(self._sample(), perf_counter())
            await asyncio.sleep(SAMPLE_EVERY_S)

    def observe(self, states: Iterable[ResourceState], now: float) -> None:
        for state in states:
            known = self._known.get(state.name)
            if known is None:
                if state.limit:
                    known = self._known[state.name] = _LoggedResource(state, now)
                    self._log(state)
            elif self._is_due(known, state, now):
                known.logged, known.logged_at = state, now
                self._log(state)
            if known is not None and state.cause is not None:
                known.contended_at = now

    def _is_due(self, known: _LoggedResource, state: ResourceState, now: float) -> bool:
        if now < known.logged_at + EVERY_S:
            return False
        before = known.logged
        if state.cause is None and before.cause is not None and now < known.contended_at + CALM_S:
            return False  # perhaps only a gap
        if state.cause is not before.cause or state.pool != before.pool or state.found is not before.found:
            return True
        material = MEASURED_MATERIAL if state.found is LimitSource.MEASURED else MATERIAL
        return abs(state.limit - before.limit) > material * before.limit
