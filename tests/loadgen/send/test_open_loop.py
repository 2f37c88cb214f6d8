"""Requests are sent when they are due, whatever the server does, and delays show in the figures."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from loadgen.results import outcomes as o
from loadgen.trace.files import write_trace, writing
from loadgen.trace.request import TraceRequest
from tests.loadgen.runs import Ran, evenly, replay, run
from tests.support.misbehaving import OK, MisbehavingServer, Talk
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.timing

LOADGEN = [sys.executable, "-m", "loadgen.cli"]


def _ok(talk: Talk) -> None:
    talk.send(OK)


def _stall_once(stall_s: float, at: int) -> Callable[[Talk], None]:
    """All connections stand still for a while, beginning with the ``at``-th request."""
    until_s = 0.0
    lock = threading.Lock()

    def script(talk: Talk) -> None:
        nonlocal until_s
        with lock:
            if talk.number == at:
                until_s = time.monotonic() + stall_s
            left_s = until_s - time.monotonic()
        if left_s > 0:
            talk.pause(left_s)
        talk.send(OK)

    return script


def test_a_stall_shows_in_the_latencies_of_all_that_were_due_meanwhile(tmp_path: Path) -> None:
    """A closed loop would have sent nothing and measured one slow request; 100 were due in the second."""
    with MisbehavingServer(_stall_once(1.0, at=50)) as server:
        ran = run(tmp_path, evenly(200, 100), "--target", server.url, "--connections", "4")
    assert ran.outcomes == {"accepted": 200}
    delayed = [result for result in ran.results if result["latency_us"] > 100_000]
    assert len(delayed) >= 80
    slowest = [result["latency_us"] for result in ran.results[52:152]]
    assert slowest[0] > 800_000
    assert slowest[40] > 400_000
    assert ran.summary["all"]["answer_ms"]["percentiles"]["p50"] < ran.p("50")


def test_what_cannot_be_sent_in_time_is_counted_and_not_hidden(tmp_path: Path) -> None:
    with MisbehavingServer(Talk.hang) as server:
        ran = run(
            tmp_path, evenly(50, 100), "--target", server.url,
            "--connections", "3", "--send-within", "200ms", "--timeout", "2s",
        )  # fmt: skip
    assert ran.outcomes == {"failed": 3, "unsent": 47}
    assert ran.causes == {o.TIMEOUT: 3}
    assert all(result["latency_us"] >= 200_000 for result in ran.results if result["outcome"] == "unsent")


def test_connections_are_bounded_and_reused(tmp_path: Path) -> None:
    with MisbehavingServer(_ok) as server:
        ran = run(tmp_path, evenly(400, 1000), "--target", server.url, "--connections", "5")
        assert server.connections <= 5
    assert ran.outcomes == {"accepted": 400}
    assert ran.summary["connections"] == server.connections


def test_bytes_are_counted_also_where_the_next_request_waits_for_the_connection(tmp_path: Path) -> None:
    with MisbehavingServer(_ok) as server:
        ran = run(tmp_path, [TraceRequest(0.0, "/")] * 50, "--target", server.url, "--connections", "1")
    assert [result["bytes"] for result in ran.results] == [2] * 50
    assert ran.summary["all"]["bytes"] == 100


@pytest.mark.parametrize("processes", [1, 3])
def test_times_and_requests_are_those_of_the_trace(processes: int, tmp_path: Path) -> None:
    trace = [
        TraceRequest(0.0, "/first", "GET", "A"),
        TraceRequest(0.1, "/second?q=1", "HEAD", "B"),
        TraceRequest(0.1, "http://shop.example/third", "GET", "B", {"user-agent": "bot", "X-Extra": "1"}),
        TraceRequest(0.4, "/last", "POST", ""),
    ]

    def script(talk: Talk) -> None:
        talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    with MisbehavingServer(script) as server:
        ran = run(tmp_path, trace, "--target", server.url, "--processes", str(processes), "--header", "X-All: yes")
        heads = {head.split(b"\r\n")[0].decode(): head.decode() for head in server.heads}
        host = f"Host: 127.0.0.1:{server.port}"
    assert ran.outcomes == {"accepted": 4}
    assert ran.facts["processes"] == processes
    assert heads.keys() == {
        "GET /first HTTP/1.1", "HEAD /second?q=1 HTTP/1.1", "GET /third HTTP/1.1", "POST /last HTTP/1.1",
    }  # fmt: skip
    assert host in heads["GET /first HTTP/1.1"]
    assert "User-Agent: loadgen" in heads["GET /first HTTP/1.1"]
    third = heads["GET /third HTTP/1.1"]
    assert "Host: shop.example" in third
    assert "user-agent: bot" in third
    assert "User-Agent: loadgen" not in third
    assert "Content-Length: 0" in heads["POST /last HTTP/1.1"]
    assert all("X-All: yes" in head for head in heads.values())
    assert ran.summary["lasted_s"] >= 0.4


@pytest.mark.parametrize(
    ("spread", "expected"),
    [("even", [50, 50, 50]), ("one", [150, 0, 0]), ("70,20,10", [105, 30, 15]), ("skewed", [81.8, 40.9, 27.3])],
)
def test_load_is_spread_over_targets(spread: str, expected: list[float], tmp_path: Path) -> None:
    with MisbehavingServer(_ok) as a, MisbehavingServer(_ok) as b, MisbehavingServer(_ok) as c:
        targets = [option for server in (a, b, c) for option in ("--target", server.url)]
        ran = run(tmp_path, evenly(150, 500), *targets, "--spread", spread, "--processes", "2")
        assert [a.requests, b.requests, c.requests] == pytest.approx(expected, abs=2)
        assert list(ran.summary["targets"].values()) == [a.requests, b.requests, c.requests]


def test_the_same_requests_again(tmp_path: Path) -> None:
    trace = [TraceRequest(at / 200, f"/{at % 7}", "GET", "AB"[at % 2], {"X-N": str(at)}) for at in range(60)]
    with MisbehavingServer(_ok) as a, MisbehavingServer(_ok) as b:
        first = run(
            tmp_path / "first", trace, "--target", a.url, "--target", b.url, "--spread", "skewed", "--processes", "2"
        )
        seen = sorted(a.heads), sorted(b.heads)
        a.heads.clear()
        b.heads.clear()
        second = replay(tmp_path / "second", first.results_file)
        assert (sorted(a.heads), sorted(b.heads)) == seen
    same = ("n", "t", "url", "class", "headers", "target", "outcome")
    assert [[r.get(k) for k in same] for r in second.results] == [[r.get(k) for k in same] for r in first.results]


def test_compressed_by_name(tmp_path: Path) -> None:
    with MisbehavingServer(_ok) as server:
        plain = run(tmp_path / "plain", evenly(20, 200), "--target", server.url)
        name = str(tmp_path / "trace.jsonl.gz")
        with writing(name) as file:
            write_trace(file, evenly(20, 200))
        results = tmp_path / "r.jsonl.gz"
        done = subprocess.run(
            [*LOADGEN, "run", name, "--target", server.url, "--out", str(results), "--quiet"],
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        again = replay(tmp_path / "again", results)
    assert "20 requests" in done.stdout
    assert results.read_bytes()[:2] == b"\x1f\x8b"
    assert plain.outcomes == again.outcomes == {"accepted": 20}


def _start(folder: Path, trace: list[TraceRequest], url: str, *options: str) -> subprocess.Popen[str]:
    name = str(folder / "trace.jsonl")
    with writing(name) as file:
        write_trace(file, trace)
    return subprocess.Popen(
        [*LOADGEN, "run", name, "--target", url, "--out", str(folder / "results.jsonl"),
         "--summary", str(folder / "summary.json"), "--progress", "200ms", *options],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupting_leaves_valid_results_and_a_summary(number: signal.Signals, tmp_path: Path) -> None:
    with MisbehavingServer(_ok) as server:
        process = _start(tmp_path, evenly(6000, 100), server.url, "--processes", "2")
        wait_for(lambda: server.requests >= 50, "some requests")
        process.send_signal(number)
        output, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    ran = Ran(130, tmp_path)
    assert ran.summary["interrupted"] is True
    assert len(ran.results) == ran.summary["all"]["requests"] >= 50
    assert ran.summary["all"]["requests"] + ran.summary["not_run"] == 6000
    assert "warning: interrupted" in output
    assert "100.00%" in output


def test_interrupting_while_answers_are_missing_does_not_wait_for_them(tmp_path: Path) -> None:
    with MisbehavingServer(Talk.hang) as server:
        process = _start(tmp_path, evenly(6000, 100), server.url, "--timeout", "10min", "--connections", "10")
        wait_for(lambda: server.requests >= 10, "all connections busy")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    ran = Ran(130, tmp_path)
    assert ran.causes[o.INTERRUPTED] >= 10
    assert ran.summary["all"]["requests"] + ran.summary["not_run"] == 6000


def test_a_process_that_dies_is_told_and_its_requests_count_as_failed(tmp_path: Path) -> None:
    with MisbehavingServer(_ok) as server:
        process = _start(tmp_path, evenly(300, 100), server.url, "--processes", "2")
        wait_for(lambda: server.requests >= 50, "some requests")
        psutil.Process(process.pid).children()[0].kill()
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Traceback" not in errors
    ran = Ran(1, tmp_path)
    assert ran.summary["all"]["requests"] == 300
    assert ran.causes[o.DIED] > 0
    assert "worker process of the load generator died" in output


def test_processes_do_not_outlive_the_run_that_started_them(tmp_path: Path) -> None:
    with MisbehavingServer(_ok) as server:
        process = _start(tmp_path, evenly(6000, 100), server.url, "--processes", "2")
        wait_for(lambda: server.requests >= 20, "some requests")
        children = psutil.Process(process.pid).children()
        process.kill()
        process.communicate(timeout=30)
        assert len(children) == 2
        _, alive = psutil.wait_procs(children, timeout=30)
    assert alive == []


_TIME = r"[0-9.]+ m?s"
_PLAIN = re.compile(
    rf" of 150 +(?P<rate>[0-9.]+)/s  accepted [0-9]+  p50 (?P<p50>{_TIME})  p99 (?P<p99>{_TIME})  late p99 {_TIME}  in"
)
_ROW = r"│ *{name} *│ *(?P<rate>[0-9.]+) *│ *(?P<accepted>[0-9]+) *│ *(?P<p50>{time}) *│ *(?P<p99>{time}) *│"
_ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def _ms(text: str) -> float:
    number, unit = text.split()
    return float(number) * (1 if unit == "ms" else 1000)


def test_progress_without_a_terminal_is_plain_lines(tmp_path: Path) -> None:
    with MisbehavingServer(_ok) as server:
        process = _start(tmp_path, evenly(150, 100), server.url)
        _, errors = process.communicate(timeout=60)
    lines = errors.splitlines()
    assert lines[0] == f"loadgen: 150 requests to {server.url}"
    of_classes = [line for line in lines[1:] if line.strip().startswith("A accepted ")]
    of_all = [line for line in lines[1:] if line not in of_classes]
    assert all(" of 150 " in line and "p99" in line and "late" in line for line in of_all)
    assert len(of_all) >= 2
    told = [found for line in of_all if (found := _PLAIN.search(line))]
    assert len(told) >= 2
    assert any(50 < float(found["rate"]) < 200 for found in told)
    assert all(_ms(found["p50"]) <= _ms(found["p99"]) for found in told)
    assert len(of_classes) >= 2  # the first lines may come before the first answer
    assert "\x1b" not in errors


def test_progress_in_a_terminal_is_a_table(tmp_path: Path) -> None:
    import os
    import pty

    with MisbehavingServer(_ok) as server:
        name = str(tmp_path / "trace.jsonl")
        with writing(name) as file:
            write_trace(file, evenly(100, 100, class_name="[red]gold"))
        ours, theirs = pty.openpty()
        command = [*LOADGEN, "run", name, "--target", server.url, "--progress", "200ms"]
        process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=theirs, env={**os.environ, "TERM": "xterm"}
        )
        os.close(theirs)
        shown = b""
        while True:
            try:
                data = os.read(ours, 65536)
            except OSError:
                break
            if not data:
                break
            shown += data
        os.close(ours)
        assert process.wait(30) == 0
    assert b"accepted" in shown
    assert b"[red]gold" in shown
    assert b"Ctrl-C ends it" in shown
    text = _ANSI.sub("", shown.decode())
    assert re.search(r"now/s.*accepted.*p50 now.*p99 now", text)
    for name in ("all", re.escape("[red]gold")):
        rows = list(re.finditer(_ROW.format(name=name, time=_TIME), text))
        assert len(rows) >= 2, text
        assert any(50 < float(row["rate"]) < 200 for row in rows)
        assert all(0 < _ms(row["p50"]) <= _ms(row["p99"]) for row in rows)
        accepted = [int(row["accepted"]) for row in rows]
        assert accepted == sorted(accepted)
        assert 0 < accepted[-1] <= 100
    late = re.findall(rf"late p99 ({_TIME})", text)
    assert len(late) >= 2
    assert all(_ms(one) >= 0 for one in late)


def test_results_are_json_lines_with_outcome_and_times(tmp_path: Path) -> None:
    with MisbehavingServer(_ok) as server:
        ran = run(tmp_path, evenly(3, 100), "--target", server.url)
    line = json.loads(ran.results_file.read_text().splitlines()[1])
    assert {"n", "t", "url", "class", "outcome", "status", "latency_us", "late_us", "sent_us", "bytes"} <= line.keys()
    assert line["latency_us"] >= line["sent_us"] >= line["late_us"] >= 0
    assert Path(tmp_path / "summary.json").exists()
