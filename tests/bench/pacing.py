"""``./dev bench pacing``: how exact channels are, and what pacing costs.

First one busy channel: a client that asks for page after page on one connection, one ahead, and the bytes that it got
in windows of two seconds, beside the channel's rate. Then many at a time: the bytes of all of them, the spread between
them, and the processor time of the node.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import tempfile
from pathlib import Path
from time import perf_counter

import psutil

from tests.support.nodes import RunningNode

REQUEST = b"GET /page.bin HTTP/1.1\r\nHost: bench\r\n\r\n"
HEAD_BYTES = 256  # what the node charges for a head as long as nobody has measured it


class Reader:
    """Asks for a page again and again, and notes when how many bytes of bodies came."""

    def __init__(self, port: int, size: int) -> None:
        self._port = port
        self._size = size
        self.arrivals: list[tuple[float, int]] = []
        self.answers = 0

    async def run(self, until: float) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(REQUEST)
        while perf_counter() < until:
            writer.write(REQUEST)  # one ahead: the next one waits when an answer ends
            await reader.readuntil(b"\r\n\r\n")
            left = self._size
            while left:
                data = await reader.read(min(left, 1 << 16))
                left -= len(data)
                self.arrivals.append((perf_counter(), len(data)))
            self.answers += 1
        writer.close()

    def bytes_between(self, since: float, until: float) -> int:
        return sum(size for at, size in self.arrivals if since <= at < until)


async def _read(port: int, size: int, count: int, seconds: float) -> tuple[list[Reader], float]:
    began = perf_counter()
    readers = [Reader(port, size) for _ in range(count)]
    await asyncio.gather(*(reader.run(began + seconds) for reader in readers))
    return readers, began


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev bench pacing", description=__doc__)
    parser.add_argument("--seconds", type=float, default=11.0, help="of each measurement")
    parser.add_argument("--concurrent", type=int, default=200)
    parser.add_argument("--out", type=Path, default=Path("bench-results/pacing.json"))
    options = parser.parse_args(arguments)
    results: dict[str, object] = {}
    for count, size, channel in ((1, 256 << 10, "64KB in 250ms"), (options.concurrent, 256 << 10, "64KB in 1s")):
        rate = (64 << 10) * 4 if count == 1 else 64 << 10
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "site"
            root.mkdir()
            (root / "page.bin").write_bytes(bytes(size))
            spec = Path(folder) / "site.webqos"
            spec.write_text(f"set channel = {channel}\n")
            capacity = f"{count * rate * 2 // 1024}KB/s"
            with RunningNode(root, Path(folder), "--spec", str(spec), "--capacity", capacity) as node:
                process = psutil.Process(node.process.pid)
                before = process.cpu_times()
                readers, began = asyncio.run(_read(node.port, size, count, options.seconds))
                after = process.cpu_times()
        cpu = (after.user + after.system - before.user - before.system) / options.seconds
        expected = 2 * rate * size / (size + HEAD_BYTES)
        windows = [began + 3 + 2 * number for number in range(int((options.seconds - 3) // 2))]
        ratios = [reader.bytes_between(at, at + 2) / expected for reader in readers for at in windows]
        total = [sum(reader.bytes_between(at, at + 2) for reader in readers) / expected / count for at in windows]
        print(
            f"{count:>4} channels of {rate} bytes/s: bytes in 2 s beside the rate: "
            f"all {min(total):.4f} to {max(total):.4f}, "
            f"one {min(ratios):.4f} to {max(ratios):.4f} (median {statistics.median(ratios):.4f}); "
            f"node {cpu * 100:.1f} % of a core",
            flush=True,
        )
        results[f"{count} channels"] = {"rate_bps": rate, "all": total, "one": ratios, "cpu": cpu}
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(results, indent=2) + "\n")
    print(f"written to {options.out}")
    return 0
