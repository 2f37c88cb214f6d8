"""Joint state: the running processes, whose layers the invariants read. State variables keep the papers' names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from cluster.names import ProcessId

if TYPE_CHECKING:
    from cluster.names import Label
    from cluster.stack import Process
    from cluster.total_order import TotalOrder

Joint = Mapping[ProcessId, "Process"]


def order_length(state: TotalOrder) -> int:
    return state.base + len(state.log)


def label_at(state: TotalOrder, position: int) -> Label | None:
    """order(position), or None if it was dropped or is not there yet."""
    i = position - state.base
    return state.log[i][0] if 0 <= i < len(state.log) else None
