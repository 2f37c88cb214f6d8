"""Link map: targets of the hyperlinks on the site's pages, for ``links(...)``. Changed files are read again."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from qosweb.http.media import media_type
from qosweb.webqos.links import links_in_fields, links_in_html

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

FILES_MAX = 20_000
NOTED_MAX = 5_000  # pages that are not files; the page unseen for longest is forgotten
BYTES_MAX = 2 << 20  # read of one page

Stamp = tuple[int, int, int]
PageFile = tuple[str, str, Stamp]  # path on the site, name on the disk, and what changes when the content does


class LinkMap:
    """The link targets of each page set. ``sets_of`` gives the page sets that contain a path.

    ``hosts`` are names under which the site may link to itself.
    """

    def __init__(
        self, sets_of: Callable[[str], frozenset[int]], index: str, hosts: frozenset[str] = frozenset()
    ) -> None:
        self._sets_of = sets_of
        self._index = index
        self._hosts = hosts
        self._pages: dict[str, tuple[Stamp, frozenset[str]]] = {}
        self._targets: dict[int, frozenset[str]] = {}
        self._noted: dict[str, tuple[frozenset[int], frozenset[str]]] = {}  # of pages that are not files, by path
        self._noted_targets: dict[int, Counter[str]] = {}

    def has(self, number: int, path: str) -> bool:
        """Whether a page of the set ``number`` links to the canonical, decoded ``path``."""
        return path in self._targets.get(number, ()) or path in self._noted_targets.get(number, ())

    def note(self, numbers: frozenset[int], path: str, values: list[str]) -> None:
        """Record the Link fields of the latest response for a page that is not a file, in the sets ``numbers``."""
        path = self._named(path)
        links = frozenset(self._named(link) for link in links_in_fields(values, path, self._hosts))
        known = self._noted.pop(path, None)
        if known != (numbers, links):
            if known is not None:
                self._count(*known, by=-1)
            self._count(numbers, links, by=1)
        self._noted[path] = numbers, links
        while len(self._noted) > NOTED_MAX:
            self._count(*self._noted.pop(next(iter(self._noted))), by=-1)

    def _count(self, numbers: frozenset[int], links: frozenset[str], *, by: int) -> None:
        for number in numbers:
            targets = self._noted_targets.setdefault(number, Counter())
            for link in links:
                targets[link] += by
                if not targets[link]:
                    del targets[link]

    def refresh(self, root: Path) -> None:
        """Scan all files below ``root``. Blocks on the disk: call it in a thread."""
        self._read(self._files(root))

    def refresh_from(self, files: Iterable[PageFile]) -> None:
        """Read the links of these files of the site instead. A file that is missing has none until the next time."""
        found: list[PageFile] = []
        for path, name, stamp in files:
            is_page = media_type(path.rpartition("/")[2]).startswith("text/html")
            if is_page and self._sets_of(named := self._named(path)):
                found.append((named, name, stamp))
                if len(found) >= FILES_MAX:
                    break
        self._read(found)

    def _read(self, files: list[PageFile]) -> None:
        """Read changed files. The new links replace the old ones in one step at the end."""
        pages: dict[str, tuple[Stamp, frozenset[str]]] = {}
        for path, name, stamp in files:
            known = self._pages.get(path)
            if known is None or known[0] != stamp:
                links = self._links_of(name, path)
                if links is None:
                    continue
                known = stamp, links
            pages[path] = known
        targets: dict[int, set[str]] = {}
        for path, (_, links) in pages.items():
            for number in self._sets_of(path):
                targets.setdefault(number, set()).update(self._named(link) for link in links)
        self._pages = pages
        self._targets = {number: frozenset(links) for number, links in targets.items()}

    def _named(self, path: str) -> str:
        """The name of a page without the index file: a directory and its index page are one page."""
        return path[: -len(self._index)] if path.endswith(f"/{self._index}") else path

    def canonical(self, path: str) -> str:
        return self._named(path)

    def _files(self, root: Path) -> list[PageFile]:
        found: list[PageFile] = []
        top = str(root)
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if name.startswith(".") or not media_type(name).startswith("text/html"):
                    continue
                full = os.path.join(folder, name)  # noqa: PTH118
                path = "/" + os.path.relpath(full, top).replace(os.sep, "/")
                path = self._named(path)
                if not self._sets_of(path):
                    continue
                try:
                    status = os.stat(full)
                except OSError:
                    continue
                found.append((path, full, (status.st_ino, status.st_size, status.st_mtime_ns)))
                if len(found) >= FILES_MAX:
                    return found
        return found

    def _links_of(self, name: str, path: str) -> frozenset[str] | None:
        """None if the file cannot be read."""
        try:
            with open(name, "rb") as file:
                return links_in_html(file.read(BYTES_MAX).decode("utf-8", "replace"), path, self._hosts)
        except OSError:
            return None
