"""``./dev bench switching``: how soon a class that begins to ask has its share, and how soon it flows when it stops.

Promised: 100 ms each way. An answer on its way keeps its channel, here for some 98 ms, which comes on top of that where
the rate of a class is looked at. A machine that is busy otherwise adds to it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.support.machine import Stalls
from tests.support.switching import Switch, medians, switches

ROWS = (
    ("until the first answer begins", "started"),
    ("until the class has its share of the pipe", "taken"),
    ("from its last start until the other has all", "left"),
    ("of the pipe's time lost after that", "lost"),
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench switching", description=__doc__)
    parser.add_argument("--bursts", type=int, default=20, help="how often the class begins and stops")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as scratch, Stalls() as stalls:
        found = switches(Path(scratch), options.bursts, stalls)
    print(f"Milliseconds, {len(found)} switches.")
    print(f"{'':<46}{'median':>8}{'worst':>8}")
    middle, worst = medians(found), Switch(*(max(column) for column in zip(*found, strict=True)))
    for label, field in ROWS:
        print(f"{label:<46}{getattr(middle, field):>8.0f}{getattr(worst, field):>8.0f}")
    return 0
