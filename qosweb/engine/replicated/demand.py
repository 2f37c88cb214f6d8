"""What a class asks for, as the division of the capacity wants to know it.

A class that waits, or waited a moment ago, could use everything: it asks for the whole. One that does not wait asks for
what came of late, in steps of 1/32 of the capacity and one step more, so that the answer does not change with every
request and a class on the rise is not held to what it used to want. What it asks for decides only how the others divide
the rest; a class that does not wait is served at once whatever its share.

Pages that are always available come first and are never turned away: what came of them is what they want, also while
some of it waits for a channel. If they asked for the whole, nothing would be left that the others could divide as it is
promised; so a step is left to these in any case.
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
