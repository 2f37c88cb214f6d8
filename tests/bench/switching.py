"""``./dev bench switching``: how soon a class that begins to ask has its share, and how soon it flows when it stops.

Promised: 100 ms each way. An answer on its way keeps its channel, which comes on top of that where the rate of a class
is looked at: measured with answers that take 25 ms and 100 ms. A machine that is busy otherwise adds to it.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from tests.support.machine import Stalls
from tests.support.switching import Switch, medians, switches

ANSWERS_MS = (25, 100)
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
    for answer_ms in ANSWERS_MS:
        with tempfile.TemporaryDirectory() as scratch, Stalls() as stalls:
            found = switches(Path(scratch), options.bursts, answer_ms, stalls)
        print(f"Milliseconds, {len(found)} switches, answers of {answer_ms} ms")
        print(f"{'':<46}{'median':>8}{'worst':>8}")
        middle, worst = medians(found), Switch(*(max(column) for column in zip(*found, strict=True)))
        for label, field in ROWS:
            print(f"{label:<46}{getattr(middle, field):>8.0f}{getattr(worst, field):>8.0f}")
    return 0
