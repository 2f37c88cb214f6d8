"""Link map: links in files and in upstream responses are recorded, updated, forgotten and bounded."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.admission import link_map
from qosweb.admission.link_map import LinkMap

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

SETS = frozenset({1, 2})


def new_map() -> LinkMap:
    return LinkMap(lambda _: frozenset(), "index.html", frozenset({"shop.example"}))


def test_the_links_of_a_page_are_those_of_its_latest_response() -> None:
    links = new_map()
    links.note(SETS, "/a/", ['<b>; rel=next, </c/index.html>; rel="x"', "<http://shop.example/d>"])
    assert all(links.has(number, path) for number in SETS for path in ("/a/b", "/c/", "/d"))
    assert not links.has(3, "/d")
    links.note(frozenset({2}), "/a/index.html", ["<b>", "<http://elsewhere.example/e>"])  # the same page
    assert links.has(2, "/a/b")
    assert not links.has(1, "/a/b")
    assert not links.has(2, "/d")
    assert not links.has(2, "/e")


def test_two_pages_may_link_to_the_same_page() -> None:
    links = new_map()
    links.note(SETS, "/a", ["</x>"])
    links.note(SETS, "/b", ["</x>"])
    links.note(SETS, "/a", [])
    assert links.has(1, "/x")
    links.note(SETS, "/b", [])
    assert not links.has(1, "/x")


def test_only_so_many_pages_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link_map, "NOTED_MAX", 3)
    links = new_map()
    for number in range(5):
        links.note(SETS, f"/page{number}", [f"</to{number}>"])
        links.note(SETS, "/page0", ["</to0>"])  # seen again and again
    assert [number for number in range(5) if links.has(1, f"/to{number}")] == [0, 3, 4]


def test_links_follow_files(tmp_path: Path) -> None:
    def wanted(path: str) -> frozenset[int]:
        return frozenset({7}) if path.startswith("/hub") else frozenset()

    links = LinkMap(wanted, "index.html")
    (tmp_path / "hub").mkdir()
    page = tmp_path / "hub" / "index.html"
    page.write_text('<a href="/a.html"><a href="/dir/index.html">')
    (tmp_path / "other.html").write_text('<a href="/b.html">')
    (tmp_path / ".hidden.html").write_text('<a href="/c.html">')
    links.refresh(tmp_path)
    assert links.has(7, "/a.html")
    assert links.has(7, links.canonical("/dir/"))
    assert links.has(7, links.canonical("/dir/index.html"))
    assert not links.has(7, "/b.html")
    page.write_text('<a href="new.html">')
    links.refresh(tmp_path)
    assert links.has(7, "/hub/new.html")
    assert not links.has(7, "/a.html")
    page.unlink()
    links.refresh(tmp_path)
    assert not links.has(7, "/hub/new.html")


def test_links_of_files_that_are_not_in_one_folder(tmp_path: Path) -> None:
    links = LinkMap(lambda path: frozenset({7}) if path.startswith("/hub") else frozenset(), "index.html")
    first, second = tmp_path / "0", tmp_path / "1"
    first.write_text('<a href="/a.html">')
    second.write_text('<a href="/b.html">')
    links.refresh_from([("/hub/index.html", str(first), (1, 1, 1)), ("/other.html", str(second), (2, 2, 2))])
    assert links.has(7, "/a.html")
    assert not links.has(7, "/b.html")
    missing = str(tmp_path / "2")
    links.refresh_from([("/hub/index.html", missing, (3, 3, 3)), ("/hub/x.css", str(second), (2, 2, 2))])
    assert not links.has(7, "/a.html")
    second.rename(missing)  # it has arrived
    links.refresh_from([("/hub/index.html", missing, (3, 3, 3))])
    assert links.has(7, "/b.html")
