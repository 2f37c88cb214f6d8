"""Whether the clock of this node is that of its cluster: one line when it is not, and one when it is again.

The median of all clocks counts for conditions on the time of day (`qosweb.engine.replicated.compiled_policy`), so that
one that is wrong moves nothing; and nothing else depends on wall clocks. But the times in the logs are the node's own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.replicated.compiled_policy import median_wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qosweb.engine.replicated.pipes import Pipe

OFF_MS = 5_000  # more than that is worth a line
BACK_MS = 2_000


class ClockSkewMonitor:
    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._is_off = False

    def look(self, wall_ms: int, pipes: Iterable[Pipe]) -> None:
        """``wall_ms``: how the own clock stands to the cluster's time."""
        told = [pipe for pipe in pipes if pipe.capacity_bps]
        if not told:
            return
        ahead_ms = wall_ms - median_wall_ms(told)
        if not self._is_off and abs(ahead_ms) > OFF_MS:
            self._is_off = True
            where = "ahead of" if ahead_ms > 0 else "behind"
            self._say(
                f"the clock of this node is {abs(ahead_ms) / 1000:.0f} s {where} that of the cluster, which counts for "
                "conditions on the time of day; the times in this node's logs are its own: set its clock"
            )
        elif self._is_off and abs(ahead_ms) < BACK_MS:
            self._is_off = False
            self._say("the clock of this node is that of the cluster again")
