"""CPU profile of a broadcast by layer, sampled with py-spy: a trial of ``./dev bench group``."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.bench.group_processes import Members

SAMPLES_PER_S = 200


def show_layers(members: Members, outstanding: int, whole_s: int) -> None:
    print("\nCPU time of an entry at saturation by layer, all three members:")
    with tempfile.TemporaryDirectory() as folder:
        members.load(outstanding, 0.5)
        spies = [_spy(pid, Path(folder) / str(pid), whole_s) for pid in members.pids]
        found = members.load(outstanding, whole_s + 1.0)
        said = [spy.communicate()[1].decode(errors="replace") for spy in spies]
        if any(spy.returncode for spy in spies):
            print(f"  py-spy failed: {said[0].strip().splitlines()[-1:]}")
            return
        counts: Counter[str] = Counter()
        for pid in members.pids:
            counts.update(_by_layer((Path(folder) / str(pid)).read_text()))
    total = sum(counts.values())
    for layer, count in counts.most_common(20):
        print(f"  {layer:<30}{count / total:>5.0%}{found['cpu_us'] * count / total:>8.2f} us")
    print(f"  {'all (with py-spy attached)':<35}{found['cpu_us']:>8.2f} us")


def _spy(pid: int, file: Path, seconds: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [str(Path(sys.executable).parent / "py-spy"), "record", "--format", "raw", "--rate", str(SAMPLES_PER_S),
         "--duration", str(seconds), "--output", str(file), "--pid", str(pid)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def _by_layer(stacks: str) -> Counter[str]:
    """Parses py-spy's frames, joined by `;`, with a count. Frames outside our files count for the caller's layer."""
    found: Counter[str] = Counter()
    for line in stacks.splitlines():
        frames, _, count = line.rpartition(" ")
        inner = frames.split(";")[-1]
        files = [frame.rpartition("(")[2].partition(":")[0] for frame in frames.split(";")]
        ours = next((file for file in reversed(files) if file.startswith(("cluster/", "tests/"))), "the loop")
        if ours.endswith("group_members.py") and "runners.py" in inner:
            ours = "event loop, system calls"
        elif ours.endswith("connection.py") and " flush " in f" {inner.replace('.', ' ')} ":
            ours = "writes to sockets"
        found[ours] += int(count)
    return found
