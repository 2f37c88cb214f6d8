"""``qosweb top``: the cluster on one screen, redrawn several times a second: nodes, guarantees, queues and latency.

The figures of each node are those it reported last, so one stalled node does not stop the others.
Neighbours: `status` prints the same once; `cluster_picture` renders head and nodes.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from qosweb.errors import UsageError
from qosweb.tools.admin_client import AdminClient, AdminError
from qosweb.tools.cluster_picture import CLASSES_MAX, OTHER_FORMAT, bar, head_of, nodes_of, rows_of_classes

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from rich.console import RenderableType

EVERY_S = 0.25
CURVE = 24  # values of a curve
BAR = 16
BLOCKS = " ▁▂▃▄▅▆▇█"


def top(arguments: argparse.Namespace) -> int:
    if not sys.stdout.isatty():
        raise UsageError("top redraws a terminal; for other output use: qosweb status --watch 1")
    asyncio.run(_run(AdminClient(arguments.admin, arguments.token_file)))
    return 0


async def _run(client: AdminClient) -> None:
    """Redraw until Ctrl-C. Retries if the node stops responding; fails if it does not respond at first."""
    console, screen = Console(highlight=False, markup=False), TopScreen()
    async with client:
        first = screen.draw(await client.status(), console.width)
        with Live(first, console=console, auto_refresh=False, screen=True) as live:
            live.refresh()
            while True:
                await asyncio.sleep(EVERY_S)
                try:
                    live.update(screen.draw(await client.status(), console.width), refresh=True)
                except AdminError as error:
                    live.update(Text(f"{error}\n\nRetrying; Ctrl-C to stop.", style="yellow"), refresh=True)


class TopScreen:
    """Draws one status after another, and keeps what the curves show."""

    def __init__(self) -> None:
        self._shares: dict[str, deque[float]] = {}

    def draw(self, status: Mapping[str, Any], width: int) -> Group:
        try:
            nodes: list[RenderableType] = [Text(), nodes_of(status, width)] if status.get("nodes") else []
            return Group(head_of(status), *nodes, Text(), self._classes(status, width))
        except (KeyError, TypeError, AttributeError, ValueError):
            raise UsageError(OTHER_FORMAT) from None

    def _classes(self, status: Mapping[str, Any], width: int) -> Table:
        table = Table(box=None, pad_edge=False, header_style="bold")
        names = list(status["classes"])[:CLASSES_MAX]
        is_wide = width >= 110
        table.add_column("class", overflow="ellipsis", no_wrap=True, max_width=40 if is_wide else 20)
        has_shares = bool(status.get("capacity"))
        if has_shares:
            table.add_column("guaranteed", overflow="ellipsis", no_wrap=True, max_width=24 if is_wide else 12)
            table.add_column("gets", justify="right")
            table.add_column("", no_wrap=True)
        for column in ("waiting", "served/s", "denied/s", "wait p99", "service p99"):
            table.add_column(column, justify="right", no_wrap=True)
        if has_shares and is_wide:
            table.add_column("share, recently", no_wrap=True)
        if not has_shares:
            for name in names:
                table.add_row(Text(name), *_latency(status, (name,)))
            return table
        for row in rows_of_classes(status, names):
            members = [status["classes"][name] for name in row.classes]
            gets = sum(one["share"]["of_capacity"] for one in members)
            promised = sum(one["share"]["promised"] or 0.0 for one in members)
            shares = self._shares.setdefault(row.label, deque(maxlen=CURVE))
            shares.append(gets)
            table.add_row(
                Text(row.label),
                Text(row.guaranteed),
                f"{gets:.0%}",
                bar(gets, promised, BAR),
                *_latency(status, row.classes),
                *([Text(curve(shares), style="green")] if is_wide else []),
            )
        return table


def _latency(status: Mapping[str, Any], names: tuple[str, ...]) -> tuple[str, ...]:
    """Waiting, rates and p99 of these classes at all nodes. The p99 is that of the slowest node."""
    found = [
        node["classes"][name] for node in status.get("live", {}).values() for name in names if name in node["classes"]
    ]
    return (
        f"{sum(one['waiting'] for one in found):,}",
        f"{sum(one['served_per_s'] for one in found):.1f}",
        f"{sum(one['denied_per_s'] for one in found):.1f}",
        *(_slowest([one[key] for one in found]) for key in ("wait_p99_ms", "service_p99_ms")),
    )


def _slowest(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    return f"{max(known):g} ms" if known else ""


def curve(values: deque[float]) -> str:
    """Values between 0 and their maximum as blocks of different heights, the newest at the right."""
    high = max(0.05, *values)
    return "".join(BLOCKS[round(value / high * (len(BLOCKS) - 1))] for value in values).rjust(CURVE)
