"""The terminal rendering of a cluster's status, at several widths."""

from __future__ import annotations

import io
import time
from typing import Any

import pytest
from rich.console import Console

from qosweb.server.admin.guarantee_rows import rows_of
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
        "policy": {
            "hash": "0123456789abcdef",
            "rules": [
                {"text": "</paid>.server_resource > 50%", "classes": ["/paid"]},
                {"text": "</checkout>.available = always", "classes": ["/checkout"]},
            ],
        },
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
    assert paid.split()[1:5] == [">", "50%", "50%", "40%"]
    assert paid.split()[-4:] == ["7", "1,000", "10", "2"]
    assert next(line for line in lines if line.startswith("/checkout")).split()[1] == "always"
    assert any(line.startswith("[red]/name[/red]") for line in lines)


def test_an_upstream_server_that_is_overloaded_is_marked() -> None:
    server = {"health": "in", "reason": "", "in_service": 4, "waiting": 0, "requests": 9, "failures": 0}
    resource = {
        "name": "app",
        "kind": "server",
        "waiting": 12,
        "cause": "server",
        "in_use": 4,
        "limit": 4,
        "found": "knee",
    }
    status = {**cluster_status(), "upstreams": {"app": server, "other": server}, "resources": [resource]}
    lines = drawn(status)
    assert [line.split()[0] for line in lines if "in, overloaded: 12 wait for its servers" in line] == ["app"]
    assert "overloaded" not in next(line for line in lines if line.startswith("other"))


def test_a_node_outside_the_primary_view_is_shown_with_its_figures() -> None:
    figures = {
        "age_s": 0.1,
        "load": 0.3,
        "waiting": 5,
        "served_per_s": 1.0,
        "capacity_bytes_per_s": 1 << 20,
        "capacity_source": "measured",
        "classes": {},
    }
    lines = drawn({**cluster_status(), "live": {"n9": figures}})
    assert next(line for line in lines if line.startswith("n9")).split()[1:5] == ["1", "MB/s,", "measured", "0%"]
    lines = drawn({**cluster_status(), "live": {"n9": figures}}, width=90)
    assert next(line for line in lines if line.startswith("n9")).split()[1:4] == ["1", "MB/s", "0%"]


def test_the_wait_of_a_class_is_that_of_the_slowest_node() -> None:
    def node(wait_p99_ms: float | None) -> dict[str, Any]:
        return {"age_s": 0.1, "load": 0.3, "waiting": 0, "served_per_s": 1.0, "classes": {
            "/paid": {"wait_p99_ms": wait_p99_ms}}}  # fmt: skip

    status = {**cluster_status(), "live": {"n1": node(20.0), "n2": node(50.0), "n3": node(None)}}
    lines = drawn(status)
    assert next(line for line in lines if line.startswith("class")).split()[4:7] == ["waiting", "wait", "p99"]
    assert next(line for line in lines if line.startswith("/paid")).split()[-6:-3] == ["7", "50", "ms"]
    assert not any("wait p99" in line for line in drawn(status, width=80))


def test_a_condition_is_shown_with_its_rule() -> None:
    rule = {"text": "client in 10.0.0.0/8 => </a>.server_resource < 20% as r", "classes": ["/a"]}
    assert [row.guaranteed for row in rows_of(["/a"], [rule])] == ["< 20% if client in 10.0.0.0/8"]


def test_the_bar_of_a_node_shows_its_load() -> None:
    status = cluster_status()
    status["nodes"]["n1"]["load"] = 0.9
    status["nodes"]["n3"]["load"] = 7.0
    lines = drawn(status)
    assert [line.split()[-2].count("█") for line in lines[4:7]] == [9, 5, 10]


def test_a_rule_that_was_split_stands_above_its_classes() -> None:
    status = cluster_status()
    status["classes"] = {
        "/paid": one_class(10, 1, 0.2, 0.1),
        "/free": one_class(1, 0, 0.0, 0.05),
        "/paid#members": one_class(20, 2, 0.3, 0.3),
    }
    status["policy"]["rules"] = [
        {"text": "</paid>.server_resource > 50%", "classes": ["/paid", "/paid#members"]},
        {"text": "members => </paid>.num_requests < 20 as vip", "classes": ["/paid#members"]},
        {"text": "</free>.lifetime = 1s", "classes": ["/free"]},
    ]
    lines = drawn(status)
    table = [line for line in lines[lines.index("") + 6 :] if line]
    assert [line.split("  ")[0] or line.split()[0] for line in table[1:]] == [
        "</paid>", "/paid", "/paid#members", "/free",
    ]  # fmt: skip
    rule, _, members, free = table[1:]
    assert rule.split()[1:5] == [">", "50%", "100%", "40%"]
    assert rule.split()[-4:] == ["14", "30", "3", "4"]
    assert "num_requests < 20" in members
    assert free.split()[1] == "-"


def test_a_rule_whose_classes_stand_below_smaller_rules_is_last() -> None:
    rows = rows_of(
        ["a", "b", "c", "d"],
        [
            {"text": "all.num_bytes < 500", "classes": ["a", "b", "c", "d"]},
            {"text": "<x>.server_resource > 10%", "classes": ["a", "b"]},
            {"text": "<y>.server_resource > 20%", "classes": ["c", "d"]},
            {"text": "<y>.server_resource < 30%", "classes": ["c", "d"]},
        ],
    )
    assert [(row.label, row.guaranteed) for row in rows if row.is_rule] == [
        ("<x>", "> 10%"),
        ("<y>", "> 20%, < 30%"),
        ("all", "num_bytes < 500"),
    ]


def test_a_node_of_an_earlier_version_has_shares_instead_of_rules() -> None:
    status = cluster_status()
    del status["policy"]["rules"]
    paid = next(line for line in drawn(status) if line.startswith("/paid"))
    assert paid.split()[1:4] == ["50%", "50%", "40%"]


def test_upstream_servers_are_shown_with_their_health() -> None:
    status = cluster_status()
    counts = {"in_service": 3, "waiting": 0, "requests": 1200, "failures": 2}
    status["upstreams"] = {
        "app": {"health": "in", "reason": "", **counts},
        "db": {"health": "out", "reason": "timeouts", **counts},
    }
    status["upstreams_disagree"] = ["upstream db: weight is 1 at a, 2 at b"]
    *_, app, db, last = (line.split() for line in drawn(status) if line)
    assert app == ["app", "in", "3", "0", "1,200", "2"]
    assert db == ["db", "out:", "timeouts", "3", "0", "1,200", "2"]
    assert " ".join(last) == "the tables of the nodes disagree: upstream db: weight is 1 at a, 2 at b"


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
