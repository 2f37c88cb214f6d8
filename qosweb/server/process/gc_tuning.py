"""Garbage collector tuning for a long-running server: freezes start-up objects and collects rarely.

Objects that exist when a node begins to serve mostly stay, and requests leave few reference cycles behind.
"""

from __future__ import annotations

import gc

COLLECT_AFTER = (20_000, 20, 50)


def tune_for_serving() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
