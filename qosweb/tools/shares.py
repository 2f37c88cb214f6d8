"""``qosweb shares``: what every class would get, as a table and a picture."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from qosweb.errors import UsageError
from qosweb.plots import need_matplotlib
from qosweb.settings import did_you_mean
from qosweb.tools.situation import environment_of, reading
from qosweb.webqos import values
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.loader import load
from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.model.model import Bytes, Requests
from qosweb.webqos.policy.binding import bind, problem_of
from qosweb.webqos.policy.coverage import Coverage
from qosweb.webqos.policy.division import divide
from qosweb.webqos.policy.environment import Environment, ShareBasis
from qosweb.webqos.values import BadValue

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from qosweb.webqos.model.model import Model

BAR = 30
ROWS_MAX = 60


@dataclass(frozen=True, slots=True)
class ShareRow:
    name: str
    demand_ppm: int
    share_ppm: int
    floor_ppm: int | None  # of the class alone
    ceiling_ppm: int | None
    always: bool


def shares(arguments: argparse.Namespace) -> int:
    if arguments.png:
        need_matplotlib("--png")
    built = load(arguments.file, bind_shadows=arguments.with_shadow)
    model = built.model
    assert model is not None
    environment = environment_of(arguments, Matcher(model))
    demand = demand_of(arguments.demand, model, environment)
    rows = rows_of(model, environment, demand)
    rated = any(isinstance(rule.value, Bytes | Requests) and not rule.shadow for rule in model.constraints)
    ignored = rated and environment.capacity_bps is None
    if arguments.json:
        print(json.dumps(_as_json(rows, environment, rates_ignored=ignored), indent=2))
    else:
        _print(rows, environment)
        if ignored:
            print("bounds on requests and bytes per second are left out: say --capacity", file=sys.stderr)
    if arguments.png:
        from qosweb.tools.share_picture import draw

        draw(rows, arguments.png, arguments.file)
    return 0


def rows_of(model: Model, environment: Environment, demand: list[int]) -> list[ShareRow]:
    coverage = Coverage(model)
    binding = bind(model, coverage, environment)
    means = ShareBasis.of(environment)
    given = divide(model, coverage, binding, means, demand)
    # Bounds are of what those leave that are always available; shown they are, like shares, of everything.
    left = PPM - sum(given[at] for at in binding.always)
    if means.capacity_bps is not None:
        means = replace(means, capacity_bps=max(1, means.capacity_bps * left // PPM))
    problem = problem_of(model, coverage, binding, means)
    floors = {bound.classes[0]: bound.ppm * left // PPM for bound in problem.floors if len(bound.classes) == 1}
    ceilings = {bound.classes[0]: bound.ppm * left // PPM for bound in problem.ceilings if len(bound.classes) == 1}
    return [
        ShareRow(one.name, demand[at], given[at], floors.get(at), ceilings.get(at), at in binding.always)
        for at, one in enumerate(model.classes)
    ]


def demand_of(texts: list[str], model: Model, environment: Environment) -> list[int]:
    """What each class asks for, in parts per million of the capacity; everything, if nothing is said.

    A class that is always available is served first whatever it asks for: unless told, it asks for nothing.
    """
    if not texts:
        always = bind(model, Coverage(model), environment).always
        return [0 if at in always else PPM for at in range(len(model.classes))]
    names = {one.name: at for at, one in enumerate(model.classes)}
    demand = [0] * len(model.classes)
    for pair in (pair for text in texts for pair in _pairs(text, names)):
        name, equals, amount = pair.rpartition("=")
        if not equals:
            raise UsageError(f"--demand '{pair}': write it as CLASS=RATE")
        if name not in names:
            raise UsageError(f"--demand: there is no class '{name}'{did_you_mean(name, names)}")
        demand[names[name]] = _amount(amount, environment)
    return demand


def _pairs(text: str, names: Iterable[str]) -> list[str]:
    """Split at commas, but not at those within the name of a class."""
    whole = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True) if "," in name)
    return re.findall(rf"(?:{whole or '(?!)'})=[^,]*|[^,]+", text) or [text]


def _amount(text: str, environment: Environment) -> int:
    if text.endswith("%"):
        try:
            return values.load_ppm(text)
        except BadValue as bad:
            raise UsageError(f"--demand: {bad.message}") from None
    if "/" in text and "B" in text.upper():
        rate = reading(values.rate_bps, text, "--demand")
    else:
        rate = reading(values.rate_urps, text, "--demand") * environment.request_bytes // PPM
    if environment.capacity_bps is None:
        raise UsageError(f"--demand '{text}' is a rate: say --capacity, or give it in %")
    return rate * PPM // environment.capacity_bps


def _as_json(rows: list[ShareRow], environment: Environment, *, rates_ignored: bool) -> dict[str, object]:
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


def _print(rows: list[ShareRow], environment: Environment) -> None:
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
            row.name + (" (always)" if row.always else ""),
            percent(row.demand_ppm),
            percent(row.floor_ppm),
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


def bar(row: ShareRow) -> str:
    """What it gets, filled; what it asks for beyond that, dotted."""
    got = round(row.share_ppm * BAR / PPM)
    asked = min(BAR, round(row.demand_ppm * BAR / PPM))
    return "█" * got + "·" * max(0, asked - got)


def percent(ppm: int | None) -> str:
    return "" if ppm is None else f"{ppm * 100 / PPM:.4g}%"
