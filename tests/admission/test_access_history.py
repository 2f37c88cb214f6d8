"""What is remembered of earlier requests is right and bounded; links are read again when files change."""

from pathlib import Path

from qosweb.admission import access_history
from qosweb.admission.access_history import AccessHistory
from qosweb.admission.link_map import LinkMap


def test_ages() -> None:
    seen = AccessHistory()
    assert seen.of_client_ms(2, "10.0.0.1", 5.0) is None
    seen.note([1, 2], "10.0.0.1", 5.0)
    assert seen.of_client_ms(2, "10.0.0.1", 7.0) == 2000
    assert seen.of_client_ms(2, "10.0.0.2", 7.0) is None
    seen.note_path("/a", 6.0)
    assert seen.of_path_ms("/a", 6.001) in (0, 1)


def test_clients_cannot_fill_the_memory() -> None:
    seen = AccessHistory()
    for number in range(access_history.REMEMBERED_MAX + 100):
        seen.note([1], f"client{number}", float(number))
    assert len(seen._by_client) == access_history.REMEMBERED_MAX
    assert seen.of_client_ms(1, "client0", 0.0) is None
    assert seen.of_client_ms(1, f"client{number}", float(number)) == 0


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
