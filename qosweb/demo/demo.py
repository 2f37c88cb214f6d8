"""The demo itself: start the nodes, tell what to try, show what happens, end in order.

Parts: `ports`, `demo_nodes` (the processes), `visitors` (the visitors), `cluster_events` (what happened),
`instructions` (what is said first).
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import signal
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from qosweb.demo.cluster_events import ClusterEvents, NodeSnapshot
from qosweb.demo.demo_nodes import DemoNodes, look
from qosweb.demo.instructions import EVENING, introduction
from qosweb.demo.ports import choose
from qosweb.demo.visitors import visit_for_ever
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from qosweb.demo.demo_nodes import DemoNode

HERE = Path(__file__).parent.parent
SITE = HERE / "sample_site"
SPEC = HERE / "sample_site.webqos"
NODES_MAX = 9
LOOK_EVERY_S = 1.0
LOOK_S = 2.0


def demo(*, nodes: str, port: str | None) -> int:
    count = _whole(nodes, "--nodes", 1, NODES_MAX)
    ports, taken = choose(count, None if port is None else _whole(port, "--port", 0, 65535))
    with tempfile.TemporaryDirectory(prefix="qosweb-demo-") as folder:
        if taken:
            say(f"port {taken[0]} is in use: others are chosen (--port N says which)")
        return asyncio.run(_demo(DemoNodes(SITE, SPEC, Path(folder), ports)))


async def _demo(crew: DemoNodes) -> int:
    """Until a signal, or until nobody reads what is said, or no node is left."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, task.cancel)
    with contextlib.suppress(asyncio.CancelledError, BrokenPipeError):
        async with crew:
            say("starting...")
            await crew.come_together()
            evening = crew.folder / "evening.webqos"
            evening.write_text(EVENING)
            say(introduction(crew, SPEC, evening))
            visitors = asyncio.create_task(visit_for_ever(lambda: _running(crew), random.Random(1)))
            try:
                await _tell(crew)
            finally:
                visitors.cancel()
                await asyncio.gather(visitors, return_exceptions=True)
                with contextlib.suppress(BrokenPipeError):
                    say("ending...")
        say("no node is left")
        return 1
    return 0


def _running(crew: DemoNodes) -> list[DemoNode]:
    return [member for member in crew.members if member.code is None]


async def _tell(crew: DemoNodes) -> None:
    """Say what happens, for as long as there is a node."""
    events, before = ClusterEvents(), time.monotonic()
    while _running(crew):
        looks = await asyncio.gather(*(_look(member) for member in crew.members))
        now = time.monotonic()
        for line in events.of(list(looks), now - before):
            say(f"{time.strftime('%H:%M:%S')}  {line}")
        before = now
        await asyncio.sleep(LOOK_EVERY_S)


async def _look(member: DemoNode) -> NodeSnapshot:
    status = None
    if member.code is None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LOOK_S):
                status = await look(member)
    return NodeSnapshot(member.name, status, member.code)


def say(text: str) -> None:
    print(text, flush=True)


def _whole(text: str, option: str, least: int, most: int) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 6 or not least <= int(text) <= most:
        raise UsageError(f"{option} '{text}': give a whole number from {least} to {most}")
    return int(text)
