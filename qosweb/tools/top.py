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
from qosweb.tools.cluster_picture import (
    CLASSES_MAX,
    GUARANTEE_MAX,
    NAME_MAX,
    OTHER_FORMAT,
    WAIT_P99,
    bar,
    head_of,
    nodes_of,
    rows_of_classes,
    slowest_ms,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from rich.console import RenderableType

EVERY_S = 0.25
CURVE_MIN, CURVE_MAX = 15, 24  # values of a curve
BAR_MIN, BAR_MAX = 6, 16
GAP = 2  # between columns
MEDIUM, NARROW = 100, 80  # widths of the terminal
COLUMNS = (
    ("waiting", 0),
    ("served/s", 0),
    ("denied/s", NARROW),
    (WAIT_P99, 0),
    ("service p99", MEDIUM),
)  # from a width on
BLOCKS = " ▁▂▃▄▅▆▇█"


def top(arguments: argparse.Namespace) -> int:
    if not sys.stdout.isatty():
        raise UsageError("top redraws a terminal; for other output use: qosweb status --watch 1")
    asyncio.run(_run(AdminClient(arguments.admin, arguments.token_file)))
    return 0


async def _run(client: AdminClient) -> None:
    """Redraw until Ctrl-C. Retries if the node stops responding; fails if it does not respond at first."""
    console, screen = Console(highlight=False, markup=False), TopScreen()
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
    """Draws one status after another, and keeps the values that the curves show."""

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
        columns = [column for column, least in COLUMNS if width >= least]
        has_shares = bool(status.get("capacity"))
        rows = rows_of_classes(status, names) if has_shares else []
        left = width - sum(len(column) + GAP for column in columns)
        labels = min(NAME_MAX, max((len(row.label) for row in rows), default=0))
        guarantee_len = bar_len = curve_len = 0
        if has_shares:
            left -= len("100%") + 2 * GAP
            longest = max((len(row.guaranteed) for row in rows), default=0)
            guarantee_len, bar_len, curve_len = _lengths(left - labels, longest, width)
            left -= guarantee_len + (bar_len + GAP if bar_len else 0) + (curve_len + GAP if curve_len else 0)
        table.add_column("class", overflow="ellipsis", no_wrap=True, max_width=max(8, min(NAME_MAX, left)))
        if has_shares:
            table.add_column("guaranteed", overflow="ellipsis", no_wrap=True, max_width=guarantee_len)
            table.add_column("gets", justify="right", no_wrap=True, min_width=4)
            if bar_len:
                table.add_column("", no_wrap=True, min_width=bar_len)
        for column in columns:
            table.add_column(column, justify="right", no_wrap=True, min_width=len(column))
        if curve_len:
            table.add_column("recent share", no_wrap=True, min_width=curve_len)
        if not has_shares:
            for name in names:
                table.add_row(Text(name), *_latency(status, (name,), columns))
            return table
        for row in rows:
            members = [status["classes"][name] for name in row.classes]
            gets = sum(member["share"]["of_capacity"] for member in members)
            promised = sum(member["share"]["promised"] or 0.0 for member in members)
            shares = self._shares.setdefault(row.label, deque(maxlen=CURVE_MAX))
            shares.append(gets)
            table.add_row(
                Text(row.label),
                Text(row.guaranteed),
                f"{gets:.0%}",
                *([bar(gets, promised, bar_len)] if bar_len else []),
                *_latency(status, row.classes, columns),
                *([Text(curve(shares, curve_len), style="green")] if curve_len else []),
            )
        return table


def _lengths(room: int, longest: int, width: int) -> tuple[int, int, int]:
    """Lengths of guarantee, bar and curve in ``room``; 0: there is none. The curve comes last."""
    bar_min = BAR_MIN + GAP if width >= NARROW else 0
    guarantee = max(len("guaranteed"), min(GUARANTEE_MAX, longest, room - bar_min))
    room -= guarantee
    curve = min(CURVE_MAX, room - bar_min - GAP)
    if curve < CURVE_MIN or width < MEDIUM:
        return guarantee, max(BAR_MIN, min(BAR_MAX, room - GAP)) if bar_min else 0, 0
    return guarantee, max(BAR_MIN, min(BAR_MAX, room - curve - 2 * GAP)), curve


def _latency(status: Mapping[str, Any], names: tuple[str, ...], columns: list[str]) -> list[str]:
    """Waiting, rates and p99 of these classes at all nodes. The p99 is that of the slowest node."""
    found = [
        node["classes"][name] for node in status.get("live", {}).values() for name in names if name in node["classes"]
    ]
    values = {
        "waiting": f"{sum(one['waiting'] for one in found):,}",
        "served/s": f"{sum(one['served_per_s'] for one in found):.1f}",
        "denied/s": f"{sum(one['denied_per_s'] for one in found):.1f}",
        WAIT_P99: slowest_ms(status, names, "wait_p99_ms"),
        "service p99": slowest_ms(status, names, "service_p99_ms"),
    }
    return [values[column] for column in columns]


def curve(values: deque[float], length: int) -> str:
    """The last ``length`` values as blocks whose heights are relative to the maximum, the newest at the right."""
    high = max(0.05, *values)
    return "".join(BLOCKS[round(value / high * (len(BLOCKS) - 1))] for value in values)[-length:].rjust(length)
