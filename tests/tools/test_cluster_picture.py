"""The terminal rendering of a cluster's status, at several widths."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
from rich.console import Console

from qosweb.tools.cluster_picture import bar, picture


def one_class(started: int, denied: int, promised: float | None, gets: float) -> dict[str, Any]:
    return {
        "always": promised is None,
        "waiting": 7,
        "share": {"promised": promised, "now": 0.5, "held": gets, "of_capacity": gets},
        "cluster": {"started": started, "denied": denied, "cancelled": 2, "started_bytes_per_s": 1 << 20},
    }


def cluster_status(started: int = 1000, denied: int = 10, scope: str = "cluster") -> dict[str, Any]:
    pipe = {"capacity_bytes_per_s": 1 << 20, "used_bytes_per_s": 1 << 19, "channels": 2, "waiting": 7, "load": 0.5}
    return {
        "name": "n2",
        "scope": scope,
        "primary_since": time.time() - 30,
        "view": {"id": "3:abcd", "epoch": 3} if scope == "cluster" else None,
        "members": ["n1", "n2", "n3"] if scope == "cluster" else ["n2"],
        "can_lose": 1 if scope == "cluster" else 0,
        "capacity": {"bytes_per_s": 1 << 20, "cluster_bytes_per_s": 3 << 20, "set_by_hand": True},
        "nodes": {name: {**pipe, "url": f"http://127.0.0.1:80{name[1]}0"} for name in ("n1", "n2", "n3")},
        "policy": {"hash": "0123456789abcdef"},
        "classes": {
            "/paid": one_class(started, denied, 0.5, 0.4),
            "/checkout": one_class(3, 0, None, 0.01),
            "[red]/name[/red]": one_class(0, 0, 0.0, 0.0),
        },
    }


def drawn(status: dict[str, Any], before: dict[str, Any] | None = None, width: int = 120) -> list[str]:
    console = Console(file=io.StringIO(), width=width, highlight=False, markup=False)
    console.print(picture(status, before, 2.0, width))
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().splitlines()


def test_members_nodes_and_shares_are_shown() -> None:
    lines = drawn(cluster_status())
    assert lines[0] == "primary view 3:abcd for 30 s: 3 nodes, 1 more may fail"
    assert lines[1].startswith("capacity 3 MB/s, recently delivered 3 MB/s   policy 0123456789abcdef")
    assert [line.split()[:2] for line in lines[4:7]] == [["n1", "1"], ["n2", "*"], ["n3", "1"]]
    paid = next(line for line in lines if line.startswith("/paid"))
    assert paid.split()[1:4] == ["50%", "50%", "40%"]
    assert paid.split()[-4:] == ["7", "1,000", "10", "2"]
    assert next(line for line in lines if line.startswith("/checkout")).split()[1] == "always"
    assert any(line.startswith("[red]/name[/red]") for line in lines)


def test_a_refresh_shows_rates() -> None:
    lines = drawn(cluster_status(1050, 20), cluster_status(1000, 10))
    paid = next(line for line in lines if line.startswith("/paid"))
    assert paid.split()[-2:] == ["25.0", "5.0"]


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_class_is_one_line_at_any_usual_width(width: int) -> None:
    lines = drawn(cluster_status(1050), cluster_status(), width)
    assert len(lines) == len(drawn(cluster_status(1050), cluster_status(), 120))
    assert all(len(line) <= width for line in lines)


def test_a_node_that_is_cut_off() -> None:
    assert drawn(cluster_status(scope="local"))[0].startswith("CUT OFF for 30 s: n2 is in no primary view")


def test_a_bar_has_its_mark_at_the_guaranteed_share() -> None:
    assert bar(0.4, 0.5, 10).plain == "████·┃····"
    assert bar(2.0, 1.0, 4).plain == "███┃"
    assert bar(0.0, None, 4).plain == "····"
