"""``qosweb status``: shows the cluster as seen by one node, once or repeatedly.

With ``--watch`` a terminal is redrawn in place. Other output gets one block per refresh, at most LOOKS_MAX, so that a
forgotten command does not fill a disk.
Neighbours: `admin_client` fetches the status, `cluster_picture` renders it.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.live import Live
from rich.text import Text

from qosweb.errors import UsageError
from qosweb.tools.admin_client import AdminClient, AdminError
from qosweb.tools.cluster_picture import OTHER_FORMAT, picture

if TYPE_CHECKING:
    import argparse

    from rich.console import Group

EVERY_MIN_S = 0.1
EVERY_MAX_S = 3600.0
LOOKS_MAX = 3600
WIDTH = 120  # where there is no terminal to ask


def status(arguments: argparse.Namespace) -> int:
    every_s = None if arguments.watch is None else _seconds(arguments.watch)
    client = AdminClient(arguments.admin, arguments.token_file)
    try:
        if every_s is None:
            return asyncio.run(_once(client, as_json=arguments.json))
        return asyncio.run(_watch(client, every_s, as_json=arguments.json))
    except BrokenPipeError:  # the reader of the output has closed it
        sys.stdout = None
        return 0


async def _once(client: AdminClient, *, as_json: bool) -> int:
    found = await client.status()
    if as_json:
        print(json.dumps(found, indent=2))
    else:
        _draw(found, None, 0.0)
    return 0


async def _watch(client: AdminClient, every_s: float, *, as_json: bool) -> int:
    """Refresh until Ctrl-C. Retries if the node stops responding; fails if it does not respond at first."""
    latest = await client.status()
    if as_json or not sys.stdout.isatty():
        return await _watch_in_blocks(client, latest, every_s, as_json=as_json)
    loop = asyncio.get_running_loop()
    console = Console(highlight=False, markup=False)
    with Live(_picture(latest, None, 0.0, console), console=console, auto_refresh=False, screen=True) as live:
        at = loop.time()
        live.refresh()
        while True:
            await asyncio.sleep(every_s)
            try:
                found, now = await client.status(), loop.time()
                live.update(_picture(found, latest, now - at, console), refresh=True)
                latest, at = found, now
            except AdminError as error:
                live.update(Text(f"{error}\n\nRetrying; Ctrl-C to stop.", style="yellow"), refresh=True)


async def _watch_in_blocks(client: AdminClient, latest: dict[str, Any], every_s: float, *, as_json: bool) -> int:
    """Write one block per refresh; with JSON one line."""
    loop = asyncio.get_running_loop()
    before, at = None, loop.time()
    for _ in range(LOOKS_MAX):
        now = loop.time()
        if as_json:
            print(json.dumps(latest), flush=True)
        else:
            if before is not None:
                print()
            _draw(latest, before, now - at)
        before, at = latest, now
        await asyncio.sleep(every_s)
        latest = await client.status()
    return 0


def _draw(found: dict[str, Any], before: dict[str, Any] | None, seconds: float) -> None:
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else WIDTH)
    console.print(_picture(found, before, seconds, console))
    sys.stdout.flush()


def _picture(found: dict[str, Any], before: dict[str, Any] | None, seconds: float, console: Console) -> Group:
    try:
        return picture(found, before, seconds, console.width)
    except (KeyError, TypeError, AttributeError, ValueError):
        raise UsageError(OTHER_FORMAT) from None


def _seconds(text: str) -> float:
    try:
        seconds = float(text.removesuffix("s"))
    except ValueError:
        seconds = -1.0
    if not EVERY_MIN_S <= seconds <= EVERY_MAX_S:
        raise UsageError(f"--watch '{text}': give seconds between {EVERY_MIN_S:g} and {EVERY_MAX_S:g}, such as 2")
    return seconds
