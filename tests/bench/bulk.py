"""``./dev bench bulk``: a large file to several receivers, compared with udpcast, uftp and TCP to each receiver.

Sender and receivers are processes in network namespaces on a bridge. A token bucket limits the sender's interface.
Packets are lost at random on the way to each receiver, independently. Bytes on the wire are those of the Ethernet
frames of all interfaces, so with NAKs, and with the control traffic of the group. Goals are for medians.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from loadgen.experiments.namespaces import NamespacesUnavailable
from tests.bench.bulk_contenders import CONTENDERS, Run, Transfer, median
from tests.bench.bulk_network import BulkNetwork

LINE_MBIT = 300
WIRE_MAX = {0.0: 1.08, 1.0: 1.15}  # times the content, by loss in percent
GOODPUT_MIN = 0.8  # of the line, without loss
NAKS_MAX = 1.5  # for each lost packet


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench bulk", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=float, default=200, metavar="MB")
    parser.add_argument("--receivers", type=int, nargs="*", default=[3, 7], metavar="N")
    parser.add_argument("--loss", type=float, nargs="*", default=[0.0, 1.0, 5.0], metavar="PERCENT")
    parser.add_argument("--only", nargs="*", choices=sorted(CONTENDERS), default=list(CONTENDERS))
    parser.add_argument("--runs", type=int, default=3, metavar="N")
    chosen = parser.parse_args(arguments)
    print(f"{chosen.size:g} MB, {LINE_MBIT} Mbit/s at the sender. wire: bytes of all frames / content")
    print(f"{'':<9} {'receivers':>9} {'loss %':>6} {'seconds':>8} {'Mbit/s':>7} {'wire':>6} {'CPU s':>7} "
          f"{'sender':>7} {'NAKs':>6} {'lost':>7} {'NAKs/lost':>9}")  # fmt: skip
    missed = []
    with tempfile.TemporaryDirectory(prefix="bench-bulk-") as folder:
        content = Path(folder, "content.bin")
        with content.open("wb") as file, Path("/dev/urandom").open("rb") as random:
            for _ in range(int(chosen.size)):
                file.write(random.read(1_000_000))
        for receivers in chosen.receivers:
            names = chosen.only if receivers == chosen.receivers[0] else ["bulk"]
            for loss in chosen.loss:
                try:
                    missed += _compare(names, chosen.runs, receivers, loss, content)
                except NamespacesUnavailable as error:
                    print(f"no network namespaces: {error}", file=sys.stderr)
                    return 2
    for line in missed:
        print(f"goal missed: {line}")
    return 1 if missed else 0


def _compare(names: list[str], runs: int, receivers: int, loss: float, content: Path) -> list[str]:
    """Runs the contenders in turn, prints runs and medians, and returns the goals that were missed."""
    found: dict[str, list[Transfer]] = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            try:
                one = _run(name, receivers, loss, content)
            except FileNotFoundError as error:
                print(f"{name:<9} not installed: {error.filename}")
                continue
            found[name].append(one)
            _print(name, receivers, loss, one)
    medians = {name: median(transfers) for name, transfers in found.items() if transfers}
    if runs > 1:
        print(f"medians of {runs}")
        for name, one in medians.items():
            _print(name, receivers, loss, one)
    return _missed_goals(receivers, loss, medians["bulk"]) if "bulk" in medians else []


def _run(name: str, receivers: int, loss: float, content: Path) -> Transfer:
    with (
        BulkNetwork(receivers, LINE_MBIT, loss) as network,
        tempfile.TemporaryDirectory(dir=content.parent) as place,
        Run(network, content, Path(place)) as run,
    ):
        return CONTENDERS[name](run)


def _print(name: str, receivers: int, loss: float, found: Transfer) -> None:
    naks = (
        f"{found.naks:>6} {found.lost:>7.0f} {found.naks / max(1, found.lost):>9.2f}" if found.naks is not None else ""
    )
    print(f"{name:<9} {receivers:>9} {loss:>6g} {found.seconds:>8.2f} {found.mbit_s:>7.1f} {found.wire:>6.3f} "
          f"{found.cpu_s:>7.2f} {found.sender_cpu_s:>7.2f} {naks} {found.absent} {found.note}", flush=True)  # fmt: skip


def _missed_goals(receivers: int, loss: float, found: Transfer) -> list[str]:
    where = f"{receivers} receivers, {loss:g} % loss"
    missed = [f"{where}: the file is {found.absent}"] if found.absent else []
    if receivers == 3 and found.wire > WIRE_MAX.get(loss, 99.0):
        missed.append(f"{where}: {found.wire:.3f} times the content on the wire, not {WIRE_MAX[loss]}")
    if receivers == 3 and not loss and found.mbit_s < GOODPUT_MIN * LINE_MBIT:
        missed.append(f"{where}: {found.mbit_s:.0f} Mbit/s, not {GOODPUT_MIN * LINE_MBIT:.0f}")
    if found.naks is not None and loss and found.naks > NAKS_MAX * max(1, found.lost):
        missed.append(f"{where}: {found.naks} NAKs for {found.lost:.0f} lost packets")
    return missed
