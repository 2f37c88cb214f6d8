"""SIGHUP looks at the root anew: a link that leads to another release, or to nowhere."""

from __future__ import annotations

from signal import Signals
from typing import TYPE_CHECKING

from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path


def test_a_root_that_is_a_link_leads_to_the_new_release_after_sighup(tmp_path: Path) -> None:
    for release in ("one", "two"):
        (tmp_path / release).mkdir()
        (tmp_path / release / "page.txt").write_text(release)
    current = tmp_path / "current"
    current.symlink_to(tmp_path / "one")
    with RunningNode(current, tmp_path, "--cache-fresh", "1h") as node:
        assert node.get("/page.txt").body == b"one"
        (tmp_path / "next").symlink_to(tmp_path / "two")
        (tmp_path / "next").replace(current)
        node.kill(Signals.SIGHUP)
        wait_for(lambda: node.get("/page.txt").body == b"two", "the new release")

        current.unlink()
        node.kill(Signals.SIGHUP)
        wait_for(lambda: any("not reloaded" in line for line in node.stderr), "the refusal")
        assert any("there is no such folder" in line for line in node.stderr)
        assert node.get("/page.txt").body == b"two"
