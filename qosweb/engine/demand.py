"""What a class asks for, as the division of the capacity wants to know it.

A class that waits, or waited a moment ago, could use everything: it asks for the whole. One that does not wait asks for
what came of late, in steps of 1/32 of the capacity and one step more, so that the answer does not change with every
request and a class on the rise is not held to what it used to want. What it asks for decides only how the others divide
the rest; a class that does not wait is served at once whatever its share. So is one that is always available: it asks
for what came of late even while it waits, or a moment's wait of it would leave the others no shares at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.engine.classes import ClassState

BACKLOG_MS = 250
STEP_PPM = PPM // 32


def demand_ppm(one: ClassState, capacity_bps: int, now_ms: int, *, always: bool = False) -> int:
    if not always and (one.waiting or now_ms - one.backlog_ms < BACKLOG_MS):
        return PPM
    came = one.came.per_s
    if not came:
        return 0
    if not capacity_bps:
        return PPM
    return min(PPM, (came * PPM // capacity_bps // STEP_PPM + 2) * STEP_PPM)
