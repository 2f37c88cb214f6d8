"""Clock skew monitor: warns when this node's wall clock differs from the cluster's, and when it is right again.

Conditions on the time of day use the median of all nodes' clocks (`qosweb.engine.replicated.compiled_policy`), so a
single wrong clock has no effect on them. Nothing else depends on wall clocks, except the times in the node's own logs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.replicated.compiled_policy import median_wall_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qosweb.engine.replicated.pipes import Pipe

OFF_MS = 5_000  # warn above this skew
BACK_MS = 2_000  # report recovery below this skew


class ClockSkewMonitor:
    def __init__(self, log_message: Callable[[str], None]) -> None:
        self._log_message = log_message
        self._is_off = False

    def check(self, wall_ms: int, pipes: Iterable[Pipe]) -> None:
        """Compare the clocks. ``wall_ms`` is this node's wall clock less the cluster's time."""
        reported = [pipe for pipe in pipes if pipe.capacity_bps]
        if not reported:
            return
        ahead_ms = wall_ms - median_wall_ms(reported)
        if not self._is_off and abs(ahead_ms) > OFF_MS:
            self._is_off = True
            where = "ahead of" if ahead_ms > 0 else "behind"
            self._log_message(
                f"the clock of this node is {abs(ahead_ms) / 1000:.0f} s {where} the cluster's; set it: the times in "
                "this node's logs are wrong (conditions on the time of day use the cluster's clock)"
            )
        elif self._is_off and abs(ahead_ms) < BACK_MS:
            self._is_off = False
            self._log_message("the clock of this node agrees with the cluster's again")
