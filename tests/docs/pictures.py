"""Takes the pictures of the README: the dashboard in a browser, and ``qosweb status``, of a cluster under load."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from tests.support.browser import BROWSERS, browser_tab, find_browser
from tests.support.nodes import COMMAND, environment
from tests.support.waiting import wait_for

BUSY = "readers=6:/free/hollin-preview.jpg", "subscribers=3:/paid/full/hollin-sheet.jpg", "buyers=1:/checkout/"


def take(folder: Path, *, denials: int = 300) -> list[Path]:
    """Write ``dashboard.png`` and ``status.txt`` into a folder, after so many denials of the busy classes.

    Needs a browser.
    """
    program = find_browser()
    if program is None:
        raise SystemExit(f"no browser found; install one of {', '.join(BROWSERS)}")
    with tempfile.TemporaryDirectory() as scratch, DemoCluster(Path(scratch)) as (sites, admins):
        status_of = [*COMMAND, "status", "--admin", admins[0]]
        with Overload(sites):
            wait_for(lambda: is_contended(admins[0], denials), "denials of two classes")
            shot = folder / "dashboard.png"
            asyncio.run(_take_dashboard(program, f"http://{admins[0]}/", Path(scratch), shot))
            drawn = subprocess.run(
                status_of, capture_output=True, text=True, check=True, timeout=60, env=environment({"COLUMNS": "118"})
            )
        text = folder / "status.txt"
        text.write_text("\n".join(line.rstrip() for line in drawn.stdout.splitlines()) + "\n", encoding="utf-8")
    return [shot, text]


async def _take_dashboard(program: str, url: str, scratch: Path, shot: Path) -> None:
    """The upper part of the page: nodes, classes and some charts."""
    async with browser_tab(program, scratch) as tab:
        await tab.open(url, 1200, 1150)
        await tab.wait_for("document.querySelectorAll('#charts .chart').length >= 6 && before !== null")
        seen = await tab.evaluate("past.number")
        await tab.wait_for(f"past.number > {seen} + 1")  # rates need two polls
        await tab.save_picture(shot)


class DemoCluster:
    """A demo cluster. Enters with the addresses of its nodes and of their admin ports."""

    def __init__(self, scratch: Path) -> None:
        self._output = scratch / "demo.txt"

    def __enter__(self) -> tuple[list[str], list[str]]:
        with self._output.open("w") as output:
            self._process = subprocess.Popen(
                [*COMMAND, "demo", "--port", "0"], stdout=output, stderr=subprocess.STDOUT, env=environment({})
            )
        wait_for(lambda: "Events:" in self._output.read_text(), "the demo")
        rows = re.findall(r"^  n\d .*?(http://\S+)/ .*?http://(\S+)/", self._output.read_text(), re.MULTILINE)
        return [site for site, _ in rows], [admin for _, admin in rows]

    def __exit__(self, *_: object) -> None:
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)


class Overload:
    """An overload of all nodes, until the end of the block."""

    def __init__(self, sites: list[str]) -> None:
        self._sites = sites

    def __enter__(self) -> None:
        generator = [sys.executable, "-m", "loadgen.cli"]
        mixes = [word for mix in BUSY for word in ("--mix", mix)]
        trace = subprocess.run(
            [*generator, "trace", "--rate", "90", "--duration", "120s", *mixes], capture_output=True, check=True
        )
        targets = [word for site in self._sites for word in ("--target", site)]
        self._process = subprocess.Popen(
            [*generator, "run", "-", "--quiet", *targets],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        self._process.stdin.write(trace.stdout)
        self._process.stdin.close()

    def __exit__(self, *_: object) -> None:
        os.killpg(self._process.pid, signal.SIGTERM)
        self._process.wait(30)


def is_contended(admin: str, denials: int) -> bool:
    with urllib.request.urlopen(f"http://{admin}/status", timeout=10) as answer:
        classes = json.load(answer)["classes"]
    return all(classes[name]["cluster"]["denied"] >= denials for name in ("/free", "/paid/full"))
