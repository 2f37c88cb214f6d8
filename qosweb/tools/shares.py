"""``qosweb shares``: shows the share of every class, as a table with bars."""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from qosweb.errors import UsageError, did_you_mean
from qosweb.plots import need_matplotlib
from qosweb.tools.situation import RATES_IGNORED, environment_of, ignores_rates, read_literal
from qosweb.webqos import shares as compute_shares
from qosweb.webqos import values
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.loader import load
from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.values import BadValue

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from qosweb.webqos import ClassShare, Environment
    from qosweb.webqos.model.model import Model

BAR = 30
ROWS_MAX = 60


def shares(arguments: argparse.Namespace) -> int:
    if arguments.png:
        need_matplotlib("--png")
    policy = load(arguments.file, bind_shadows=arguments.with_shadow)
    model = policy.require_model()
    environment = environment_of(arguments, Matcher(model))
    rows = compute_shares(policy, environment, demand_of(arguments.demand, model, environment))
    ignored = ignores_rates(model, environment)
    if arguments.json:
        print(json.dumps(_as_json(rows, environment, rates_ignored=ignored), indent=2))
    else:
        _print(rows, environment)
        if ignored:
            print(RATES_IGNORED, file=sys.stderr)
    if arguments.png:
        from qosweb.tools.share_picture import draw

        draw(rows, arguments.png, arguments.file)
    return 0


def demand_of(texts: list[str], model: Model, environment: Environment) -> dict[str, int] | None:
    """Parse ``CLASS=RATE,...`` into demand by class, in parts per million of the capacity; None if none is given."""
    if not texts:
        return None
    names = [one.name for one in model.classes]
    demand: dict[str, int] = {}
    for pair in (pair for text in texts for pair in _pairs(text, names)):
        name, equals, amount = pair.rpartition("=")
        if not equals:
            raise UsageError(f"--demand '{pair}': write it as CLASS=RATE")
        if name not in names:
            raise UsageError(f"--demand: there is no class '{name}'{did_you_mean(name, names)}")
        demand[name] = _amount(amount, environment)
    return demand


def _pairs(text: str, names: Iterable[str]) -> list[str]:
    """Split at commas, but not at commas within the name of a class."""
    with_comma = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if "," in name)
    return re.findall(rf"(?:{with_comma or '(?!)'})=[^,]*|[^,]+", text) or [text]


def _amount(text: str, environment: Environment) -> int:
    if text.endswith("%"):
        try:
            return values.load_ppm(text)
        except BadValue as bad:
            raise UsageError(f"--demand: {bad.message}") from None
    if "/" in text and "B" in text.upper():
        rate = read_literal(values.rate_bps, text, "--demand")
    else:
        rate = read_literal(values.rate_urps, text, "--demand") * environment.request_bytes // PPM
    if environment.capacity_bps is None:
        raise UsageError(f"--demand '{text}' is a rate: give --capacity, or write the demand in %")
    return rate * PPM // environment.capacity_bps


def _as_json(rows: list[ClassShare], environment: Environment, *, rates_ignored: bool) -> dict[str, object]:
    capacity = environment.capacity_bps
    return {
        "nodes": environment.nodes,
        "capacity_bytes_per_s": capacity,
        "rates_ignored": rates_ignored,
        "classes": [
            {
                "class": row.name,
                "always": row.always,
                "demand": row.demand_ppm / PPM,
                "share": row.share_ppm / PPM,
                "share_ppm": row.share_ppm,
                "at_least": None if row.floor_ppm is None else row.floor_ppm / PPM,
                "at_most": None if row.ceiling_ppm is None else row.ceiling_ppm / PPM,
                "bytes_per_s": None if capacity is None else row.share_ppm * capacity // PPM,
            }
            for row in rows
        ],
        "unused": max(0, PPM - sum(row.share_ppm for row in rows)) / PPM,
    }


def _print(rows: list[ClassShare], environment: Environment) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("class", overflow="fold")
    for column in ("asks", "least", "most", "gets"):
        table.add_column(column, justify="right")
    capacity = environment.capacity_bps
    if capacity is not None:
        table.add_column("bytes/s", justify="right")
    table.add_column("", no_wrap=True, min_width=BAR)
    for row in rows[:ROWS_MAX]:
        cells = [
            row.name,
            percent(row.demand_ppm),
            "always" if row.always else percent(row.floor_ppm),
            percent(row.ceiling_ppm),
            percent(row.share_ppm),
        ]
        if capacity is not None:
            cells.append(f"{row.share_ppm * capacity // PPM:,}")
        table.add_row(*cells, bar(row))
    console = Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 120)
    console.print(table)
    if len(rows) > ROWS_MAX:
        print(f"and {len(rows) - ROWS_MAX} more classes; --json has all of them")
    left = PPM - sum(row.share_ppm for row in rows)
    if left > len(rows):
        print(f"not asked for: {percent(left)}")


def bar(row: ClassShare) -> str:
    """The share is filled; demand beyond the share is dotted."""
    got = round(row.share_ppm * BAR / PPM)
    asked = min(BAR, round(row.demand_ppm * BAR / PPM))
    return "█" * got + "·" * max(0, asked - got)


def percent(ppm: int | None) -> str:
    return "" if ppm is None else f"{ppm * 100 / PPM:.4g}%"
