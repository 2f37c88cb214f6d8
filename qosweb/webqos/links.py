"""Which pages of the same site a page links to: by its HTML, and by Link fields (RFC 8288).

What counts is what a browser would ask for or offer: anchors, areas, forms, frames, images, scripts, style sheets and
other linked resources. Fragments and queries are dropped; what leads to another site is left out.
"""

import re
from collections.abc import Iterable
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

from qosweb.http.targets import BadTarget, parse_target

LINKS_MAX = 2_000  # of one page

_ATTRIBUTES = {
    "a": ("href",),
    "area": ("href",),
    "audio": ("src",),
    "embed": ("src",),
    "form": ("action",),
    "frame": ("src",),
    "iframe": ("src",),
    "img": ("src", "srcset"),
    "input": ("src",),
    "link": ("href",),
    "object": ("data",),
    "script": ("src",),
    "source": ("src", "srcset"),
    "track": ("src",),
    "video": ("src", "poster"),
}
_LINK_VALUE = re.compile(r'<([^<>]*)>((?:\s*;\s*[^\s=;,"]+(?:\s*=\s*(?:"[^"]*"|[^\s;,"]*))?)*)')


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: dict[str, None] = {}
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "base" and not self.base:
            self.base = next((value for name, value in attrs if name == "href" and value), "")
        for name, value in attrs:
            if value and name in _ATTRIBUTES.get(tag, ()) and len(self.found) < LINKS_MAX:
                if name == "srcset":
                    self.found.update((part.split()[0], None) for part in value.split(",") if part.split())
                else:
                    self.found[value.strip()] = None


def links_in_html(text: str, path: str, host: str = "") -> frozenset[str]:
    """The canonical, decoded paths of pages on the same site that the page at ``path`` links to."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    return _on_site(reader.found, urljoin(f"//{host}{path}", reader.base) if reader.base else f"//{host}{path}", host)


def links_in_fields(values: Iterable[str], path: str, host: str = "") -> frozenset[str]:
    """The same of the values of Link fields."""
    targets = [match[1] for value in values for match in _LINK_VALUE.finditer(value)]
    return _on_site(targets[:LINKS_MAX], f"//{host}{path}", host)


def _on_site(targets: Iterable[str], base: str, host: str) -> frozenset[str]:
    found = set()
    for target in targets:
        try:
            parts = urlsplit(urljoin(base, target))
        except ValueError:
            continue
        if parts.scheme not in ("", "http", "https") or (parts.netloc and parts.netloc.lower() != host):
            continue
        if not target.split("#")[0]:
            continue  # a place on the page itself
        try:
            found.add(parse_target(parts.path or "/").path)
        except BadTarget:
            continue
    return frozenset(found)
