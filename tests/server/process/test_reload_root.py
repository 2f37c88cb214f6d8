"""SIGHUP resolves the root again: a symbolic link that points to another release, or is dangling."""

from __future__ import annotations

from signal import Signals
from typing import TYPE_CHECKING

from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
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


def test_a_new_admin_token_is_used_unless_it_is_invalid(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    token = tmp_path / "token"
    token.touch(0o600)
    token.write_text("the-first-token-1\n")

    def status(node: RunningNode, word: str) -> int:
        with RawConnection(node.admin_port) as connection:
            return connection.get("/livez", f"Authorization: Bearer {word}").status

    with RunningNode(tmp_path / "site", tmp_path, "--admin-token-file", str(token)) as node:
        assert [status(node, "the-first-token-1"), status(node, "the-second-token")] == [200, 401]
        token.write_text("the-second-token\n")
        node.kill(Signals.SIGHUP)
        wait_for(lambda: status(node, "the-second-token") == 200, "the new token")
        assert status(node, "the-first-token-1") == 401
        token.write_text("short\n")
        node.kill(Signals.SIGHUP)
        wait_for(lambda: any("not reloaded" in line for line in node.stderr), "the refusal")
        assert status(node, "the-second-token") == 200
