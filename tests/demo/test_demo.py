"""The demo as a process: its instructions work, it reports events, and it leaves nothing behind however it ends."""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import subprocess
import time
import urllib.request
from signal import Signals
from typing import TYPE_CHECKING

import psutil
import pytest

from qosweb.demo.demo_nodes import send
from qosweb.demo.instructions import EVENING
from qosweb.webqos import compile_policy
from tests.support.nodes import COMMAND, environment, run_command
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

START_S = 120.0


class Demo:
    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.output = folder / "output"
        with self.output.open("wb") as stream:
            self.process = subprocess.Popen(
                [*COMMAND, "demo", *options], stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT,
                env=environment({"TMPDIR": str(folder)}), start_new_session=True,
            )  # fmt: skip
        self.nodes: list[psutil.Process] = []

    def __enter__(self) -> Demo:
        wait_for(self._has_begun, "the demo's text", START_S)
        self.nodes = [psutil.Process(int(pid)) for pid in re.findall(r" pid (\d+)", self.text())]
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(30)
        for node in self.nodes:
            if _is_alive(node):
                node.kill()

    def text(self) -> str:
        return self.output.read_text()

    def says(self, pattern: str) -> None:
        wait_for(lambda: re.search(pattern, self.text()), f"'{pattern}' in the demo's output", 60)

    def wait_until_nobody_is_left(self) -> None:
        wait_for(lambda: not any(_is_alive(one) for one in self.nodes), "all nodes to end", 60)

    def _has_begun(self) -> bool:
        assert self.process.poll() is None, self.text()
        return "primary view" in self.text()


def _is_alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_the_demo_survives_the_death_of_a_node_and_stops_gracefully(tmp_path: Path) -> None:
    with Demo(tmp_path, "--port", "0") as demo:
        assert len(demo.nodes) == 3
        urls = re.findall(r"^  (http://\S+)  +\S", demo.text(), re.MULTILINE)
        classes = []
        for url in urls:
            with urllib.request.urlopen(url, timeout=20) as reply:
                assert reply.status == 200
                classes.append(reply.headers["QoS-Class"])
        assert classes == ["/index.html", "/free", "/paid/full", "/shop", "/checkout"]
        logs = sorted(tmp_path.glob("qosweb-demo-*/n?.log"))
        assert len(logs) == 3
        for log in logs:  # visitors come to each of them
            wait_for(lambda log=log: '"decision":"served"' in log.read_text(), f"visitors in {log.name}")  # type: ignore[misc]
        admin = re.findall(r"dashboard http://(\S+)/", demo.text())[0]
        evening = re.findall(r"reload (\S+evening.webqos)", demo.text())[0]
        assert run_command("reload", evening, "--admin", admin).returncode == 0
        demo.says(r"policy \w+ is in force")
        demo.nodes[2].suspend()
        demo.says("n3 does not respond")
        demo.nodes[2].resume()
        demo.says("n3 responds again")
        demo.says(r"(?s)n3 responds again.*primary view \S+ n1 n2 n3")
        demo.nodes[1].kill()
        demo.says(r"n2 ended \(SIGKILL\)")
        demo.says(r"(?s)n2 ended.*primary view \S+ n1 n3;")
        demo.process.send_signal(Signals.SIGINT)
        assert demo.process.wait(60) == 0
        demo.wait_until_nobody_is_left()
        assert "Traceback" not in demo.text()
    assert not list(tmp_path.glob("qosweb-demo-*"))


def test_the_lines_for_blocks_releases_and_search_work_as_printed(tmp_path: Path) -> None:
    words = (
        " block",
        " publish ",
        " releases ",
        " rollback ",
        " serve --site",
        "search.key",
        "/documents/",
        "/search?",
    )
    with Demo(tmp_path, "--nodes", "1", "--port", "0") as demo:
        lines = [
            line
            for line in demo.text().splitlines()
            if line[:2] == "  " and line[2] != "#" and any(word in line for word in words)
        ]
        assert len(lines) == 10
        output = tmp_path / "said"
        with output.open("wb") as stream:
            shell = subprocess.Popen(
                ["sh", "-ec", "\n".join(lines)], stdout=stream, stderr=subprocess.STDOUT,
                env=environment(), start_new_session=True,
            )  # fmt: skip
        try:
            assert shell.wait(120) == 0, output.read_text()
        finally:
            os.killpg(shell.pid, Signals.SIGKILL)  # what the lines left in the background
        said = output.read_text()
    assert "203.0.113.0/24" in said
    assert "release 2 is current" in said
    assert "release 3" in said  # the rollback
    assert "fox" in said


