"""Released site: chooses the release that a request gets, so that no client sees two releases mixed or goes back.

A client is known by a cookie, or by a request header field of an API client: the number of the activation it has seen.

- A navigation (`Sec-Fetch-Mode: navigate`, or without that field a request for HTML) gets the current release. If the
  client has not seen it, the response sets the cookie.
- Every other request gets the release that its client has seen, for the grace time after it was replaced; then, and
  without a cookie or field, the current one.
- A client that has seen a newer activation than this node knows waits until the node knows it. So does a client of an
  earlier one whose list of files this node is still fetching.

Responses say `Cache-Control: no-cache`: a cache may keep them, and asks before it uses them again, so that it mixes no
releases either. Entity tags are made of the content, so an unchanged file is not sent again.
Pure, except that it reads the clock which it is given.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from qosweb.http.media import media_type
from qosweb.http.request_heads import COOKIE as COOKIE_BIT
from qosweb.http.request_heads import FETCH_METADATA, RELEASE
from qosweb.releases.manifest import Manifest
from qosweb.server.releases.release_tree import ReleaseTree, SiteView

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.http.request_heads import RequestHead
    from qosweb.releases.blob_store import BlobStore
    from qosweb.releases.ledger import Activation

    ReadField = Callable[[str], str | None]  # the value of a header field of the request; None if it is absent

COOKIE = "qosweb-release"
FIELD = "QoSweb-Release"
COOKIE_AGE_S = 30 * 86_400
NUMBER_LEN_MAX = 12

_BITS = {FIELD: RELEASE, "Cookie": COOKIE_BIT, "Sec-Fetch-Mode": FETCH_METADATA, "Sec-Fetch-Dest": FETCH_METADATA}
_COOKIE = re.compile(rf"(?:^|;\s*){COOKIE}=([0-9]{{1,{NUMBER_LEN_MAX}}})(?=;|\s*$)")
_NUMBER = re.compile(rf"[0-9]{{1,{NUMBER_LEN_MAX}}}")


class NewerReleaseSeen:
    """The client has seen an activation that this node does not have yet."""


BEHIND: Final = NewerReleaseSeen()


class ServedRelease:
    """An activation that clients may get, in two forms: with and without a new cookie."""

    __slots__ = ("moving", "plain", "replaced_s", "tree")

    def __init__(self, activation: Activation | None, tree: ReleaseTree, *, is_secure: bool) -> None:
        self.replaced_s: float | None = None  # when the next activation became current, by the wall clock
        number = 0 if activation is None else activation.number
        fields = ((FIELD, str(number)), ("Cache-Control", "no-cache"))
        cookie = f"{COOKIE}={number}; Path=/; Max-Age={COOKIE_AGE_S}; SameSite=Lax; HttpOnly"
        self.tree = tree
        self.plain = SiteView(tree, number, fields, f"{number}:")
        moving = (
            (FIELD, str(number)),
            ("Cache-Control", "private, no-cache"),
            ("Set-Cookie", cookie + ("; Secure" if is_secure else "")),
        )
        self.moving = SiteView(tree, number, moving, f"{number}+") if number else self.plain


class ReleasedSite:
    """The releases of a node. `wall_s` reads the wall clock. `folder` is that of the blobs."""

    def __init__(self, blobs: BlobStore, wall_s: Callable[[], float], *, grace_s: float, is_secure: bool) -> None:
        self._wall_s = wall_s
        self._grace_s = grace_s
        self._is_secure = is_secure
        self._served: dict[int, ServedRelease] = {}  # by number
        self.absent: frozenset[int] = frozenset()  # activations that clients may get, but whose files are not known yet
        self.current = ServedRelease(None, ReleaseTree(Manifest(()), blobs, _never), is_secure=False)
        self._waiters: list[Callable[[], None]] = []

    @property
    def number(self) -> int:
        return self.current.plain.number

    @property
    def numbers(self) -> list[int]:
        """The numbers of all activations that clients may get, oldest first."""
        return list(self._served)

    def serve(self, activations: list[tuple[Activation, ReleaseTree]], absent: frozenset[int] = frozenset()) -> None:
        """Serve these activations, oldest first; the last one is current. Clients of `absent` ones wait."""
        served: dict[int, ServedRelease] = {}
        before: ServedRelease | None = None
        for activation, tree in activations:
            release = self._served.get(activation.number) or ServedRelease(activation, tree, is_secure=self._is_secure)
            if before is not None:
                before.replaced_s = activation.at_s
            before = served[activation.number] = release
        if before is None:
            return
        self._served, self.current, self.absent = served, before, absent
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter()

    def wait(self, waiter: Callable[[], None]) -> None:
        """Call `waiter` when another release is current."""
        self._waiters.append(waiter)

    def forget(self, waiter: Callable[[], None]) -> None:
        if waiter in self._waiters:
            self._waiters.remove(waiter)

    def choose(self, field: ReadField, path: str, *, must_decide: bool = False) -> SiteView | NewerReleaseSeen:
        """The release for a request. `must_decide`: the client has waited long enough, its number is not valid here."""
        current = self.current
        seen = seen_by(field)
        if seen == current.plain.number:
            return current.plain
        if seen is not None and seen > current.plain.number and not must_decide:
            return BEHIND
        if is_navigation(field, path):
            return current.plain if field(FIELD) is not None else current.moving
        if seen is None:
            return current.plain
        if seen in self.absent:
            return BEHIND
        kept = self._served.get(seen)
        if kept is None or kept.replaced_s is None or self._wall_s() > kept.replaced_s + self._grace_s:
            return current.plain
        return kept.plain

    def plain_view(self, field: ReadField, path: str) -> SiteView | None:
        """The release for every request with this head until the next activation; None: choose each time."""
        seen = seen_by(field)
        if seen is None:
            return self.current.moving if is_navigation(field, path) else self.current.plain
        return self.current.plain if seen == self.number else None

    def in_grace(self, activations: list[Activation]) -> list[Activation]:
        """The activations (oldest first) that clients may still get, with the current one last."""
        now_s = self._wall_s()
        return [
            one
            for at, one in enumerate(activations)
            if at == len(activations) - 1 or activations[at + 1].at_s + self._grace_s >= now_s
        ]


def fields_of(head: RequestHead) -> ReadField:
    """Reads the fields of `head` that choose a release. The parser knows which of them are absent."""
    bits = head.bits
    return lambda name: head.value(name) if bits & _BITS[name] else None


def seen_by(field: ReadField) -> int | None:
    """The number of the activation that the client has seen, if it says so."""
    stated = field(FIELD)
    if stated is not None:
        return int(stated) if _NUMBER.fullmatch(stated) else None
    cookie = field("Cookie")
    if cookie is None or COOKIE not in cookie:
        return None
    found = _COOKIE.search(cookie)
    return None if found is None else int(found[1])


def is_navigation(field: ReadField, path: str) -> bool:
    """Whether the request is for another page, and not for a part of the page that the client shows."""
    mode = field("Sec-Fetch-Mode")
    if mode is not None:
        return mode == "navigate" and (field("Sec-Fetch-Dest") or "document") == "document"
    return path.endswith("/") or media_type(path.rpartition("/")[2]).startswith("text/html")


def _never(_file: object) -> None:
    raise FileNotFoundError
