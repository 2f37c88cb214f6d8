"""``qosweb analyze --follow``: reports on closed windows while logs grow and rotate; restarted, ended with Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from qosweb.analytics.analysis import analyse
from qosweb.analytics.follow import analyse_if_unchanged, follow
from qosweb.analytics.read import sources
from qosweb.analytics.read.rows import HELD, VIOLATED, AnalysisLimits, AnalysisRequest
from qosweb.cli import main
from tests.analytics.logs.truth import BEGIN_S, Log
from tests.support.nodes import COMMAND, environment
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from qosweb.analytics.findings import Findings

START_TIMEOUT_S = 240.0
SPEC = "</a>.available = always\n"


class Writer(threading.Thread):
    """Appends a line of the present to a log every few milliseconds; some are garbage."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._over, self.rotate = threading.Event(), threading.Event()
        self.log = Log(SPEC, nodes=("n1",))
        self.garbage = 0

    def run(self) -> None:
        self._write(self.log.lines)
        number = 0
        while not self._over.is_set():
            number += 1
            self._write([self.log.request(time.time() - BEGIN_S, "/a")])
            if number % 50 == 0:
                self.garbage += 1
                self._write(["{"])
            if self.rotate.is_set():
                self.rotate.clear()
                self._path.rename(f"{self._path}.1")
            self._over.wait(0.005)

    def _write(self, lines: list[Any]) -> None:
        with self._path.open("a") as file:
            file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)

    def end(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def following(logs: Path, out: Path, temporary: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [
            *(*COMMAND, "analyze", str(logs), "--follow", "--out", str(out), "--every", "0.2s", "--late", "1s"),
            *("--window", "2s", "--quiet"),
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment({"TMPDIR": str(temporary)}),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_reports_while_the_log_grows_and_rotates(tmp_path: Path) -> None:
    logs, out, temporary = tmp_path / "logs", tmp_path / "out", tmp_path / "temporary"
    logs.mkdir()
    (logs / "access.log").touch()
    temporary.mkdir()
    writer = Writer(logs / "access.log")
    with following(logs, out, temporary) as process:
        writer.start()

        def end_s() -> float:
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            report = out / "report.json"
            return json.loads(report.read_text())["end"] if report.exists() else 0.0

        wait_for(end_s, "a window that closed", START_TIMEOUT_S)
        first_s = end_s()
        writer.rotate.set()
        wait_for(lambda: end_s() > first_s, "another window that closed", START_TIMEOUT_S)
        assert len(list(logs.iterdir())) == 2
        assert "refresh" in (out / "report.html").read_text()
        writer.end()
        process.send_signal(signal.SIGINT)
        assert process.wait(START_TIMEOUT_S) == 0
        assert process.stderr
        assert process.stderr.read() == b""
    wait_for(lambda: not list(temporary.iterdir()), "the JVM to remove its files", START_TIMEOUT_S)
    report = json.loads((out / "report.json").read_text())
    requests = [line for line in writer.log.lines if "event" not in line]
    whole = next(row for row in report["table"] if row["window"] is row["node"] is row["class"] is None)
    assert whole["served"] == len(requests)
    assert sum(one["lines"] for one in report["bad_lines"]) == writer.garbage
    assert report["lines"] == len(requests) + writer.garbage
    once = next(one for one in report["cluster"] if one["rule"] == "no request is counted twice")
    assert (report["outcome"], once["outcome"]) == ("held", "held")
    assert "refresh" not in (out / "report.html").read_text()


class Clock:
    """Ends the run after the last of its times; calls a function before each."""

    def __init__(self, *times_s: float) -> None:
        self.times_s, self.stop = [BEGIN_S + one for one in times_s], threading.Event()

    def __call__(self) -> float:
        if len(self.times_s) == 1:
            self.stop.set()
        return self.times_s.pop(0)


def test_only_closed_windows_are_judged(spark: SparkSession, tmp_path: Path) -> None:
    log = Log(SPEC)
    log.run(30, {"/a": 3})
    log.request(20.5, "/a", "denied")
    os.utime(log.write(tmp_path / "a.log"), (BEGIN_S + 31, BEGIN_S + 31))
    request = AnalysisRequest(sources.Sources(), limits=AnalysisLimits(window_s=10))
    published: list[Findings] = []

    def find() -> sources.Sources:
        return sources.find([str(tmp_path)])

    clock = Clock(5.0, 24.9, 25.1, 34.9, 35.1)  # the first closes no window with lines, the fourth none at all
    follow(spark, request, find, published.append, clock.stop, every_s=0.0, late_s=5.0, now=clock)
    assert [one.end_s - BEGIN_S for one in published] == [10.0, 20.0, 30.0]
    assert [one.outcome for one in published] == [HELD, HELD, VIOLATED]
    whole = analyse(spark, AnalysisRequest(find(), limits=request.limits))
    last = published[-1]
    assert (last.run, last.windows, last.table, last.top) == (whole.run, whole.windows, whole.table, whole.top)


def test_nothing_is_read_again_without_new_lines(spark: SparkSession, tmp_path: Path) -> None:
    log = Log(SPEC)
    log.run(5, {"/a": 3})
    log.write(tmp_path / "a.log")
    os.utime(tmp_path / "a.log", (BEGIN_S + 5, BEGIN_S + 5))
    published: list[Findings] = []
    clock = Clock(20, 40, 60)
    request = AnalysisRequest(sources.find([str(tmp_path)]), limits=AnalysisLimits(window_s=10))
    follow(spark, request, lambda: request.sources, published.append, clock.stop, every_s=0.0, late_s=5.0, now=clock)
    assert len(published) == 1


def test_a_report_that_a_rotation_disturbed_is_dropped(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Log(SPEC)
    log.run(5, {"/a": 3})
    path = tmp_path / "a.log"
    log.write(path)
    request = AnalysisRequest(sources.find([str(path)]))
    assert analyse_if_unchanged(spark, request) is not None

    def analyse_and_rotate(spark: SparkSession, request: AnalysisRequest) -> Findings:
        findings = analyse(spark, request)
        path.rename(tmp_path / "a.log.1")
        log.write(path)
        return findings

    monkeypatch.setattr("qosweb.analytics.follow.analyse", analyse_and_rotate)
    assert analyse_if_unchanged(spark, request) is None


def test_what_cannot_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_text('{"ts":1}\n')
    assert main(["analyze", str(log), "--follow"]) == 2
    assert "name a folder for it with --out" in capsys.readouterr().err
    assert main(["analyze", str(tmp_path / "none.log"), "--follow", "--out", str(tmp_path / "out")]) == 2
    assert "no such file or folder" in capsys.readouterr().err
