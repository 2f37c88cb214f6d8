"""Demand of a class, as the input to dividing the capacity.

A class that waits, or waited a moment ago, could use everything: its demand is the whole capacity. The demand of a
class that does not wait is its recent arrival rate, in steps of 1/32 of the capacity and one step more. So the demand
does not change with every request, and a class on the rise is not limited to its past rate. The demand of such a class
only decides how the others divide the rest; a class that does not wait is served at once whatever its share.

Always-available pages come first and are never denied: their arrival rate is their demand, even while some of their
requests wait for a channel. If they demanded the whole capacity, nothing would be left to divide among the others as
guaranteed. So at least one step is always left to the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.engine.replicated.classes import ClassState

BACKLOG_MS = 250
STEP_PPM = PPM // 32


def demand_ppm(one: ClassState, capacity_bps: int, now_ms: int, *, always: bool = False) -> int:
    if always:
        return min(PPM - STEP_PPM, one.came.per_s * PPM // capacity_bps // STEP_PPM * STEP_PPM) if capacity_bps else 0
    if one.waiting or now_ms - one.backlog_ms < BACKLOG_MS:
        return PPM
    came = one.came.per_s
    if not came:
        return 0
    if not capacity_bps:
        return PPM
    return min(PPM, (came * PPM // capacity_bps // STEP_PPM + 2) * STEP_PPM)
