"""What ``./dev bench group`` asks of ours alone: after the comparison, or each by itself (`--trials NAME`).

Every trial prints what it measured and, where there is one, the goal that it is measured against.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from statistics import median

from tests.bench.group_processes import Members

SATURATED = 512  # outstanding
STOP_S, EVERY_S = 0.2, 1.0
SAMPLES_PER_S = 200

Trial = Callable[[str, int, float], None]


def _ours(folder: str = "", names: str = "abc") -> Members:
    """Durable if there is a folder."""
    data = {"data": tempfile.mkdtemp(dir=folder)} if folder else {}
    return Members("ours", 1, names, **data)


def kills(folder: str, rounds: int, _seconds: float) -> None:
    """The longest that an entry waits when a member is killed in the middle of the load."""
    print("\nlongest wait of an entry when a member is killed (kill -9), 8 outstanding, each round (goal: 200 ms):")
    for mode in ("volatile", "durable"):
        for victim, which in ((0, "the lowest member"), (2, "another member")):
            waits = []
            for _ in range(rounds):
                members = _ours(folder if mode == "durable" else "")
                try:
                    killer = threading.Timer(0.7, members.processes[victim].kill)
                    killer.start()
                    waits.append(members.submit(_load(8, 2.0))["max_us"] / 1000)
                    killer.join()
                finally:
                    members.close()
            print(f"  {mode:<9} {which:<18} " + "  ".join(f"{wait:.0f} ms" for wait in waits))


def half(folder: str, rounds: int, seconds: float) -> None:
    """Waits at half of the rate that is the most."""
    print("\nwaits at half of saturation, from when an entry was due (goal, volatile: p99 10 ms):")
    for mode in ("volatile", "durable"):
        members = _ours(folder if mode == "durable" else "")
        try:
            members.load(SATURATED, 0.5)
            most = median(members.load(SATURATED, seconds)["per_s"] for _ in range(rounds))
            found = [members.submit({"do": "paced", "per_s": most / 2, "seconds": seconds}) for _ in range(rounds)]
        finally:
            members.close()
        p50, p99 = (median(each[key] / 1000 for each in found) for key in ("p50_us", "p99_us"))
        print(f"  {mode:<9} {most / 2:,.0f} of {most:,.0f} entries/s: p50 {p50:.1f} ms, p99 {p99:.1f} ms")


def sizes(_folder: str, rounds: int, seconds: float) -> None:
    """More members, on the same two cores."""
    print("\nmembers on the same two cores, 512 outstanding (goal: 7 do two thirds of what 3 do):")
    figures: dict[int, list[dict[str, float]]] = {}
    for _ in range(rounds):
        for count in (3, 5, 7):
            members = _ours(names="abcdefg"[:count])
            try:
                members.load(SATURATED, 0.5)
                figures.setdefault(count, []).append(members.load(SATURATED, seconds))
            finally:
                members.close()
    three = median(found["per_s"] for found in figures[3])
    for count, found in figures.items():
        per_s, cpu_us = (median(each[key] for each in found) for key in ("per_s", "cpu_us"))
        print(f"  {count} members {per_s:>9,.0f} entries/s, {per_s / three:.2f} of three; CPU of all {cpu_us:.1f} us")


def slow(_folder: str, rounds: int, seconds: float) -> None:
    """A member that sleeps now and then, and one that sleeps for good."""
    seconds = max(seconds, 4.0)
    waits, shares, gone = [], [], []
    for _ in range(rounds):
        members = _ours()
        try:
            whole = members.submit(_load(8, seconds))["per_s"]
            sleeper, stop = members.processes[2].pid, threading.Event()
            naps = threading.Thread(target=_nap, args=(sleeper, stop))
            naps.start()
            found = members.submit(_load(8, seconds))
            stop.set()
            naps.join()
            waits.append(found["max_us"] / 1000)
            shares.append(found["per_s"] / whole)
            stopper = threading.Timer(0.7, os.kill, (sleeper, signal.SIGSTOP))
            stopper.start()
            gone.append(members.submit(_load(8, 3.0))["max_us"] / 1000)
            stopper.join()
        finally:
            members.close()
    print(f"\na member that is stopped for {STOP_S * 1000:.0f} ms of every second, 8 outstanding, each round:")
    print("  longest wait (goal: its own delay)     " + "  ".join(f"{wait:.0f} ms" for wait in waits))
    print("  entries/s of those without (goal: 0.8) " + "  ".join(f"{share:.2f}" for share in shares))
    print("one that is stopped for good, longest wait (goal: 1 s):")
    print("  " + "  ".join(f"{wait:.0f} ms" for wait in gone))


def _nap(pid: int, stop: threading.Event) -> None:
    while not stop.wait(EVERY_S - STOP_S):
        os.kill(pid, signal.SIGSTOP)
        time.sleep(STOP_S)
        os.kill(pid, signal.SIGCONT)


def disk(folder: str, rounds: int, seconds: float) -> None:
    """A lone durable entry, in syncs of this disk."""
    syncs, waits = [], []
    for _ in range(rounds):
        syncs.append(_sync_ms(folder))
        members = _ours(folder)
        try:
            members.load(1, 0.5)
            waits.append(members.load(1, seconds)["p50_us"] / 1000)
        finally:
            members.close()
    sync, wait = median(syncs), median(waits)
    print(f"\na write of 4 KiB with fdatasync takes {sync:.2f} ms here (median), a lone durable entry {wait:.2f} ms: "
          f"{wait / sync:.1f} times that (goal: 2 ms)")  # fmt: skip


def _sync_ms(folder: str) -> float:
    taken = []
    with (Path(folder) / "sync").open("wb", buffering=0) as file:
        for _ in range(200):
            began = time.perf_counter()
            file.write(b"x" * 4096)
            os.fdatasync(file.fileno())
            taken.append(time.perf_counter() - began)
    return 1000 * median(taken)


def layers(_folder: str, _rounds: int, seconds: float) -> None:
    """Where the processor time of an entry goes, as py-spy sees it."""
    whole_s = max(5, round(seconds))
    members = _ours()
    print("\nprocessor time of an entry at saturation by layer, all three members:")
    with tempfile.TemporaryDirectory() as folder:
        try:
            members.load(SATURATED, 0.5)
            spies = [_spy(pid, Path(folder) / str(pid), whole_s) for pid in members.pids]
            found = members.load(SATURATED, whole_s + 1.0)
            said = [spy.communicate()[1].decode(errors="replace") for spy in spies]
        finally:
            members.close()
        if any(spy.returncode for spy in spies):
            print(f"  py-spy was not able to look: {said[0].strip().splitlines()[-1:]}")
            return
        counts: Counter[str] = Counter()
        for pid in members.pids:
            counts.update(_by_layer((Path(folder) / str(pid)).read_text()))
    total = sum(counts.values())
    for layer, count in counts.most_common(20):
        print(f"  {layer:<28}{count / total:>5.0%}{found['cpu_us'] * count / total:>8.2f} us")
    print(f"  {'all (with py-spy looking)':<33}{found['cpu_us']:>8.2f} us")


def _spy(pid: int, file: Path, seconds: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [str(Path(sys.executable).parent / "py-spy"), "record", "--format", "raw", "--rate", str(SAMPLES_PER_S),
         "--duration", str(seconds), "--output", str(file), "--pid", str(pid)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip


def _by_layer(stacks: str) -> Counter[str]:
    """A line is frames, `;` between them, and a count. What is in no file of ours belongs to the caller's layer."""
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


def long_load(minutes: float) -> None:
    """Full load on both cores for a long time: nobody may be suspected."""
    members = _ours()
    try:
        before = members.suspicions
        found = members.submit(_load(SATURATED, minutes * 60))
        suspicions = members.suspicions - before
        print(f"\n{minutes:g} minutes of full load: {found['count']:,.0f} entries, {found['per_s']:,.0f} entries/s")
        print(f"  longest wait {found['max_us'] / 1000:.0f} ms, {suspicions} suspicions (goal: 0)")
    finally:
        members.close()


def _load(outstanding: int, seconds: float) -> dict[str, object]:
    return {"do": "load", "outstanding": outstanding, "seconds": seconds, "futures": False}


TRIALS: dict[str, Trial] = {
    "kills": kills, "half": half, "sizes": sizes, "slow": slow, "disk": disk, "layers": layers,
}  # fmt: skip
