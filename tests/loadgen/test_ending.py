"""Processes of experiments are asked to end once: a node that is asked twice breaks off what it is answering."""

from __future__ import annotations

import subprocess
import sys

from loadgen.experiments.processes import await_end, end

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
until = time.monotonic() + 0.3
while time.monotonic() < until:
    time.sleep(0.01)
sys.exit(asked)
"""


def _ready() -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", COUNTS], stdout=subprocess.PIPE)
    assert process.stdout is not None
    with process.stdout as said:
        assert said.readline() == b"ready\n"
    return process


def test_who_was_asked_already_is_only_waited_for() -> None:
    process = _ready()
    process.terminate()
    await_end(process)
    assert process.returncode == 1


def test_who_was_not_is_asked_once() -> None:
    process = _ready()
    end(process)
    end(process)
    assert process.returncode == 1
