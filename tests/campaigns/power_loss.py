"""Power loss of all members under load, many times, while other processes keep every core busy.

Runs the test of that name again and again. On a busy machine a member learns that other members have an entry before
its own disk has it. A crash at that moment shows whether its state machine applied the entry too early.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TOP = Path(__file__).resolve().parents[2]
TEST = "tests/cluster/runtime/test_processes.py::test_all_lose_power_and_resume_from_their_disks"


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev campaign power-loss", description=__doc__)
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument(
        "--busy", type=int, default=os.cpu_count() or 1, help="number of busy processes beside the test"
    )
    parser.add_argument("--keep", type=Path, help="keep the files of a failed run here (default: a new directory)")
    options = parser.parse_args(arguments)
    keep = options.keep or Path(tempfile.mkdtemp(prefix="power-loss-"))
    keep.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with busy(options.busy):
        for number in range(1, options.runs + 1):
            ended = subprocess.run(
                [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--basetemp={keep / 'run'}", TEST],
                cwd=TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
            if ended.returncode:
                print(ended.stdout)
                print(f"run {number} of {options.runs} failed; the files of its members are in {keep / 'run'}")
                return 1
            print(f"run {number} of {options.runs}: {time.monotonic() - began:.0f} s", flush=True)
    print(f"{options.runs} runs, no failure")
    return 0


@contextmanager
def busy(count: int) -> Iterator[None]:
    """Runs a number of processes that compute without end."""
    processes = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
