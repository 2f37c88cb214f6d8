"""Processes of experiments are asked to end once: a node that is asked twice aborts its responses."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from loadgen.experiments.processes import await_end, end

if TYPE_CHECKING:
    from collections.abc import Iterator

COUNTS = """
import signal, sys, time
asked = 0
def ask(*_):
    global asked
    asked += 1
signal.signal(signal.SIGTERM, ask)
print("ready", flush=True)
while not asked:
    time.sleep(0.01)
print("asked", flush=True)
until = time.monotonic() + 0.3
while time.monotonic() < until:
    time.sleep(0.01)
sys.exit(asked)
"""


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    """Is ready, takes a moment to end once it was asked to, and its exit code is how often it was."""
    with subprocess.Popen([sys.executable, "-c", COUNTS], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield process
        process.kill()


def test_process_that_was_asked_to_end_is_only_awaited(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    assert process.stdout is not None
    assert process.stdout.readline() == b"asked\n"  # two signals that it had not looked at would be one
    await_end(process)
    assert process.returncode == 1


def test_running_process_is_asked_to_end_once(process: subprocess.Popen[bytes]) -> None:
    end(process)
    end(process)
    assert process.returncode == 1
