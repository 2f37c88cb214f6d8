"""Events of a node in `GET /history` and on the dashboard: releases, blocks, a resource that becomes contended."""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.browser import browser_tab, find_browser
from tests.support.nodes import RunningNode, run_command
from tests.support.raw import RawConnection
from tests.support.sites import write_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

NETWORK = "203.0.113.0/24"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A node that stores its site itself and has little capacity."""
    folder = tmp_path_factory.mktemp("events")
    (folder / "site.webqos").write_text("set lifetime = 30s\n</thick.html>.server_resource > 40%\n")
    options = ["--site", "--data-dir", str(folder / "data"), "--spec", str(folder / "site.webqos")]
    with RunningNode(None, folder, *options, "--capacity", "200KB/s") as node:
        change(node, "publish", str(write_site(folder / "site")))
        yield node


def change(node: RunningNode, *words: str) -> None:
    done = run_command(*words, "--admin", f"127.0.0.1:{node.admin_port}")
    assert done.returncode == 0, done.stderr


def events(node: RunningNode) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(node.admin("/history"))["events"]
    return found


def texts(node: RunningNode, kind: str) -> list[str]:
    """Of the events of a kind, oldest first."""
    return [one["text"] for one in events(node) if one["kind"] == kind]


@contextmanager
def overload(node: RunningNode) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(8):  # 480 KB, at 200 KB/s
            connection = stack.enter_context(RawConnection(node.port))
            connection.send(b"GET /thick.html HTTP/1.1\r\nHost: localhost\r\n\r\n")
        yield


def test_a_published_release_is_an_event(node: RunningNode) -> None:
    wait_for(lambda: texts(node, "release") == ["release 1 is served"], "the release")


def test_a_block_is_an_event_and_its_end_too(node: RunningNode) -> None:
    change(node, "block", NETWORK, "--reason", "scans")
    wait_for(lambda: len(texts(node, "block")) == 1, "the block")
    change(node, "unblock", NETWORK)
    wait_for(lambda: len(texts(node, "block")) == 2, "the end of the block")
    begun, ended = texts(node, "block")
    name = json.loads(node.admin("/status"))["name"]
    assert re.fullmatch(rf"{NETWORK} is blocked by \S+@\S+ at {name}: scans; 1 block in all", begun)
    assert re.fullmatch(rf"{NETWORK} is unblocked by \S+@\S+ at {name}; 0 blocks in all", ended)


def test_a_contended_resource_is_an_event_and_its_end_too(node: RunningNode) -> None:
    with overload(node):
        wait_for(lambda: texts(node, "resource"), "requests wait")
    wait_for(lambda: len(texts(node, "resource")) == 2, "no request waits")
    begun, ended = texts(node, "resource")
    assert re.search(r" is contended \(cause: \w+\); requests that wait: \d+$", begun)
    assert ended.endswith(" is no longer contended")


def test_the_dashboard_lists_them_and_fits_a_phone(node: RunningNode, tmp_path: Path) -> None:
    program = find_browser()
    if program is None:
        pytest.skip("needs Chromium (./dev setup --full)")
    wait_for(lambda: len(texts(node, "resource")) % 2 == 0, "no request waits")
    asyncio.run(_look(program, node, tmp_path))


async def _look(program: str, node: RunningNode, folder: Path) -> None:
    async with browser_tab(program, folder) as tab:
        await tab.open(f"http://127.0.0.1:{node.admin_port}/", 390, 844)
        await tab.wait_for(f"document.querySelectorAll('#events li').length === {len(events(node))}")
        rows = await tab.evaluate(
            "[...document.querySelectorAll('#events li')].map("
            "row => [...row.children].slice(1).map(one => one.innerText))"
        )
        for kind in ("policy", "release", "block", "resource"):
            assert [text for name, text in rows if name == kind][::-1] == texts(node, kind)
        with overload(node):
            await tab.wait_for("!document.getElementById('resources-part').hidden")
            assert await tab.evaluate(
                "[...document.querySelectorAll('.wide')].filter(one => one.scrollWidth > one.clientWidth).length"
            ) == 0  # fmt: skip
        assert await tab.evaluate("document.documentElement.scrollWidth") <= 390
        assert tab.errors == []
