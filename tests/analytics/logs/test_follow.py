"""``qosweb analyze --follow`` as a user runs it: killed in the middle, restarted, ended with Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from qosweb.analytics.follow.checkpoint import locked
from qosweb.cli import main
from tests.analytics.logs.truth import Log
from tests.support.nodes import COMMAND, environment
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import pytest

START_TIMEOUT_S = 240.0
LINES = 400


class Writer(threading.Thread):
    """Appends a line to a log every few milliseconds; some lines are garbage, and the log is rotated now and then."""

    def __init__(self, path: Path) -> None:
        super().__init__(daemon=True)
        self._path = path
        self._over = threading.Event()
        self.log = Log("</a>.available = always\n", nodes=("n1",))
        self.garbage = 0

    def run(self) -> None:
        self._write(self.log.lines)
        number = 0
        while not self._over.is_set():
            number += 1
            self._write([self.log.request(number / 10, "/a")])
            if number % 50 == 0:
                self.garbage += 1
                self._write(["{"])
            if number % LINES == 0:
                self._path.rename(f"{self._path}.{1000 - number // LINES}")
            self._over.wait(0.005)

    def _write(self, lines: list[Any]) -> None:
        with self._path.open("a") as file:
            file.writelines((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)

    def end(self) -> None:
        self._over.set()
        self.join()


@contextmanager
def following(log: Path, out: Path, temporary: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [*COMMAND, "analyze", str(log), "--follow", "--out", str(out), "--every", "0.5s", "--late", "10s", "--quiet"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=environment({"TMPDIR": str(temporary)}),
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def test_killed_in_the_middle_and_started_again(tmp_path: Path) -> None:
    path, out = tmp_path / "access.log", tmp_path / "out"
    path.touch()
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    writer = Writer(path)
    with following(path, out, temporary) as process:
        wait_for(lambda: (out / "checkpoint" / "tail.json").exists(), "a look at the log", START_TIMEOUT_S)
        writer.start()  # what is rotated from now on is of this run
        wait_for(lambda: (out / "report.html").exists() or process.poll(), "a window that closed", START_TIMEOUT_S)
        assert process.poll() is None
        process.kill()
    assert "refresh" in (out / "report.html").read_text()
    before = json.loads((out / "report.json").read_text())
    with following(path, out, temporary) as process:

        def went_on() -> bool:
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            return bool(json.loads((out / "report.json").read_text())["end"] > before["end"])

        wait_for(went_on, "another window that closed", START_TIMEOUT_S)
        writer.end()
        process.send_signal(signal.SIGINT)
        assert process.wait(START_TIMEOUT_S) == 0
        assert process.stderr
        assert process.stderr.read() == b""
    wait_for(lambda: not list(temporary.iterdir()), "both JVMs to remove their files", START_TIMEOUT_S)
    report = json.loads((out / "report.json").read_text())
    requests = [line for line in writer.log.lines if "event" not in line]
    whole = next(row for row in report["table"] if row["window"] is row["node"] is row["class"] is None)
    assert whole["served"] == len(requests)
    assert sum(one["lines"] for one in report["bad_lines"]) == writer.garbage
    assert report["lines"] == len(requests) + writer.garbage
    once = next(one for one in report["cluster"] if one["rule"] == "no request is counted twice")
    assert (report["outcome"], once["outcome"]) == ("held", "held")
    assert "refresh" not in (out / "report.html").read_text()


def test_what_cannot_work(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "a.log"
    log.write_text('{"ts":1}\n')
    follow = ["analyze", str(log), "--follow"]
    assert main(follow) == 2
    assert "name a folder for it with --out" in capsys.readouterr().err
    assert main([*follow, "--out", str(tmp_path), "--keep-lines"]) == 2
    assert "cannot be combined with --format or --keep-lines" in capsys.readouterr().err
    with locked(tmp_path / "out" / "checkpoint"):
        assert main([*follow, "--out", str(tmp_path / "out")]) == 2
    assert "another process uses it" in capsys.readouterr().err
    (tmp_path / "out" / "checkpoint" / "options.json").write_text(
        '{"window":60,"slot":1,"waited":5,"slack":50,"response":"service","spec":""}'
    )
    assert main([*follow, "--out", str(tmp_path / "out")]) == 2
    assert "was created with a different --window" in capsys.readouterr().err
