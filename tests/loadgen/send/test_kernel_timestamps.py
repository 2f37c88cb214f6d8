"""Latency ends when a response arrives, not when a busy generator reads it."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest

from loadgen.results.results_file import read_summary
from loadgen.results.summary import render
from loadgen.send.kernel_timestamps import buffered_s
from loadgen.trace.files import write_trace, writing
from tests.loadgen.runs import Ran, evenly, run
from tests.support.misbehaving import OK, MisbehavingServer, Talk
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from loadgen.send.kernel_timestamps import Ancillary

pytestmark = pytest.mark.timing

CAME = 1_794_900_000  # a time of day
STOOD_STILL_S = 1.0


def _stamp(seconds: int, nanoseconds: int) -> Ancillary:
    return [(1, 35, struct.pack("@ll", seconds, nanoseconds))]


def test_waiting_time_of_a_response_before_it_is_read() -> None:
    assert buffered_s(_stamp(CAME, 250_000_000), CAME + 0.75, since_asked_s=2.0) == pytest.approx(0.5, abs=1e-6)
    assert buffered_s(_stamp(CAME, 0), CAME, since_asked_s=2.0) == 0.0


def test_waiting_time_is_unknown_without_a_timestamp() -> None:
    assert buffered_s([], CAME, since_asked_s=2.0) is None


@pytest.mark.parametrize("set_by_s", [-3600.0, -1.0, 2.5, 3600.0])
def test_timestamp_is_ignored_after_a_clock_change(set_by_s: float) -> None:
    assert buffered_s(_stamp(CAME, 0), CAME + 0.1 + set_by_s, since_asked_s=2.0) is None


def test_clock_drift_is_tolerated() -> None:
    assert buffered_s(_stamp(CAME, 0), CAME + 100.04, since_asked_s=100.0) == 100.0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when packets came")
def test_paused_generator_does_not_add_latency(tmp_path: Path) -> None:
    """The second answer is sent while the process that asked is stopped, and stays so for a second more."""
    processes: list[subprocess.Popen[bytes]] = []
    took_s: list[float] = []  # the server, to answer

    def script(talk: Talk) -> None:
        if talk.number == 1:
            talk.send(OK)
            return
        asked_s = time.monotonic()
        worker = psutil.Process(processes[0].pid).children()[0]
        worker.suspend()
        try:
            wait_for(lambda: worker.status() == psutil.STATUS_STOPPED, "the generator to stand still")
            talk.send(OK)
            took_s.append(time.monotonic() - asked_s)
            talk.pause(STOOD_STILL_S)
        finally:
            worker.resume()

    trace = str(tmp_path / "trace.jsonl")
    with writing(trace) as file:
        write_trace(file, evenly(2, 2))
    with MisbehavingServer(script) as server:
        command = [sys.executable, "-m", "loadgen.cli", "run", trace, "--target", server.url, "--processes", "1"]
        files = ["--out", str(tmp_path / "results.jsonl"), "--summary", str(tmp_path / "summary.json")]
        with subprocess.Popen([*command, *files, "--quiet"], stdout=subprocess.DEVNULL) as process:
            processes.append(process)
            code = process.wait(60)
    ran = Ran(code, tmp_path)
    assert ran.outcomes == {"accepted": 2}
    met = ran.results[1]
    assert met["read_late_us"] >= STOOD_STILL_S * 1e6
    assert met["latency_us"] - met["sent_us"] < (took_s[0] + STOOD_STILL_S) * 1e6  # what it is if our time counts
    assert ran.summary["read_lateness_ms"]["max"] >= STOOD_STILL_S * 1e3
    for name in ("results.jsonl", "summary.json"):
        assert "read responses late by" in render(read_summary(str(tmp_path / name)))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux says when packets came")
def test_a_latency_ends_when_the_last_byte_came(tmp_path: Path) -> None:
    def in_pieces(talk: Talk) -> None:
        talk.send(OK[:20])
        talk.pause(0.1)
        talk.send(OK[20:-1])
        talk.pause(0.2)
        talk.send(OK[-1:])

    with MisbehavingServer(in_pieces) as server:
        ran = run(tmp_path, evenly(5, 10), "--target", server.url)
    assert ran.outcomes == {"accepted": 5}
    assert all(result["latency_us"] >= 300_000 for result in ran.results)
    assert ran.summary["read_lateness_ms"]["count"] >= 4  # the first packets of all may have no stamp
