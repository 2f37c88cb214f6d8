"""Renders the ``/status`` of a node for the terminal: the view, nodes, classes with their shares as bars, upstreams.

All shares are relative to the capacity of the nodes in the view. The filled part of a bar is the recent share of a
class; a mark shows its share if all classes demand everything.
Neighbours: `status` fetches and refreshes; `qosweb.server.admin.status` produces the data,
`qosweb.server.admin.guarantee_rows` the rows of the class table.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from qosweb.server.admin.guarantee_rows import GuaranteeRow, rows_of
from qosweb.units import format_size, pluralize

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from rich.console import RenderableType

BAR_MIN, BAR_MAX = 8, 30
NARROW = 100  # in a narrower terminal nodes have no bars
COLUMN = 10  # width of a column of numbers, with the space beside it
NAME_MAX = 40
GUARANTEE_MAX = 32
CLASSES_MAX = 40
NODES_MAX = 32
LATE_S = 1.0  # figures this old are marked
MARK = "┃"
WAIT_P99 = "wait p99"
LIMIT_SOURCES = {"set": "configured", "knee": "estimated", "line": "line rate"}  # others as in the JSON
BOTTLENECKS = {"set": "configured limit"}
OTHER_FORMAT = "the status of the node has an unknown format: does the node run another version?"


def picture(status: Mapping[str, Any], before: Mapping[str, Any] | None, seconds: float, width: int) -> Group:
    """Render ``status``. With ``before``, the status ``seconds`` ago, rates are shown too."""
    parts: list[RenderableType] = [head_of(status)]
    if status.get("nodes"):
        parts += [Text(), nodes_of(status, width)]
    parts += [Text(), _classes(status, before, seconds, width)]
    hidden = len(status["classes"]) - CLASSES_MAX
    if hidden > 0:
        parts.append(Text(f"and {hidden} more classes; --json has all of them"))
    if any(one["kind"] == "server" or one["cause"] for one in status.get("resources", ())):
        parts += [Text(), _resources(status["resources"])]
    if status.get("upstreams"):
        parts += [Text(), _upstreams(status)]
        differences = status.get("upstreams_disagree", ())
        parts += [Text(f"the tables of the nodes disagree: {text}", style="yellow") for text in differences]
    return Group(*parts)


def head_of(status: Mapping[str, Any]) -> Text:
    text = Text()
    scope = status.get("scope", "alone")
    members = status.get("members") or [status["name"]]
    for_how_long = _since(status.get("primary_since"))
    if scope == "local":
        text.append("CUT OFF", style="bold reverse red")
        text.append(
            f" {for_how_long}: {status['name']} is in no primary view and decides alone (QoS-Scope: local)\n",
            style="red",
        )
    elif scope == "cluster":
        view = (status.get("view") or {}).get("id", "?")
        lose = status.get("can_lose", 0)
        text.append("primary", style="bold green")
        text.append(f" view {view} {for_how_long}: {pluralize(len(members), 'node')}, ")
        text.append(f"{lose or 'none'} more may fail\n", style="" if lose else "yellow")
    else:
        text.append("alone", style="bold green")
        text.append(f" {for_how_long}: {status['name']} is not a member of a cluster\n")
    capacity = status.get("capacity")
    if capacity:
        text.append(f"capacity {_rate(capacity['cluster_bytes_per_s'])}")
        used = sum(one["cluster"]["started_bytes_per_s"] for one in status["classes"].values() if "cluster" in one)
        text.append(f", recently delivered {_rate(used)}")
        text.append("   ")
    policy = (status.get("policy") or {}).get("hash")
    text.append(f"policy {policy}" if policy else "no specification")
    if status.get("draining"):
        text.append("   draining", style="bold yellow")
    for one in (status.get("group") or {}).get("recoveries", ()):
        text.append(f"\nrecovered without {', '.join(one['without'])} at {one['at']}", style="yellow")
        text.append(": decisions that only they had are lost")
    return text


def nodes_of(status: Mapping[str, Any], width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("node")
    is_narrow = width < NARROW
    more = () if is_narrow else ("channels", "served/s")
    for column in ("capacity", "in use", "waiting", *more, "age", "load"):
        table.add_column(column, justify="right")
    if not is_narrow:
        table.add_column("", no_wrap=True)
    table.add_column("address for clients", overflow="fold")
    nodes = sorted({**_nodes_elsewhere(status), **status["nodes"]}.items())
    for name, one in nodes[:NODES_MAX]:
        is_me = name == status["name"]
        capacity = one["capacity_bytes_per_s"]
        used = min(1.0, one["used_bytes_per_s"] / capacity) if capacity else 0.0
        live = (status.get("live") or {}).get(name)
        load = one["load"] if live is None else live["load"]
        filled = min(10, round(load * 10))
        table.add_row(
            Text(f"{name} *" if is_me else name, style="bold" if is_me else ""),
            _capacity(capacity, None if is_narrow else live),
            f"{used:.0%}",
            _number(one["waiting"] if live is None else live["waiting"]),
            *([] if is_narrow else [str(one["channels"]), "" if live is None else f"{live['served_per_s']:.1f}"]),
            _age(live),
            f"{load:.0%}",
            *([] if is_narrow else ["█" * filled + "░" * (10 - filled)]),
            Text(one["url"]),
        )
    if len(nodes) > NODES_MAX:
        table.add_row(f"and {len(nodes) - NODES_MAX} more")
    return table


def _capacity(bytes_per_s: int, live: Mapping[str, Any] | None) -> str:
    """With ``live``, also how the capacity was found."""
    source = "" if live is None else live.get("capacity_source", "")
    return f"{_rate(bytes_per_s)}{f', {source}' if source else ''}" if bytes_per_s else "draining"


def _nodes_elsewhere(status: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Nodes that report figures and are not in the primary view, in the form of ``nodes``."""
    return {
        name: {
            "url": "",
            "capacity_bytes_per_s": live.get("capacity_bytes_per_s", 0),
            "used_bytes_per_s": 0,
            "channels": 0,
            "waiting": 0,
            "load": 0.0,
        }
        for name, live in (status.get("live") or {}).items()
    }


