"""Access log file: rotation, reopening, full disk, torn lines, closed pipe; no line is lost that can be kept."""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from signal import Signals

import pytest

from tests.support.load import Hammer, burst
from tests.support.nodes import COMMAND, RunningNode, environment
from tests.support.sites import write_site
from tests.support.waiting import wait_for


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_site(tmp_path_factory.mktemp("log") / "site")


def rids(*files: Path) -> list[str]:
    """The request ids in all these files; every line must be complete."""
    texts = [file.read_text() for file in files]
    assert all(text.endswith("\n") for text in texts if text)
    return [json.loads(line)["rid"] for text in texts for line in text.splitlines()]


def said(node: RunningNode, words: str) -> int:
    return sum(words in line for line in node.stderr)


# Rotation


def test_rotation_loses_no_line_and_tears_none(site: Path, tmp_path: Path) -> None:
    options = ["--access-log-rotate", "192KB", "--access-log-keep", "100"]
    with RunningNode(site, tmp_path, *options) as node:
        burst(node.port, 6000)
        assert node.stop() == 0
    files = sorted(tmp_path.glob("access.log*"))
    assert len(files) > 5
    assert max(file.stat().st_size for file in files) <= 192 << 10
    found = rids(*files)
    assert len(found) == len(set(found)) == 6000
    in_order = [tmp_path / f"access.log.{number}" for number in range(len(files) - 1, 0, -1)] + [node.access_log]
    times = [json.loads(line)["ts"] for file in in_order for line in file.read_text().splitlines()]
    assert times == sorted(times)  # the highest number is the oldest


def test_only_so_many_rotated_files_are_kept_also_over_restarts(site: Path, tmp_path: Path) -> None:
    options = ["--access-log-rotate", "8KB", "--access-log-keep", "2"]
    for _ in range(2):
        with RunningNode(site, tmp_path, *options) as node:
            burst(node.port, 2000)
            assert node.stop() == 0
        names = sorted(file.name for file in tmp_path.glob("access.log*"))
        assert names == ["access.log", "access.log.1", "access.log.2"]


