"""Extracts the links of a page to pages of the same site, from HTML and from Link header fields (RFC 8288).

Links are everything that a browser would fetch or offer: anchors, areas, forms, frames, images, scripts, style sheets
and other linked resources. Static files state Link and Refresh fields in ``<meta http-equiv>``. Fragments and queries
are dropped. Links to other sites are ignored.
"""

import re
from collections.abc import Collection, Iterable
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

from qosweb.http.targets import BadTarget, parse_target
from qosweb.webqos.patterns import without_port

LINKS_MAX = 2_000  # per page

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
_HERE = "here.invalid"  # placeholder for the host of the page
_REFRESH = re.compile(r"\s*[0-9.]+\s*[;,]\s*url\s*=\s*['\"]?([^'\"]+)", re.IGNORECASE)
_LINK_VALUE = re.compile(r'<([^<>]*)>((?:\s*;\s*[^\s=;,"]+(?:\s*=\s*(?:"[^"]*"|[^\s;,"]*))?)*)')


class _LinkCollector(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: dict[str, None] = {}
        self.base = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "base" and not self.base:
            self.base = next((value for name, value in attrs if name == "href" and value), "")
        if tag == "meta":
            self._field(dict(attrs))
        for name, value in attrs:
            if value and name in _ATTRIBUTES.get(tag, ()) and len(self.found) < LINKS_MAX:
                if name == "srcset":
                    self.found.update((part.split()[0], None) for part in value.split(",") if part.split())
                else:
                    self.found[value.strip()] = None

    def _field(self, attributes: dict[str, str | None]) -> None:
        name, value = (attributes.get("http-equiv") or "").lower(), attributes.get("content") or ""
        if name == "link":
            self.found.update((target, None) for target in _targets(value))
        elif name == "refresh" and (match := _REFRESH.match(value)) is not None:
            self.found[match[1].strip()] = None


def links_in_html(text: str, path: str, hosts: Collection[str] = ()) -> frozenset[str]:
    """Canonical, decoded paths that the HTML page at ``path`` links to. ``hosts`` are other names of the same site."""
    reader = _LinkCollector()
    reader.feed(text)
    reader.close()
    own = f"//{_HERE}{path}"
    return _on_site(list(reader.found)[:LINKS_MAX], urljoin(own, reader.base) if reader.base else own, hosts)


def links_in_fields(values: Iterable[str], path: str, hosts: Collection[str] = ()) -> frozenset[str]:
    """Canonical, decoded paths in the values of Link fields. Arguments as for ``links_in_html``."""
    targets = [target for value in values for target in _targets(value)]
    return _on_site(targets[:LINKS_MAX], f"//{_HERE}{path}", hosts)


def _targets(value: str) -> list[str]:
    return [match[1] for match in _LINK_VALUE.finditer(value)]


def _on_site(targets: Iterable[str], base: str, hosts: Collection[str]) -> frozenset[str]:
    found = set()
    for target in targets:
        try:
            parts = urlsplit(urljoin(base, target))
        except ValueError:
            continue
        host = parts.netloc.lower()
        if parts.scheme not in ("", "http", "https") or not {host, without_port(host)} & {_HERE, *hosts}:
            continue
        if not target.split("#")[0]:
            continue  # a fragment of the page itself
        try:
            found.add(parse_target(parts.path or "/").path)
        except BadTarget:
            continue
    return frozenset(found)