def _upstreams(status: Mapping[str, Any]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("upstream server", overflow="fold", max_width=NAME_MAX)
    table.add_column("health", overflow="fold")
    for column in ("in service", "waiting", "requests", "failures"):
        table.add_column(column, justify="right")
    servers = sorted(status["upstreams"].items())
    overloaded = _overloaded(status)
    for name, one in servers[:NODES_MAX]:
        is_in = one["health"] == "in"
        health = Text("in") if is_in else Text(f"{one['health']}: {one['reason']}", style="red")
        if is_in and name in overloaded:
            health = Text(f"in, overloaded: {overloaded[name]:,} wait for its servers", style="yellow")
        table.add_row(
            Text(name),
            health,
            *(_number(one[key]) for key in ("in_service", "waiting", "requests", "failures")),
        )
    if len(servers) > NODES_MAX:
        table.add_row(f"and {len(servers) - NODES_MAX} more")
    return table


def _overloaded(status: Mapping[str, Any]) -> dict[str, int]:
    """Upstream servers whose slots are all in use while requests wait, and how many wait."""
    return {
        one["name"].partition("@")[0]: one["waiting"]
        for one in status.get("resources") or ()
        if one["kind"] == "server" and one["cause"]
    }


def _resources(resources: Sequence[Mapping[str, Any]]) -> Table:
    """The table of resources."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("resource", overflow="fold", max_width=NAME_MAX)
    for column in ("in use", "limit", "waiting"):
        table.add_column(column, justify="right")
    table.add_column("limit source")
    table.add_column("bottleneck")
    for resource in resources[:NODES_MAX]:
        amount = _rate if resource["kind"] == "node" else _number
        table.add_row(
            Text(resource["name"]),
            amount(resource["in_use"]),
            amount(resource["limit"]),
            _number(resource["waiting"]),
            Text(LIMIT_SOURCES.get(resource["found"], resource["found"])),
            Text(
                BOTTLENECKS.get(resource["cause"], resource["cause"] or "-"),
                style="yellow" if resource["cause"] else "",
            ),
        )
    if len(resources) > NODES_MAX:
        table.add_row(f"and {len(resources) - NODES_MAX} more")
    return table


def _classes(status: Mapping[str, Any], before: Mapping[str, Any] | None, seconds: float, width: int) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("class", overflow="fold", max_width=NAME_MAX)
    classes = list(status["classes"].items())[:CLASSES_MAX]
    if not status.get("capacity"):  # nothing is guaranteed
        for column in ("served", "denied", "failed"):
            table.add_column(column, justify="right")
        for name, one in classes:
            table.add_row(Text(name), *(_number(one[key]) for key in ("served", "denied", "failed")))
        return table
    by_name = dict(classes)
    rows = rows_of_classes(status, [name for name, _ in classes])
    then = {} if before is None else before["classes"]
    columns = ["waiting", "served", "denied", "gave up"] + (["served/s", "denied/s"] if before is not None else [])
    guarantees = min(GUARANTEE_MAX, max(len("guaranteed"), *(len(row.guaranteed) for row in rows)))
    names = min(NAME_MAX, max(len(row.label) for row in rows))
    left = width - names - guarantees - 2 - COLUMN * (2 + len(columns))
    if left >= BAR_MIN + COLUMN:
        columns.insert(1, WAIT_P99)
        left -= COLUMN
    elif left < BAR_MIN and before is not None:
        columns = [column for column in columns if column not in ("served", "denied", "gave up")]
        left += 3 * COLUMN
    length = max(BAR_MIN, min(BAR_MAX, left))
    table.add_column("guaranteed", overflow="fold", max_width=GUARANTEE_MAX)
    for column in ("due", "gets"):
        table.add_column(column, justify="right")
    table.add_column("", no_wrap=True, min_width=length)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        members = [by_name[name] for name in row.classes]
        gets = sum(member["share"]["of_capacity"] for member in members)
        at_least = sum(member["share"]["promised"] or 0.0 for member in members)
        counts = {
            "waiting": _number(sum(member["waiting"] for member in members)),
            WAIT_P99: slowest_ms(status, row.classes, "wait_p99_ms"),
            "served": _number(sum(member["cluster"]["started"] for member in members)),
            "denied": _number(sum(member["cluster"]["denied"] for member in members)),
            "gave up": _number(sum(member["cluster"]["cancelled"] for member in members)),
            "served/s": _more(row.classes, by_name, then, "started", seconds),
            "denied/s": _more(row.classes, by_name, then, "denied", seconds),
        }
        table.add_row(
            Text(row.label),
            Text(row.guaranteed),
            _percent(sum(member["share"]["now"] for member in members)),
            _percent(gets),
            bar(gets, at_least, length),
            *(counts[column] for column in columns),
            style="" if gets or any(member["waiting"] for member in members) else "dim",
        )
    return table


def rows_of_classes(status: Mapping[str, Any], names: list[str]) -> list[GuaranteeRow]:
    """The rows of the class table. Nodes of earlier versions do not list their rules: then shares are shown."""
    rules = (status.get("policy") or {}).get("rules")
    if rules is not None:
        return rows_of(names, rules)
    classes = status["classes"]
    return [
        GuaranteeRow(name, "always" if one["always"] else _percent(one["share"]["promised"]), (name,))
        for name, one in ((name, classes[name]) for name in names)
    ]


def bar(gets: float, guaranteed: float | None, length: int) -> Text:
    """The recent share is filled; a mark shows the share if all classes demand everything."""
    filled = min(length, round(gets * length))
    mark = None if guaranteed is None or guaranteed <= 0 else min(length - 1, round(guaranteed * length))
    text = Text()
    for at in range(length):
        if at == mark:
            text.append(MARK, style="bold yellow")
        else:
            text.append("█" if at < filled else "·", style="green" if at < filled else "dim")
    return text


def slowest_ms(status: Mapping[str, Any], names: Sequence[str], key: str) -> str:
    """The largest of these percentiles at all nodes; empty without one. ``key`` is of the live figures of a class."""
    classes = [node["classes"] for node in (status.get("live") or {}).values()]
    values = [of[name][key] for of in classes for name in names if name in of and of[name][key] is not None]
    return f"{max(values):g} ms" if values else ""


def _more(names: Sequence[str], now: Mapping[str, Any], then: Mapping[str, Any], key: str, seconds: float) -> str:
    """The increase of these classes since ``then`` per second; empty if none of them was there then."""
    both = [name for name in names if name in then]
    if not both or seconds <= 0:
        return ""
    more = sum(now[name]["cluster"][key] - then[name]["cluster"][key] for name in both)
    return f"{max(0, more) / seconds:.1f}"


def _age(live: Mapping[str, Any] | None) -> Text:
    """How old the live figures of a node are; marked if the node is late."""
    if live is None:
        return Text("none", style="yellow")
    return Text(f"{live['age_s']:.1f} s", style="yellow" if live["age_s"] >= LATE_S else "")


def _since(when: float | None) -> str:
    if when is None:
        return ""
    seconds = max(0, int(time.time() - when))
    if seconds < 120:
        return f"for {seconds} s"
    minutes = seconds // 60
    return f"for {minutes} min" if minutes < 120 else f"for {minutes // 60} h {minutes % 60} min"


def _percent(part: float | None) -> str:
    return "" if part is None else f"{part:.0%}" if part >= 0.1 or not part else f"{part:.1%}"


def _rate(bytes_per_s: int) -> str:
    for unit, per in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if bytes_per_s >= per:
            return f"{bytes_per_s / per:.3g} {unit}/s" if bytes_per_s < 1000 * per else f"{bytes_per_s // per} {unit}/s"
    return f"{format_size(bytes_per_s)} B/s"


def _number(value: int) -> str:
    return f"{value:,}" if value else "0"
