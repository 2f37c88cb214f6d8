"""``./dev bench store``: cost of a transaction on disk, compared with a plain append and fdatasync.

The baseline appends the same bytes to a file and calls fdatasync: no order, no index, no deletion, no checksum. Both
write in the same run and in the same directory, alternating every fifty transactions, so that variations of the disk
affect both. The CPU time is that of this process without waiting: the cost on an infinitely fast disk.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cluster.durable import Appended, Labelled, Record, Snapshotted, Truncated
from cluster.entries import pack_bodies
from cluster.names import ProcessId, ViewId
from cluster.run_log import Run
from cluster.runtime.disk.store import Purpose, Store

if TYPE_CHECKING:
    from collections.abc import Callable

SIZES = (1, 16, 64, 256)
BODY_BYTES = 150
TURN = 50
KEEP = 4_000  # entries in the order, as with snapshots every so often
ME, OTHER = ProcessId("a"), ProcessId("b")
VIEW = ViewId(7, "0123456789abcdef")
HEAD = ("entries", "of", "store", "plain", "ratio", "p90", "p90 plain", "per entry", "processor", "plain")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench store", description=__doc__)
    parser.add_argument("--transactions", type=int, default=300, help="transactions per figure")
    parser.add_argument(
        "--directory", type=Path, default=None, help="directory on the disk to measure (default: a temporary one)"
    )
    options = parser.parse_args(arguments)
    print("".join(f"{word:>10}" for word in HEAD))
    for size in SIZES:
        for origin in (OTHER, ME):
            with tempfile.TemporaryDirectory(dir=options.directory) as name:
                _measure(Path(name), size, origin, options.transactions)
    print("microseconds; times of a transaction are medians, CPU times are means")
    print("of others: runs of another member; own: labelled and ordered in one transaction")
    return 0


class Turns:
    """The store and the baseline, and the times of their transactions."""

    def __init__(self, directory: Path) -> None:
        self.store = Store.open(directory / "store", create_for=Purpose.JOINING, name="a", cluster_id="bench")
        self.plain = os.open(directory / "plain", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self.encode = msgspec.msgpack.Encoder().encode
        self.snapshot = os.urandom(20_000)

    def write(self, position: int, run: Run) -> None:
        records: list[Record] = [Labelled(run)] if run.origin == ME else []
        records.append(Appended(position, run))
        if position % KEEP < run.pack.count and position > KEEP:
            records += [Snapshotted(position, (), self.snapshot), Truncated(position - KEEP)]
        self.store.write(records)

    def append(self, _position: int, run: Run) -> None:
        os.write(self.plain, self.encode(run))
        os.fdatasync(self.plain)

    def close(self) -> None:
        self.store.close()
        os.close(self.plain)


def _measure(directory: Path, size: int, origin: ProcessId, transactions: int) -> None:
    turns = Turns(directory)
    entries = pack_bodies([os.urandom(BODY_BYTES) for _ in range(size)])
    runs = [(i * size, Run(VIEW, i * size + 1, origin, entries)) for i in range(transactions)]
    ours: list[tuple[float, float]] = []
    theirs: list[tuple[float, float]] = []
    for start in range(0, transactions, TURN):
        turn = runs[start : start + TURN]
        ours += [_timed(turns.write, *item) for item in turn]
        theirs += [_timed(turns.append, *item) for item in turn]
    turns.close()
    took, took_p90, cpu = _of(ours)
    base, base_p90, base_cpu = _of(theirs)
    whose = "others" if origin == OTHER else "own"
    print(
        f"{size:>10}{whose:>10}{took:>10.0f}{base:>10.0f}{took / base:>10.2f}{took_p90:>10.0f}{base_p90:>10.0f}"
        f"{took / size:>10.1f}{cpu:>10.0f}{base_cpu:>10.0f}"
    )


def _timed(action: Callable[[int, Run], None], position: int, run: Run) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    action(position, run)
    return time.perf_counter() - wall, time.process_time() - cpu


def _of(times: list[tuple[float, float]]) -> tuple[float, float, float]:
    """Median, 90th percentile, mean CPU time; in microseconds."""
    wall = sorted(1e6 * took for took, _ in times)
    return wall[len(wall) // 2], wall[len(wall) * 9 // 10], sum(1e6 * cpu for _, cpu in times) / len(times)
