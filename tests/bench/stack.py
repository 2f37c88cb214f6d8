"""``./dev bench stack``: CPU time of one broadcast in the pure protocol stack, in total and by layer.

Three processes in one thread on an ideal network: every figure is the CPU time of all three together, per entry that
all three delivered. The baseline is the minimum for three machines: one sends each batch, the others append it, with
the same encoding on the way, without any guarantee.
"""

from __future__ import annotations

import argparse
import cProfile
import pstats
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cluster.entries import pack_bodies
from cluster.messages import Batch
from cluster.settings import Settings
from tests.cluster.ideal import Ideal

if TYPE_CHECKING:
    from collections.abc import Callable

ORDERS = ("atop", "sequencer")
SIZES = (1, 10, 100)
BODY = b"x" * 50


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench stack", description=__doc__)
    parser.add_argument("--entries", type=int, default=20_000, help="entries for each figure")
    options = parser.parse_args(arguments)
    print(f"{'order':<11}{'frames':<9}{'batch':>6}{'per entry':>13}{'per broadcast':>16}{'plain':>11}{'ratio':>8}")
    for order in ORDERS:
        for wire in (False, True):
            for size in SIZES:
                _measure(order, wire, size, options.entries)
    print("\nprofile (batches of 10, frames as objects), share of CPU time by file:")
    for order in ORDERS:
        _profile(order, options.entries // 4)
    return 0


def _settings(order: str) -> Settings:
    return Settings(order=order, snapshot_every=5_000, window=64)


def _measure(order: str, wire: bool, size: int, entries: int) -> None:
    group = Ideal("abc", _settings(order), wire=wire)
    ours = min(_seconds(_batches(group, size, entries)) for _ in range(3))
    assert group.resolved == 3 * (entries // size) * size, "not everything was delivered"
    plain = min(_seconds(_plain(wire, size, entries)) for _ in range(3))
    count = entries // size * size
    print(
        f"{order:<11}{'msgpack' if wire else 'objects':<9}{size:>6}{ours / count * 1e6:>10.1f} us"
        f"{ours / count * size * 1e6:>13.1f} us{plain / count * 1e6:>8.2f} us{ours / plain:>8.1f}"
    )


def _batches(group: Ideal, size: int, entries: int) -> Callable[[], None]:
    """Submits entries to one process at a time, `size` at once, so that they travel as one message."""
    processes = list(group.processes.values())

    def run() -> None:
        for i in range(entries // size):
            processes[i % len(processes)].submit_all(group.now, [BODY] * size)
            group.settle()

    return run


def _plain(wire: bool, size: int, entries: int) -> Callable[[], None]:
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder(Batch).decode
    logs: list[list[bytes]] = [[], [], []]

    def run() -> None:
        for i in range(entries // size):
            batch = Batch(i, pack_bodies([BODY] * size))
            frame = encode(batch) if wire else b""
            for receiver in range(3):
                got = decode(frame) if wire and receiver != i % 3 else batch
                logs[receiver].extend(got.pack.bodies())

    return run


def _seconds(run: Callable[[], None]) -> float:
    start = time.process_time()
    run()
    return time.process_time() - start


def _profile(order: str, entries: int) -> None:
    group = Ideal("abc", _settings(order))
    run = _batches(group, 10, entries)
    profile = cProfile.Profile()
    profile.runcall(run)
    spent: Counter[str] = Counter()
    for (file, _, _), (_, _, own, *_) in pstats.Stats(profile).stats.items():  # type: ignore[attr-defined]
        spent["built in" if file == "~" else Path(file).name] += own
    total = sum(spent.values())
    print(f"  {order}: " + ", ".join(f"{file} {own / total:.0%}" for file, own in spent.most_common(12)))
