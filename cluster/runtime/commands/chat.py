"""``python -m cluster chat``: a terminal chat in which all members see the same lines in the same order.

Start one with --found and others with --join. Kill or disconnect some and watch the views change.
Below: group.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from cluster.runtime.api.delivery_stream import Delivery, Skipped
from cluster.runtime.api.group import Group, InDoubt, NotDelivered

if TYPE_CHECKING:
    import argparse

    from cluster.runtime.api.options import Options

LINE_LEN_MAX = 4096


async def run(options: Options, arguments: argparse.Namespace) -> int:
    group = await (Group.found if arguments.found else Group.join)(options)
    print(
        f"-- {group.me.name} listens on {' '.join(group.addresses)}; type /leave or end the input to leave", flush=True
    )
    loop = asyncio.get_running_loop()
    printers = [loop.create_task(_print_deliveries(group)), loop.create_task(_print_views(group))]
    sends: set[asyncio.Task[None]] = set()
    reader = asyncio.StreamReader(limit=LINE_LEN_MAX)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    async for line in reader:
        text = line.decode(errors="replace").strip()
        if text == "/leave":
            break
        if text:
            task = loop.create_task(_send(group, text))
            sends.add(task)
            task.add_done_callback(sends.discard)
    await group.leave()
    for task in printers:
        task.cancel()
    await asyncio.gather(*printers, *sends, return_exceptions=True)
    return 0


async def _send(group: Group, text: str) -> None:
    if group.primary is None:
        print("-- not in the primary view: the line waits until we are", flush=True)
    try:
        await group.broadcast(text.encode())
    except (NotDelivered, InDoubt) as error:
        print(f"-- not sent: {text} ({error})", flush=True)


async def _print_deliveries(group: Group) -> None:
    async for event in group.deliveries():
        if isinstance(event, Delivery):
            text = event.body.decode(errors="replace")
            print(
                f"{event.position:>6}  {event.origin.name}: {''.join(c for c in text if c.isprintable())}", flush=True
            )
        elif isinstance(event, Skipped):
            print(f"-- lines before position {event.position} are not available here", flush=True)


async def _print_views(group: Group) -> None:
    async for view in group.views():
        if view is None:
            print("-- no primary view", flush=True)
        else:
            print(f"-- primary view {view.id}: {' '.join(member.name for member in view.members)}", flush=True)
