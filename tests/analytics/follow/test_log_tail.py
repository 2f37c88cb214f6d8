"""Log tailing: logs that grow, are rotated, truncated and torn; every line is in exactly one cut, across crashes."""

from __future__ import annotations

import os
import subprocess
import sys
from random import Random
from typing import TYPE_CHECKING

import pytest

from qosweb.analytics.follow.log_tail import LogTail
from qosweb.analytics.read import sources
from qosweb.errors import UsageError
from qosweb.server.accesslog.file import LogFile
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


def _cuts(tail: LogTail) -> list[str]:
    return sorted(folder.name for folder in tail.cuts.iterdir() if not folder.name.startswith("."))


def _lines(tail: LogTail) -> list[str]:
    return [
        line for cut in _cuts(tail) for file in sorted((tail.cuts / cut).iterdir()) for line in file.read_text().split()
    ]


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_whole_lines_only_and_each_once(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("1\n2\n3")
    tail = LogTail([str(log)], tmp_path / "c")
    assert tail.cut()
    assert not tail.cut()
    _append(log, "3\n4\n")
    tail = LogTail([str(log)], tmp_path / "c")
    assert tail.cut()
    assert _lines(tail) == ["1", "2", "33", "4"]
    assert _cuts(tail) == ["000000000001-end", "000000000002-end"]


def test_a_cut_that_is_too_small_reports_more(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("".join(f"{number}\n" for number in range(100, 110)) + "a-very-long-line\n")
    tail = LogTail([str(log)], tmp_path / "c", cut_bytes_max=10)
    while tail.cut():
        pass
    assert _cuts(tail)[0].endswith("-more")
    assert _cuts(tail)[-1].endswith("-end")
    assert "".join(_lines(tail)) == log.read_text().replace("\n", "")
    assert _lines(tail)[:10] == [str(number) for number in range(100, 110)]


def test_rotation_during_and_between_reads(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    (tmp_path / "a.log.1").write_text("before\n")
    log.write_text("1\n")
    tail = LogTail([str(log)], tmp_path / "c")
    assert tail.cut()
    _append(log, "2\n")
    for number in (3, 4, 5):  # three times, unseen: one file that is known, two that are new
        for old in (3, 2, 1):
            if (tmp_path / f"a.log.{old}").exists():
                (tmp_path / f"a.log.{old}").rename(tmp_path / f"a.log.{old + 1}")
        log.rename(tmp_path / "a.log.1")
        log.write_text(f"{number}\n")
    tail = LogTail([str(log)], tmp_path / "c")
    tail.cut()
    assert sorted(_lines(tail)) == ["1", "2", "3", "4", "5"]
    _append(tmp_path / "a.log.1", "late")  # a writer that has not changed its file yet, and then dies
    assert not tail.cut()
    assert tail.cut()
    assert not tail.cut()
    assert sorted(_lines(tail)) == ["1", "2", "3", "4", "5", "late"]


def test_a_truncated_log_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("1\n2\n")
    tail = LogTail([str(log)], tmp_path / "c")
    tail.cut()
    os.truncate(log, 0)
    _append(log, "3\n")
    tail.cut()
    os.truncate(log, 0)
    _append(log, "4\n5\n6\n")  # longer than it was
    tail.cut()
    assert _lines(tail) == ["1", "2", "3", "4", "5", "6"]


def test_logs_may_be_created_later(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    (folder / "n1.log.1").write_text("0\n")  # one of the logs that are asked for, not just the past of one
    (folder / "n1.log").write_text("1\n")
    (folder / "old.log.gz").write_bytes(b"\x1f\x8b")
    tail = LogTail([str(folder)], tmp_path / "c")
    tail.cut()
    (folder / "n2.log").write_text("2\n")
    tail.cut()
    assert _lines(tail) == ["0", "1", "2"]
    assert [path.rpartition("/")[2] for path in tail.paths] == ["n1.log.1", "n1.log", "n2.log"]


@pytest.mark.parametrize("step", ["before it counts", "before it is seen"])
def test_a_crash_within_a_cut(step: str, tmp_path: Path) -> None:
    """The state after a crash is made by hand: the folder of step 1, with and without the state of step 2."""
    log = tmp_path / "a.log"
    log.write_text("1\n2\n")
    tail = LogTail([str(log)], tmp_path / "c")
    known = (tmp_path / "c" / "tail.json").read_bytes() if (tmp_path / "c" / "tail.json").exists() else None
    tail.cut()
    (tail.cuts / "000000000001-end").rename(tail.cuts / ".making-1")
    if step == "before it counts":
        assert known is None
        (tmp_path / "c" / "tail.json").unlink()
    tail = LogTail([str(log)], tmp_path / "c")
    tail.cut()
    assert _lines(tail) == ["1", "2"]


CUTTER = """
import sys, time
from pathlib import Path
from qosweb.analytics.follow.log_tail import LogTail
tail = LogTail([sys.argv[1]], Path(sys.argv[2]))
print("ready", flush=True)
while True:
    tail.cut()
"""


def test_killed_again_and_again_while_a_node_writes_and_rotates(tmp_path: Path) -> None:
    """The real writer, with files of a few lines; the real kill -9."""
    path, folder = tmp_path / "access.log", tmp_path / "c"
    log = LogFile(path, rotate_bytes=500, keep=1000)
    dice, written = Random(5), 0
    for _ in range(8):
        cutter = subprocess.Popen([sys.executable, "-c", CUTTER, str(path), str(folder)], stdout=subprocess.PIPE)
        assert cutter.stdout
        assert cutter.stdout.readline() == b"ready\n"
        before = len(list(folder.glob("cuts/*")))
        wanted = before + dice.randrange(1, 6)
        while len(list(folder.glob("cuts/*"))) < wanted:
            log.put([f"line-{written + at}-{'x' * dice.randrange(90)}\n" for at in range(9)])
            written += 9
            wait_for(lambda: not log.lines_waiting, "the writer")
        cutter.kill()
        cutter.wait()
        cutter.stdout.close()
    log.close(10)
    tail = LogTail([str(path)], folder)
    while tail.cut():
        pass
    found = sorted(int(line.split("-")[1]) for line in _lines(tail))
    assert found == list(range(written))
    assert len(tail.paths) > 3, "it was rotated"


def test_unfollowable_logs_are_rejected(tmp_path: Path) -> None:
    combined = tmp_path / "apache.log"
    combined.write_text('10.0.0.9 - - [15/Jan/2027:08:00:00 +0000] "GET / HTTP/1.1" 200 100\n')
    for name, said in (
        (str(tmp_path / "x.log"), "no such file; with --follow at least one log must exist"),
        (str(tmp_path / "x.log.gz"), "no compressed and no Parquet files"),
        (str(combined), "the combined format has no class"),
        ("hdfs://h/x", "local files only"),
    ):
        with pytest.raises(UsageError, match=said):
            sources.check_growing([name])
    (tmp_path / "c").mkdir()
    (tmp_path / "c" / "tail.json").write_text("{")
    with pytest.raises(UsageError, match="is damaged"):
        LogTail([str(combined)], tmp_path / "c")