def test_nodes_notice_that_the_demo_was_killed(tmp_path: Path) -> None:
    with Demo(tmp_path, "--nodes", "1", "--port", "0") as demo:
        demo.process.kill()
        demo.process.wait(30)
        demo.wait_until_nobody_is_left()


def test_logs_are_kept_and_the_last_line_says_how_to_judge_them(tmp_path: Path) -> None:
    kept = tmp_path / "logs of today"
    with Demo(tmp_path, "--nodes", "1", "--port", "0", "--keep", str(kept)) as demo:
        log = kept / "n1.log"
        wait_for(lambda: '"decision":"served"' in log.read_text(), "visitors")
        demo.process.send_signal(Signals.SIGINT)
        assert demo.process.wait(60) == 0
        last = demo.text().splitlines()[-1]
    assert sorted(one.name for one in kept.iterdir()) == ["n1.err", "n1.log"]
    assert not list(tmp_path.glob("qosweb-demo-*"))
    command = last.partition("?  ")[2]
    assert command.endswith(f" analyze '{kept}'/n*.log")
    found = subprocess.run(
        ["sh", "-c", f"{command} --quiet --json"], capture_output=True, text=True, env=environment(), check=False
    )
    assert found.returncode in (0, 1), found.stderr  # a verdict
    assert json.loads(found.stdout)


def test_a_folder_with_something_in_it_is_not_used_for_logs(tmp_path: Path) -> None:
    (tmp_path / "n1.log").touch()
    done = run_command("demo", "--keep", str(tmp_path))
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"qosweb: error: --keep {tmp_path}: the folder is not empty; give a new or empty one\n"


@pytest.mark.parametrize("end", [Signals.SIGHUP, Signals.SIGTERM])  # SIGHUP: the terminal was closed
def test_the_demo_stops_at_other_signals_and_at_a_second_one(tmp_path: Path, end: Signals) -> None:
    with Demo(tmp_path, "--nodes", "1", "--port", "0") as demo:
        demo.process.send_signal(end)
        time.sleep(0.005)
        demo.process.send_signal(end)
        assert demo.process.wait(60) == 0
        demo.wait_until_nobody_is_left()
        assert "Unclosed" not in demo.text()
        assert "Traceback" not in demo.text()
    assert not list(tmp_path.glob("qosweb-demo-*"))


def test_a_signal_to_a_node_that_ends_does_not_hide_its_exit_code(caplog: pytest.LogCaptureFixture) -> None:
    async def end(count: int) -> list[int]:
        codes = []
        for _ in range(count):
            process = await asyncio.create_subprocess_exec("sh", "-c", "exit 3")
            while process.returncode is None:
                send(process, Signals.SIGCONT)
                await asyncio.sleep(0)
            codes.append(process.returncode)
        return codes

    assert asyncio.run(end(30)) == [3] * 30
    assert caplog.records == []


def test_signals_after_the_end_do_not_change_the_exit_code(tmp_path: Path) -> None:
    with Demo(tmp_path, "--nodes", "1", "--port", "0") as demo:
        while demo.process.poll() is None:
            demo.process.send_signal(Signals.SIGINT)
            time.sleep(0.001)
        assert demo.process.returncode == 0
        demo.wait_until_nobody_is_left()
        assert "Traceback" not in demo.text()


def test_invalid_options_are_rejected() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        if port < 65000:
            done = run_command("demo", "--port", str(port))
            assert (done.returncode, done.stdout) == (2, "")
            assert done.stderr.startswith(f"qosweb: error: --port {port}: in use: {port}")
            assert done.stderr.endswith("give another port, or 0 for any free ports\n")
    for options in (["--nodes", "0"], ["--nodes", "10"], ["--nodes", "x"], ["--port", "-1"], ["--port", "65534"]):
        done = run_command("demo", "=".join(options))
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"qosweb: error: {options[0]} ")


def test_the_evening_policy_has_no_errors() -> None:
    assert compile_policy(EVENING).diagnostics == []
