"""`qosweb top`: what it draws, and a run in a real terminal against a real node."""

from __future__ import annotations

import io
import os
import pty
import signal
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from rich.console import Console

from qosweb.errors import UsageError
from qosweb.tools.top import TopScreen
from tests.support.nodes import COMMAND, RunningNode, environment, run_command
from tests.support.sites import write_site
from tests.support.waiting import wait_for
from tests.tools.test_cluster_picture import cluster_status

if TYPE_CHECKING:
    from pathlib import Path


def figures(waiting: int, wait_p99_ms: float | None, age_s: float = 0.05) -> dict[str, Any]:
    paid = {
        "served_per_s": 10.5,
        "denied_per_s": 1.0,
        "bytes_per_s": 1000,
        "in_service": 1,
        "waiting": waiting,
        "wait_p99_ms": wait_p99_ms,
        "service_p99_ms": 5.0,
    }
    return {"age_s": age_s, "load": 0.25, "waiting": waiting, "served_per_s": 10.5, "classes": {"/paid": paid}}


def live_status() -> dict[str, Any]:
    live = {"n1": figures(3, 20.0), "n2": figures(4, 50.0), "n3": figures(0, None, age_s=7.5)}
    return {**cluster_status(), "live": live}


def drawn(screen: TopScreen, status: dict[str, Any], width: int = 130) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    console.print(screen.draw(status, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_classes_have_the_sums_and_the_slowest_of_all_nodes() -> None:
    screen = TopScreen()
    drawn(screen, live_status())
    lines = drawn(screen, live_status())
    paid = next(line for line in lines if line.startswith("/paid")).split()
    assert paid[1:4] == [">", "50%", "40%"]
    assert paid[5:] == ["7", "31.5", "3.0", "50", "ms", "5", "ms", "██"]


def test_a_node_with_old_figures_is_seen() -> None:
    lines = drawn(TopScreen(), live_status())
    assert next(line for line in lines if line.startswith("n3")).split()[7:9] == ["7.5", "s"]


@pytest.mark.parametrize("width", [60, 80, 100, 110, 112, 120, 200])
def test_a_line_fits_into_the_terminal(width: int) -> None:
    assert all(len(line) <= width for line in drawn(TopScreen(), live_status(), width))


@pytest.mark.parametrize(
    ("width", "lacks"), [(60, {"service", "denied/s"}), (80, {"service"}), (100, set()), (110, set())]
)
def test_a_narrow_terminal_shows_whole_columns(width: int, lacks: set[str]) -> None:
    lines = drawn(TopScreen(), live_status(), width)
    head = next(line for line in lines if line.startswith("class"))
    columns = ["class", "guaranteed", "gets", "waiting", "served/s", "denied/s", "wait", "service"]
    assert [word for word in head.split() if word != "p99"] == [word for word in columns if word not in lacks]
    paid = next(line for line in lines if line.startswith("/paid"))
    assert [word for word in ("> 50%", "40%", "31.5", "50 ms") if word not in paid] == []
    assert "…" not in head + paid


@pytest.mark.parametrize("width", [110, 200])
def test_a_wide_terminal_shows_a_curve_and_whole_names(width: int) -> None:
    status = live_status()
    del status["classes"]["[red]/name[/red]"]
    lines = drawn(TopScreen(), status, width)
    head = next(line for line in lines if line.startswith("class"))
    assert head.rstrip().endswith("recent share")
    assert "…" not in "".join(lines)


def test_a_guarantee_uses_the_space_that_is_left() -> None:
    status = live_status()
    del status["classes"]["[red]/name[/red]"]
    status["policy"]["rules"][0]["text"] = "night => </paid>.server_resource > 50%"
    paid = next(line for line in drawn(TopScreen(), status, 80) if line.startswith("/paid"))
    assert "> 50% if night" in paid
    assert len(paid) <= 80


def test_another_format_is_explained() -> None:
    with pytest.raises(UsageError, match="another version"):
        TopScreen().draw({"name": "n1"}, 100)


def test_it_needs_a_terminal() -> None:
    done = run_command("top")
    assert done.returncode == 2
    assert "qosweb status --watch" in done.stderr


def test_it_redraws_a_terminal_until_it_is_interrupted(tmp_path: Path) -> None:
    site = write_site(tmp_path / "site")
    with RunningNode(site, tmp_path, "--capacity", "1MB/s") as node:
        ours, theirs = pty.openpty()
        process = subprocess.Popen(
            [*COMMAND, "top", "--admin", f"127.0.0.1:{node.admin_port}"],
            stdin=theirs, stdout=theirs, stderr=subprocess.PIPE,
            env={**environment(), "TERM": "xterm", "COLUMNS": "120"},
        )  # fmt: skip
        os.close(theirs)
        os.set_blocking(ours, False)
        shown = bytearray()

        def has_redrawn() -> bool:
            with suppress(BlockingIOError):
                shown.extend(os.read(ours, 1 << 16))
            assert process.poll() is None
            return shown.count(b"served/s") >= 6

        def has_ended() -> bool:
            with suppress(OSError):
                os.read(ours, 1 << 16)
            return process.poll() is not None

        try:
            wait_for(has_redrawn, "top draws the screen several times", 60)
            process.send_signal(signal.SIGINT)
            wait_for(has_ended, "top to end", 60)  # reads what it draws meanwhile, so that it is not held up
            assert process.stderr is not None
            errors = process.stderr.read()
        finally:
            process.kill()
            process.communicate(timeout=60)
            os.close(ours)
        assert b"Traceback" not in errors
