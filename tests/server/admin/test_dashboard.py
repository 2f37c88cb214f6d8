"""Dashboard: one self-contained page that asks for a token if one is required, tested in a browser."""

from __future__ import annotations

import base64
import hashlib
import re
import subprocess
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from qosweb.server.admin.dashboard import PAGE
from tests.support.browser import find_browser
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection, Reply
from tests.support.sites import write_site

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKEN = "0123456789abcdef-token"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("dashboard")
    (folder / "site.webqos").write_text("</page.html>.server_resource > 40%\n</index.html>.available = always\n")
    with RunningNode(write_site(folder / "site"), folder, "--spec", str(folder / "site.webqos")) as node:
        yield node


def ask(node: RunningNode, *fields: str, method: str = "GET", path: str = "/") -> Reply:
    with RawConnection(node.admin_port) as connection:
        return connection.get(path, "Connection: close", *fields, method=method)


def test_a_browser_gets_the_page_and_others_the_list(node: RunningNode) -> None:
    page = ask(node, "Accept: text/html,*/*;q=0.8")
    assert (page.status, page.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert page.body == PAGE.read_bytes()
    policy = page.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; connect-src 'self'; ")
    for element in ("script", "style"):
        inline = re.findall(f"<{element}>(.*?)</{element}>", page.body.decode(), re.DOTALL)
        assert len(inline) == 1
        assert f"sha256-{base64.b64encode(hashlib.sha256(inline[0].encode()).digest()).decode()}" in policy
    listed = ask(node, "Accept: */*")
    assert listed.headers["content-type"].startswith("text/plain")
    assert b"GET  /status" in listed.body


class Addresses(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag not in ("iframe", "img", "object", "embed"), tag
        self.found += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]
        assert not [name for name, _ in attrs if name.startswith("on") or name == "style"], tag


def test_it_loads_nothing_from_elsewhere() -> None:
    text = PAGE.read_text("utf-8")
    parser = Addresses()
    parser.feed(text)
    assert parser.found == ["data:,"]
    assert not re.search(r"@import|url\(|innerHTML|document\.write|eval\(", text)
    assert re.findall(r"""https?://[^"'`\s/]+""", text) == ["http://www.w3.org"]  # the name of SVG, not a place


def test_where_a_token_is_needed_the_page_asks_for_it(tmp_path: Path) -> None:
    (tmp_path / "token").touch(0o600)
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    with RunningNode(write_site(tmp_path / "site"), tmp_path, "--admin-token-file", str(tmp_path / "token")) as node:
        page = ask(node, "Accept: text/html")
        assert (page.status, page.body) == (401, PAGE.read_bytes())
        assert ask(node, "Accept: text/html", path="/status").body != page.body
        assert ask(node, "Accept: text/html", f"Authorization: Bearer {TOKEN}").status == 200
        if browser := find_browser():
            assert '<form id="ask">' in _seen(browser, node, tmp_path)  # no longer hidden


def test_pages_of_other_sites_change_nothing(node: RunningNode) -> None:
    for origin in ("http://elsewhere.example", "null"):
        assert ask(node, f"Origin: {origin}", method="POST", path="/drain").status == 403
    assert ask(node, path="/livez").status == 200


def test_a_browser_shows_the_classes(node: RunningNode, tmp_path: Path) -> None:
    browser = find_browser()
    if browser is None:
        pytest.skip("needs Chromium (./dev setup --full)")
    seen = _seen(browser, node, tmp_path)
    assert '<h1 id="name">n1</h1>' in seen
    assert ">alone</span>" in seen
    assert '<td>/page.html</td><td class="least">&gt; 40%</td>' in seen
    assert '<td>/index.html</td><td class="least">always</td>' in seen
    assert '<section id="upstreams-part" hidden' in seen
    assert seen.count("<svg") >= 3
    assert '<form id="ask" hidden' in seen


def test_a_browser_shows_rules_of_several_classes_and_upstream_servers(tmp_path: Path) -> None:
    browser = find_browser()
    if browser is None:
        pytest.skip("needs Chromium (./dev setup --full)")
    (tmp_path / "site.webqos").write_text(
        "</a>.server_resource > 40%\nclient in 10.0.0.0/8 => </a>.server_resource < 20%\n"
    )
    (tmp_path / "qosweb.toml").write_text(
        '[[upstream]]\nname = "app"\nurl = "http://127.0.0.1:1"\n[[upstream]]\nurl = "http://127.0.0.1:2"\n'
    )
    options = ["--spec", str(tmp_path / "site.webqos"), "--config", str(tmp_path / "qosweb.toml")]
    with RunningNode(None, tmp_path, *options) as node:
        for _ in range(4):
            assert node.get("/a").status == 502
        seen = _seen(browser, node, tmp_path)
    assert re.search(r'<td>&lt;/a&gt;</td><td class="least">&gt; 40%</td>.*<td class="below">/a', seen)
    assert '<td>app http://127.0.0.1:1</td><td class="hot">out: connection errors (connection refused)</td>' in seen
    assert "<td>http://127.0.0.1:2</td>" in seen


def _seen(browser: str, node: RunningNode, folder: Path) -> str:
    """The page after it has polled the status twice."""
    done = subprocess.run(
        [
            browser, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'profile'}",
            "--virtual-time-budget=2500", "--dump-dom", f"http://127.0.0.1:{node.admin_port}/",
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout
