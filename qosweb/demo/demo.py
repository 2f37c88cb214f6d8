"""Runs the demo: starts the nodes and their load, prints instructions and events, and stops everything at the end.

Parts: `ports`, `demo_nodes` (processes), `background_load`, `cluster_events` (event log), `instructions`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from qosweb.demo.background_load import send_background_load
from qosweb.demo.cluster_events import ClusterEvents, NodeSnapshot
from qosweb.demo.demo_nodes import DemoNodes, fetch_status
from qosweb.demo.instructions import EVENING, analyze_command, introduction
from qosweb.demo.ports import choose_ports
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from qosweb.demo.demo_nodes import DemoNode

HERE = Path(__file__).parent.parent
SITE = HERE / "sample_site"
SPEC = HERE / "sample_site.webqos"
NODES_MAX = 9
POLL_EVERY_S = 1.0
POLL_TIMEOUT_S = 2.0
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def demo(*, nodes: str, port: str | None, keep: str | None = None) -> int:
    """Run the demo with options as given on the command line. Raises UsageError."""
    count = _parse_whole(nodes, "--nodes", 1, NODES_MAX)
    ports, taken = choose_ports(count, None if port is None else _parse_whole(port, "--port", 0, 65535))
    kept = None if keep is None else _empty_folder(keep)
    with tempfile.TemporaryDirectory(prefix="qosweb-demo-") as folder:
        if taken:
            _print(f"port {taken[0]} is in use: the demo uses other ports (choose them with --port N)")
        code = asyncio.run(_demo(DemoNodes(SITE, SPEC, Path(folder), ports, kept or Path(folder)), kept is not None))
    if kept is not None:
        with contextlib.suppress(BrokenPipeError):
            _print(f"The logs are kept. Were all guarantees held?  {analyze_command(kept)}")
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # else one more Ctrl-C, while the interpreter ends, changes the exit code
    return code


def _empty_folder(name: str) -> Path:
    """The folder to keep logs in: made if it is missing. Raises UsageError if that fails, or if something is in it."""
    folder = Path(name).absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"--keep {name}: the folder is not empty; give a new or empty one")
        if not os.access(folder, os.W_OK | os.X_OK):
            raise UsageError(f"--keep {name}: no permission to write to the folder")
    except OSError as error:
        raise UsageError(f"--keep {name}: {error.strerror or error}") from None
    return folder


async def _demo(nodes: DemoNodes, keeps_logs: bool) -> int:
    """Run until a signal, until the output is closed, or until all nodes have ended.

    Only the first signal cancels: a second one must not cancel what ends the demo. It kills the nodes instead.
    """
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None

    def stop() -> None:
        if task.cancelling():
            nodes.kill()
        else:
            task.cancel()

    def on_signal(*_: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(stop)

    for number in SIGNALS:
        signal.signal(number, on_signal)  # handlers of the loop would end with it, before folders are removed
    with contextlib.suppress(asyncio.CancelledError, BrokenPipeError):
        async with nodes:
            _print("starting...")
            await nodes.wait_until_joined()
            evening = nodes.folder / "evening.webqos"
            evening.write_text(EVENING)
            _print(introduction(nodes, SPEC, evening, keeps_logs=keeps_logs))
            load = asyncio.create_task(send_background_load(lambda: _running(nodes), random.Random(1)))
            try:
                await _print_events(nodes)
            finally:
                load.cancel()
                await asyncio.gather(load, return_exceptions=True)
                with contextlib.suppress(BrokenPipeError):
                    _print("stopping...")
        _print("all nodes have ended")
        return 1
    return 0


def _running(nodes: DemoNodes) -> list[DemoNode]:
    return [member for member in nodes.members if member.code is None]


async def _print_events(nodes: DemoNodes) -> None:
    """Print events until all nodes have ended."""
    events, before = ClusterEvents(), time.monotonic()
    while _running(nodes):
        snapshots = await asyncio.gather(*(_snapshot(member) for member in nodes.members))
        now = time.monotonic()
        for line in events.update(list(snapshots), now - before):
            _print(f"{time.strftime('%H:%M:%S')}  {line}")
        before = now
        await asyncio.sleep(POLL_EVERY_S)


async def _snapshot(member: DemoNode) -> NodeSnapshot:
    status = None
    if member.code is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(POLL_TIMEOUT_S):
                status = await fetch_status(member)
    return NodeSnapshot(member.name, status, member.code)


def _print(text: str) -> None:
    print(text, flush=True)


def _parse_whole(text: str, option: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not least <= int(text) <= most:
        raise UsageError(f"{option} '{text}': give a whole number from {least} to {most}")
    return int(text)
