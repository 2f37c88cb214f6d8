"""Released site: chooses the release that a request gets, so that no client sees two releases mixed or goes back.

A client is known by a cookie, or by a request header field of an API client: the number of the activation it has seen.

- A navigation (`Sec-Fetch-Mode: navigate`, or without that field a request for HTML) gets the current release. If the
  client has not seen it, the response sets the cookie.
- Every other request gets the release that its client has seen, for the grace time after it was replaced at this node;
  then, and without a cookie or field, the current one. A release that was replaced while this node was away counts from
  the time that the cluster's clock had then.
- A client that has seen a newer activation than this node knows waits until the node knows it. So does a client of an
  earlier one whose list of files this node is still fetching.

Responses say `Cache-Control: no-cache`: a cache may keep them, and asks before it uses them again, so that it mixes no
releases either. Entity tags are made of the content, so an unchanged file is not sent again.
Pure, except that it reads the clocks which it is given.
"""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from qosweb.http.media import media_type
from qosweb.http.request_heads import COOKIE as COOKIE_BIT
from qosweb.http.request_heads import FETCH_METADATA, RELEASE
from qosweb.releases.ledger import IN_GRACE_MAX
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

    __slots__ = ("activation", "moving", "plain", "replaced_here_s", "replaced_s", "tree")

    def __init__(self, activation: Activation | None, tree: ReleaseTree, *, is_secure: bool) -> None:
        self.activation = activation
        self.replaced_s: float | None = None  # when the next activation became current, by the wall clock
        self.replaced_here_s: float | None = None  # when this node stopped serving it as the current one
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
    """The releases of a node. `wall_s` reads the cluster's wall clock, `clock_s` a monotonic one."""

    def __init__(
        self,
        blobs: BlobStore,
        wall_s: Callable[[], float],
        clock_s: Callable[[], float],
        *,
        grace_s: float,
        is_secure: bool,
    ) -> None:
        self._wall_s = wall_s
        self._clock_s = clock_s
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
    def activations(self) -> list[Activation]:
        """All activations that clients may get, oldest first."""
        return [one.activation for one in self._served.values() if one.activation is not None]

    def serve(self, activations: list[tuple[Activation, ReleaseTree]], absent: frozenset[int] = frozenset()) -> None:
        """Serve these activations, oldest first; the last one is current. Clients of `absent` ones wait."""
        served: dict[int, ServedRelease] = {}
        before: ServedRelease | None = None
        for activation, tree in activations:
            release = self._served.get(activation.number)
            if release is None or release.activation != activation:
                release = ServedRelease(activation, tree, is_secure=self._is_secure)
            if before is not None:
                before.replaced_s = activation.at_s
            before = served[activation.number] = release
        if before is None:
            return
        if before is not self.current:
            self.current.replaced_here_s = self._clock_s()
        before.replaced_here_s = None
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
        if kept is None or kept.replaced_s is None or not self._is_in_grace(kept, kept.replaced_s):
            return current.plain
        return kept.plain

    def plain_view(self, field: ReadField, path: str) -> SiteView | None:
        """The release for every request with this head until the next activation; None: choose each time."""
        seen = seen_by(field)
        if seen is None:
            return self.current.moving if is_navigation(field, path) else self.current.plain
        return self.current.plain if seen == self.number else None

    def in_grace(self, activations: list[Activation]) -> list[Activation]:
        """The activations that clients may still get, oldest first, with the current one last.

        `activations`: those of the ledger, oldest first. This node may serve others, which the ledger no longer keeps.
        """
        if not activations:
            return []
        numbers = {one.number for one in activations}
        left = [one for one in self.activations if one.number not in numbers and one.number < activations[-1].number]
        known = sorted([*left, *activations], key=lambda one: one.number)[-IN_GRACE_MAX - 1 :]
        return [
            *(one for one, following in pairwise(known) if self._is_wanted(one, following.at_s)),
            known[-1],
        ]

    def _is_wanted(self, activation: Activation, replaced_s: float) -> bool:
        served = self._served.get(activation.number)
        if served is not None and served is self.current:
            return True  # it is about to be replaced
        return self._is_in_grace(served, replaced_s)

    def _is_in_grace(self, served: ServedRelease | None, replaced_s: float) -> bool:
        if served is not None and served.replaced_here_s is not None:
            return self._clock_s() <= served.replaced_here_s + self._grace_s
        return self._wall_s() <= replaced_s + self._grace_s


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
