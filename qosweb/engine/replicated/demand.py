"""Demand of a class, as the input to dividing the capacity.

A class demands what came recently, and what waits, started within HORIZON_MS:

    demand = (mean rate of arrivals + cost of what waits / HORIZON_MS) / capacity, in steps of 1/128.

Arrivals that were denied count too: they show what the class would use. What waits makes the demand of a class rise at
once, before the mean does, and keeps a class that gets too little from being limited to its past rate. A class that
waits does not demand everything: capacity that it would not use then belongs to the others, as a part of their shares,
and guarantees are multiples of these. A class that waits demands one step at least, so that it has a share.
Steps keep the demand, and so the shares, from changing with every request.

Always-available pages come first and are never denied: their arrival rate is their demand, even while some of their
requests wait for a channel. It is in steps of 1/32, and at least one step is always left to the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.engine.replicated.classes import ClassState

HORIZON_MS = 250
STEP_PPM = PPM // 128
ALWAYS_STEP_PPM = PPM // 32


def demand_ppm(one: ClassState, capacity_bps: int, *, always: bool = False) -> int:
    came_bps = one.came.per_s
    if not capacity_bps:
        return PPM if (came_bps or one.waiting) and not always else 0
    if always:
        return min(PPM - ALWAYS_STEP_PPM, came_bps * PPM // capacity_bps // ALWAYS_STEP_PPM * ALWAYS_STEP_PPM)
    asks_bps = came_bps + one.waiting_cost * 1000 // HORIZON_MS
    return min(PPM, max(asks_bps * PPM // capacity_bps // STEP_PPM, 1 if one.waiting else 0) * STEP_PPM)
