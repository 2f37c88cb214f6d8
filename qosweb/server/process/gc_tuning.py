"""When Python's cycle collector looks: what exists once a node serves stays, and requests leave few cycles behind."""

from __future__ import annotations

import gc

COLLECT_AFTER = (20_000, 20, 50)


def look_seldom() -> None:
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECT_AFTER)
