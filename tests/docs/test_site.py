"""The documentation site builds without warnings and needs no other host; generated pages match the code."""

from __future__ import annotations

import re
import subprocess
import sys
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

import qosweb.middleware
from tests.docs import generated_pages, pictures
from tests.docs.blocks import DOCS, TOP
from tests.support.browser import find_browser

if TYPE_CHECKING:
    from pathlib import Path


class Fetches(HTMLParser):
    """What a browser fetches to show a page: not what a reader may click."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag in ("script", "img", "iframe", "source"):
            self.found.append(given.get("src") or "")
        if tag == "link" and given.get("rel") in ("stylesheet", "icon", "preload", "preconnect"):
            self.found.append(given.get("href") or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(target)],
        cwd=TOP, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return target


def test_every_page_is_built(site: Path) -> None:
    for page in DOCS.rglob("*.md"):
        inside = page.relative_to(DOCS)
        folder = inside.parent if page.name == "index.md" else inside.with_suffix("")
        assert (site / folder / "index.html").exists(), inside


def test_no_page_fetches_anything_from_another_host(site: Path) -> None:
    for page in site.rglob("*.html"):
        fetches = Fetches()
        fetches.feed(page.read_text("utf-8"))
        assert [one for one in fetches.found if re.match(r"(https?:)?//", one)] == [], page
    for style in site.rglob("*.css"):
        assert not re.search(r"url\(['\"]?(https?:)?//|@import", style.read_text("utf-8")), style


def test_generated_pages_match_the_code() -> None:
    stale = [
        str(path.relative_to(TOP))
        for path, text in generated_pages.all_pages().items()
        if not path.exists() or path.read_text("utf-8") != text
    ]
    assert stale == [], "run: ./dev docs generate"


def test_the_middleware_page_has_every_name() -> None:
    text = (DOCS / "reference" / "middleware.md").read_text("utf-8")
    assert [name for name in qosweb.middleware.__all__ if f"`{name}" not in text] == []


@pytest.mark.skipif(find_browser() is None, reason="needs a browser: apt-get install chromium")
def test_the_pictures_can_be_taken(tmp_path: Path) -> None:
    shot, text = pictures.take(tmp_path, denials=10)
    data = shot.read_bytes()
    assert data.startswith(b"\x89PNG")
    assert int.from_bytes(data[16:20]) == 1200
    assert len(data) > 20_000  # a blank page has less
    drawn, shown = text.read_text("utf-8"), (DOCS / "images" / "status.txt").read_text("utf-8")
    for expected in (drawn, shown):
        assert re.match(r"primary view \S+ for \d+ s: 3 nodes, 1 more may fail\n", expected)
        assert re.search(r"^/paid/full +> 50% ", expected, re.MULTILINE)
        assert re.search(r"^/checkout +always ", expected, re.MULTILINE)