def test_a_log_that_was_removed_is_created_again(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--access-log-rotate", "4KB") as node:
        burst(node.port, 100)
        wait_for(lambda: node.metric("qosweb_access_log_lines_total") == 100, "all lines to be written")
        assert node.access_log.stat().st_size > 4096  # beyond its size
        node.access_log.unlink()
        burst(node.port, 100)
        assert node.stop() == 0
    assert len(rids(node.access_log)) == 100
    assert not said(node, "access log")


def test_a_rotation_that_fails_is_announced_and_loses_nothing(site: Path, tmp_path: Path) -> None:
    (tmp_path / "access.log.1").mkdir()
    (tmp_path / "access.log.1" / "x").touch()
    options = ["--access-log-rotate", "400KB", "--access-log-keep", "1"]
    with RunningNode(site, tmp_path, *options) as node:
        burst(node.port, 6000)
        assert node.stop() == 0
    assert len(set(rids(node.access_log))) == 6000
    assert 1 <= said(node, "cannot open a new") <= 4
    assert said(node, "access log") == said(node, "cannot open a new")


def test_what_is_not_a_file_is_not_rotated(site: Path, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    with RunningNode(site, tmp_path, "--access-log", str(pipe), "--access-log-rotate", "1KB") as node:
        burst(node.port, 100)
        wait_for(lambda: node.metric("qosweb_access_log_lines_total") == 100, "all lines to be written")
        burst(node.port, 100)
        wait_for(lambda: node.metric("qosweb_access_log_lines_total") == 200, "all lines to be written")
        assert node.stop() == 0
    assert os.read(reader, 1 << 20).count(b"\n") == 200
    os.close(reader)
    assert pipe.is_fifo()
    assert not list(tmp_path.glob("pipe.*"))


# SIGUSR1


def test_sigusr1_after_a_rename_loses_no_line_under_load(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path) as node:
        with Hammer(node.port, ["/", "/page.html", "/missing"]) as hammer:
            for number in range(4):
                before = hammer.answers
                wait_for(lambda before=before: hammer.answers >= before + 50, "some answers")  # type: ignore[misc]
                node.access_log.rename(tmp_path / f"moved.{number}")
                node.kill(Signals.SIGUSR1)
                wait_for(node.access_log.exists, "a new file")
            answers = hammer.stop()
        assert node.stop() == 0
    files = [tmp_path / f"moved.{number}" for number in range(4)]
    found = rids(*files, node.access_log)
    assert len(found) == len(set(found)) == answers


def test_a_reopen_that_fails_goes_on_in_the_old_file(site: Path, tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    with RunningNode(site, tmp_path, "--access-log", str(folder / "access.log")) as node:
        burst(node.port, 10)
        folder.rename(tmp_path / "moved")
        node.kill(Signals.SIGUSR1)
        wait_for(lambda: said(node, "cannot open a new"), "the announcement")
        burst(node.port, 10)
        assert node.stop() == 0
    assert len(rids(tmp_path / "moved" / "access.log")) == 20


def test_a_file_that_was_truncated_and_not_moved_begins_with_the_policy_again(site: Path, tmp_path: Path) -> None:
    spec = tmp_path / "rules.webqos"
    spec.write_text("set lifetime = 1s\n")
    with RunningNode(site, tmp_path, "--spec", str(spec)) as node:
        burst(node.port, 10)
        wait_for(lambda: len(node.log()) == 10, "the lines of the requests")
        node.kill(Signals.SIGUSR1)  # nothing was moved: the file goes on
        burst(node.port, 10)
        wait_for(lambda: len(node.log()) == 20, "the lines of more requests")
        os.truncate(node.access_log, 0)
        node.kill(Signals.SIGUSR1)
        burst(node.port, 10)
        assert node.stop() == 0
        assert not said(node, "cannot open")
    assert len(node.log()) == 10
    assert json.loads(node.access_log.read_text().splitlines()[0])["event"] == "policy"


# A torn line, a full disk


def test_a_line_torn_by_a_crash_is_ended(site: Path, tmp_path: Path) -> None:
    torn = '{"ts":1,"rid":"ab'
    (tmp_path / "access.log").write_text(torn)
    with RunningNode(site, tmp_path) as node:
        assert node.get("/").status == 200
        assert node.stop() == 0
    first, second = node.access_log.read_text().splitlines()
    assert first == torn
    assert json.loads(second)["path"] == "/"


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    folder.mkdir()
    mount = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mount.returncode:
        pytest.skip("needs the right to mount a small file system (root)")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_holds_lines_until_there_is_room_again(site: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "1m") as disk:
        filler = disk / "filler"
        filler.write_bytes(bytes(900 << 10))
        log = disk / "access.log"
        with RunningNode(site, tmp_path, "--access-log", str(log)) as node:
            burst(node.port, 2000)
            wait_for(lambda: said(node, "cannot write"), "the announcement")
            burst(node.port, 500)
            wait_for(lambda: node.metric("qosweb_access_log_lines_waiting") > 500, "lines to be held")
            assert 0 < len(rids(log)) < 2000  # every line in the file is whole
            assert node.metric("qosweb_access_log_lines_lost_total") == 0
            filler.unlink()
            wait_for(lambda: node.metric("qosweb_access_log_lines_waiting") == 0, "the lines to be written")
            burst(node.port, 100)
            assert node.stop() == 0
        found = rids(log)
        assert len(found) == len(set(found)) == 2600
        assert said(node, "cannot write") == 1
        assert said(node, "writing again; 0 lines lost so far") == 1


def test_lines_that_find_no_room_before_the_end_are_counted(site: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "disk", "64k") as disk:
        log = disk / "access.log"
        with RunningNode(site, tmp_path, "--access-log", str(log)) as node:
            burst(node.port, 700)
            wait_for(lambda: said(node, "cannot write"), "the announcement")
            assert node.stop() == 0
        kept = len(rids(log))
        assert 0 < kept < 700
        assert said(node, f"access log: {700 - kept} lines lost") == 1


def test_lines_that_never_find_room_are_counted(site: Path, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with RunningNode(site, tmp_path, "--access-log", "/dev/full") as node:
        burst(node.port, 1200)
        wait_for(lambda: said(node, "cannot write /dev/full: No space left on device"), "the announcement")
        burst(node.port, 50)
        wait_for(lambda: node.metric("qosweb_access_log_lines_waiting") == 1250, "all lines to be held")
        assert node.stop() == 0
    assert said(node, "cannot write") == 1
    assert said(node, "access log: 1250 lines lost") == 1


# Standard output


def test_a_reader_of_standard_output_that_pauses_or_leaves_holds_nothing_up(site: Path, tmp_path: Path) -> None:
    with RunningNode(site, tmp_path, "--access-log", "-") as node:
        assert node.process.stdout is not None
        burst(node.port, 1500)  # more lines than a pipe holds
        wait_for(lambda: node.metric("qosweb_access_log_lines_waiting") > 100, "lines to be held")
        lines = [json.loads(node.process.stdout.readline()) for _ in range(1500)]
        assert len({line["rid"] for line in lines}) == 1500
        node.process.stdout.close()
        burst(node.port, 1500)
        wait_for(lambda: said(node, "cannot write standard output: Broken pipe"), "the announcement")
        burst(node.port, 1500)
        assert node.stop() == 0
    assert said(node, "cannot write") == 1
    assert said(node, "lines lost") == 1


def test_a_closed_standard_output_is_refused(site: Path) -> None:
    options = ["--root", str(site), "--listen", "127.0.0.1:0", "--admin", "none"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *COMMAND, "serve", *options],
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
        timeout=60,
        check=False,
    )
    message = "qosweb: error: --access-log -: standard output is closed; name a file, or use --access-log none\n"
    assert (done.returncode, done.stderr) == (2, message)
