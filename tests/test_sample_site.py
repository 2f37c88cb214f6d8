"""The sample site: links resolve, pages are well formed, and classes match its specification."""

import re
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import urljoin, urlsplit
from xml.etree import ElementTree as ET

import pytest

from qosweb.webqos import compile_policy
from qosweb.webqos.match.matcher import Matcher
from qosweb.webqos.model.domains import Situation
from qosweb.webqos.syntax.parser import parse
from qosweb.webqos.syntax.positions import Source
from qosweb.webqos.syntax.printer import print_tree

ROOT = Path(__file__).parents[1]
SITE = ROOT / "qosweb" / "sample_site"
SPEC = ROOT / "qosweb" / "sample_site.webqos"
SITE_BYTES_MAX = 600_000
PAGES = sorted(path.relative_to(SITE).as_posix() for path in SITE.rglob("*.html"))

LINK_ATTRIBUTES = {"href", "src", "action", "poster", "srcset", "data"}
VOID_ELEMENTS = {"br", "hr", "img", "input", "link", "meta"}


class Page(HTMLParser):
    """Facts about a page, collected while it is parsed."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.url = f"/{name}"
        self.lang = ""
        self.viewport = ""
        self.title = ""
        self.service = ""
        self.links: list[str] = []
        self.ids: list[str] = []
        self.headings: list[str] = []
        self.tags: set[str] = set()
        self.images_without_alt: list[str] = []
        self.badly_nested: list[str] = []
        self._open: list[tuple[str, dict[str, str | None]]] = []
        self.feed((SITE / name).read_text(encoding="utf-8"))
        self.close()
        self.badly_nested += [tag for tag, _ in self._open]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.tags.add(tag)
        self.links += [value or "" for name, value in attrs if name in LINK_ATTRIBUTES]
        if given.get("id"):
            self.ids.append(given["id"] or "")
        if tag == "html":
            self.lang = given.get("lang") or ""
        if tag == "meta" and given.get("name") == "viewport":
            self.viewport = given.get("content") or ""
        if tag == "img" and "alt" not in given:
            self.images_without_alt.append(given.get("src") or "")
        if tag in {"h1", "h2", "h3"}:
            self.headings.append(tag)
        if tag not in VOID_ELEMENTS:
            self._open.append((tag, given))

    def handle_endtag(self, tag: str) -> None:
        if self._open and self._open[-1][0] == tag:
            self._open.pop()
        else:
            self.badly_nested.append(tag)

    def handle_data(self, data: str) -> None:
        if any(tag == "title" for tag, _ in self._open):
            self.title += data
        if any(given.get("class") == "service" for _, given in self._open):
            self.service += data


def file_of(path: str) -> Path:
    """The file that a static server sends for a path."""
    return SITE / (path.removeprefix("/") + ("index.html" if path.endswith("/") else ""))


def spec_statements() -> str:
    """The specification without its comments."""
    return re.sub(r"#.*", "", SPEC.read_text(encoding="utf-8"))


@cache
def matcher() -> Matcher:
    built = compile_policy(SPEC.read_text(encoding="utf-8"))
    assert built.model is not None
    return Matcher(built.model)


def class_of(path: str) -> str:
    """The class that the specification gives a page."""
    number = matcher().classify("localhost", path, Situation())
    return matcher().model.classes[number].name


@pytest.mark.parametrize("name", PAGES)
def test_every_link_and_image_resolves(name: str) -> None:
    page = Page(name)
    for link in page.links:
        target = urlsplit(urljoin(page.url, link))
        assert not target.scheme, f"{link} leaves the site"
        assert not target.netloc, f"{link} leaves the site"
        assert file_of(target.path).is_file(), f"{link} leads nowhere"
        if target.fragment:
            ids = Page(file_of(target.path).relative_to(SITE).as_posix()).ids
            assert target.fragment in ids, f"{link} names no place on its page"


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_well_formed_and_accessible(name: str) -> None:
    page = Page(name)
    assert (SITE / name).read_text(encoding="utf-8").startswith("<!DOCTYPE html>\n")
    assert page.lang == "en"
    assert page.viewport == "width=device-width, initial-scale=1"
    assert "Skerrow Maps" in page.title
    assert page.headings[0] == "h1"
    assert page.headings.count("h1") == 1
    assert page.images_without_alt == []
    assert page.badly_nested == []
    assert len(page.ids) == len(set(page.ids))
    assert not page.tags & {"script", "iframe", "style", "object", "embed"}


def test_titles_differ() -> None:
    titles = [Page(name).title for name in PAGES]
    assert len(titles) == len(set(titles))


@pytest.mark.parametrize("name", PAGES)
def test_every_page_names_the_class_that_its_specification_gives_it(name: str) -> None:
    assert Page(name).service.startswith(f"This page is in the class {class_of(f'/{name}')}: ")


def test_every_class_of_the_specification_has_something_to_serve() -> None:
    files = [f"/{path.relative_to(SITE).as_posix()}" for path in SITE.rglob("*") if path.is_file()]
    assert {class_of(path) for path in files} == {one.name for one in matcher().model.classes}


def test_the_specification_has_no_mistake_and_is_in_canonical_form() -> None:
    source = Source(SPEC.name, SPEC.read_text(encoding="utf-8"))
    assert compile_policy(source.text).diagnostics == []
    assert print_tree(source, parse(source)[0]) == source.text


def test_guaranteed_shares_leave_capacity_for_the_rest() -> None:
    promised = [int(percent) for percent in re.findall(r"server_resource\s*>\s*(\d+)%", spec_statements())]
    assert promised
    assert sum(promised) < 100


def test_every_file_is_reached_from_the_home_page() -> None:
    seen: set[Path] = set()
    waiting = [SITE / "index.html"]
    while waiting:
        path = waiting.pop()
        if path in seen:
            continue
        seen.add(path)
        if path.suffix == ".html":
            page = Page(path.relative_to(SITE).as_posix())
            waiting += [file_of(urlsplit(urljoin(page.url, link)).path) for link in page.links]
    assert seen == {path for path in SITE.rglob("*") if path.is_file()}


def test_site_stays_small_with_one_large_picture() -> None:
    sizes = {path.name: path.stat().st_size for path in SITE.rglob("*") if path.is_file()}
    assert sum(sizes.values()) < SITE_BYTES_MAX
    assert [name for name, size in sizes.items() if size > 150_000] == ["hollin-sheet.jpg"]


@pytest.mark.parametrize("path", sorted(SITE.rglob("*.svg")), ids=lambda path: path.name)
def test_drawings_are_well_formed_and_need_nothing_else(path: Path) -> None:
    drawing = ET.parse(path).getroot()
    assert drawing.tag == "{http://www.w3.org/2000/svg}svg"
    assert drawing.findtext("{http://www.w3.org/2000/svg}title")
    assert all(not name.endswith("href") for element in drawing.iter() for name in element.attrib)


def test_style_sheet_loads_nothing() -> None:
    style = (SITE / "style.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style
    assert style.count("{") == style.count("}")
