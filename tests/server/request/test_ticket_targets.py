"""A ticket in the target: page, class and log do not depend on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.nodes import RunningNode
from tests.support.sites import write_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


def test_a_target_is_served_and_logged_without_its_ticket(tmp_path: Path) -> None:
    with RunningNode(write_site(tmp_path / "site"), tmp_path, "--access-log-format", "combined") as node:
        with node.connect() as connection:
            for target in ["/page.html?qos-ticket=abc", "/page.html?x=1&qos-ticket=abc", "/page.html?x=1"] * 3:
                assert connection.get(target).status == 200
            assert connection.get("/index.html/?qos-ticket=abc").status == 404
            assert connection.get("/../?qos-ticket=abc").status == 400
        lines = wait_for(
            lambda: text.splitlines() if (text := node.access_log.read_text()).count("\n") == 11 else None, "the log"
        )
    assert not any("qos-ticket" in line for line in lines)
    assert sum('"GET /page.html?x=1 HTTP/1.1"' in line for line in lines) == 6
    assert sum('"GET /page.html HTTP/1.1"' in line for line in lines) == 3
