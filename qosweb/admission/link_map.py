"""The links of the site's own pages, for ``links(...)``: read from the files, and again when a file has changed."""

from __future__ import annotations

import os
from collections import Counter
from typing import TYPE_CHECKING

from qosweb.http.media import media_type
from qosweb.webqos.links import links_in_fields, links_in_html

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

FILES_MAX = 20_000
NOTED_MAX = 5_000  # pages that are no files; the longest unseen is forgotten
BYTES_MAX = 2 << 20  # of one page; what is beyond is not looked at

Stamp = tuple[int, int, int]


class LinkMap:
    """``wanted`` says of which page sets a path is one; the links of all their pages together are kept per set.

    ``hosts`` are names under which the site may link to itself.
    """

    def __init__(
        self, wanted: Callable[[str], frozenset[int]], index: str, hosts: frozenset[str] = frozenset()
    ) -> None:
        self._wanted = wanted
        self._index = index
        self._hosts = hosts
        self._pages: dict[str, tuple[Stamp, frozenset[str]]] = {}
        self._targets: dict[int, frozenset[str]] = {}
        self._noted: dict[str, tuple[frozenset[int], frozenset[str]]] = {}  # of pages that are no files, by path
        self._noted_targets: dict[int, Counter[str]] = {}

    def has(self, number: int, path: str) -> bool:
        """Whether a page of the set ``number`` links to ``path``, which is canonical and decoded."""
        return path in self._targets.get(number, ()) or path in self._noted_targets.get(number, ())

    def note(self, numbers: frozenset[int], path: str, values: list[str]) -> None:
        """The Link fields of a page that is no file, as it was answered last; the page is in these sets."""
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
        """Look at all files below ``root``. Blocks on the disk: not for the event loop.

        What was found is put in place at the end, at once.
        """
        pages: dict[str, tuple[Stamp, frozenset[str]]] = {}
        for path, name, stamp in self._files(root):
            known = self._pages.get(path)
            pages[path] = known if known is not None and known[0] == stamp else (stamp, self._links_of(name, path))
        targets: dict[int, set[str]] = {}
        for path, (_, links) in pages.items():
            for number in self._wanted(path):
                targets.setdefault(number, set()).update(self._named(link) for link in links)
        self._pages = pages
        self._targets = {number: frozenset(links) for number, links in targets.items()}

    def _named(self, path: str) -> str:
        """A directory and its page have one name."""
        return path[: -len(self._index)] if path.endswith(f"/{self._index}") else path

    def canonical(self, path: str) -> str:
        return self._named(path)

    def _files(self, root: Path) -> list[tuple[str, str, Stamp]]:
        found: list[tuple[str, str, Stamp]] = []
        top = str(root)
        for folder, folders, names in os.walk(top):
            folders[:] = sorted(name for name in folders if not name.startswith("."))
            for name in sorted(names):
                if name.startswith(".") or not media_type(name).startswith("text/html"):
                    continue
                full = os.path.join(folder, name)  # noqa: PTH118
                path = "/" + os.path.relpath(full, top).replace(os.sep, "/")
                path = self._named(path)
                if not self._wanted(path):
                    continue
                try:
                    status = os.stat(full)
                except OSError:
                    continue
                found.append((path, full, (status.st_ino, status.st_size, status.st_mtime_ns)))
                if len(found) >= FILES_MAX:
                    return found
        return found

    def _links_of(self, name: str, path: str) -> frozenset[str]:
        try:
            with open(name, "rb") as file:
                return links_in_html(file.read(BYTES_MAX).decode("utf-8", "replace"), path, self._hosts)
        except OSError:
            return frozenset()
