"""The release that a client gets: current on navigation, the one it has seen otherwise, and never an older one."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from qosweb.releases.blob_store import BlobStore
from qosweb.releases.ledger import Activation
from qosweb.releases.manifest import Manifest
from qosweb.server.releases.release_tree import ReleaseTree, SiteView
from qosweb.server.releases.released_site import BEHIND, ReleasedSite, is_navigation, seen_by

if TYPE_CHECKING:
    from pathlib import Path

GRACE_S = 100.0
NOTHING: dict[str, str] = {}
PART = {"Sec-Fetch-Mode": "no-cors"}
NAVIGATION = {"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}


class World:
    def __init__(self, folder: Path) -> None:
        self.now_s = 0.0  # by the wall clock
        self.clock_s = 0.0
        blobs = BlobStore(folder)
        self.tree = ReleaseTree(Manifest(()), blobs, lambda _file: None)
        self.site = ReleasedSite(blobs, lambda: self.now_s, lambda: self.clock_s, grace_s=GRACE_S, is_secure=False)

    def serve(self, *numbers: int, absent: frozenset[int] = frozenset()) -> None:
        """Activation n became current at n * 10 seconds."""
        made = [Activation(number, f"m{number}", "", "", 10 * number, 0, 0) for number in numbers]
        self.site.serve([(one, self.tree) for one in made], absent)

    def number(self, **headers: str) -> int | None:
        """Of the release for a part of a page; None: the client has to wait."""
        chosen = self.site.choose(({name.replace("_", "-"): value for name, value in headers.items()}).get, "/a.png")
        return chosen.number if isinstance(chosen, SiteView) else None


def cookie(number: int) -> dict[str, str]:
    return {"Cookie": f"theme=dark; qosweb-release={number}"}


def sets_cookie(view: object) -> bool:
    assert isinstance(view, SiteView)
    return any(name == "Set-Cookie" for name, _ in view.fields)


def test_a_navigation_moves_a_client_to_the_current_release(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.serve(1, 2)
    for headers in (NAVIGATION, {**NAVIGATION, **cookie(1)}):
        chosen = world.site.choose((headers).get, "/x")
        assert isinstance(chosen, SiteView)
        assert chosen.number == 2
        assert sets_cookie(chosen)
    again = world.site.choose({**NAVIGATION, **cookie(2)}.get, "/x")
    assert not sets_cookie(again)  # it has the cookie already


def test_parts_of_a_page_come_from_its_release_during_the_grace_time(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.serve(1, 2, 3)
    world.now_s = 40
    assert world.number(**PART) == 3
    assert world.number(**PART, **cookie(1)) == 1
    assert world.number(**PART, **cookie(2)) == 2
    world.now_s = 20 + GRACE_S + 1  # release 1 was replaced at 20 s
    assert world.number(**PART, **cookie(1)) == 3
    assert world.number(**PART, **cookie(2)) == 2


@pytest.mark.parametrize("wall_s", [-5000.0, 5000.0])
def test_a_release_that_was_replaced_here_has_its_grace_time_whatever_the_wall_clock_says(
    tmp_path: Path, wall_s: float
) -> None:
    """The clock jumped, or this node was cut off and learns late of a release that is old elsewhere."""
    world = World(tmp_path)
    world.serve(1)
    world.now_s = wall_s
    made = [Activation(number, f"m{number}", "", "", 10 * number, 0, 0) for number in (1, 2)]
    assert world.site.in_grace(made) == made
    world.serve(1, 2)
    world.clock_s = GRACE_S
    assert world.number(**PART, **cookie(1)) == 1
    assert world.site.in_grace(made) == made
    world.clock_s = GRACE_S + 1
    assert world.number(**PART, **cookie(1)) == 2
    assert world.site.in_grace(made) == made[1:]


def test_a_release_that_the_ledger_no_longer_keeps_is_served_where_it_was_current_until_now(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.serve(1)
    world.now_s = 5000.0
    made = [Activation(number, f"m{number}", "", "", 10 * number, 0, 0) for number in (7, 8)]
    assert [one.number for one in world.site.in_grace(made)] == [1, 8]
    world.serve(1, 8)
    assert world.number(**PART, **cookie(1)) == 1
    assert [one.number for one in world.site.in_grace(made)] == [1, 8]
    world.clock_s = GRACE_S + 1
    assert [one.number for one in world.site.in_grace(made)] == [8]


def test_another_history_replaces_releases_of_the_same_number(tmp_path: Path) -> None:
    """The node has joined another cluster."""
    world = World(tmp_path)
    world.serve(1, 2)
    other = Activation(2, "other", "", "", 20, 0, 0)
    tree = ReleaseTree(Manifest(()), BlobStore(tmp_path), lambda _file: None)
    world.site.serve([(other, tree)])
    assert world.site.current.tree is tree
    first = Activation(1, "another", "", "", 20, 0, 0)
    assert world.site.in_grace([first]) == [first]


def test_a_client_waits_for_a_release_that_this_node_is_still_fetching(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.serve(1, 4, absent=frozenset({2, 3}))
    woken: list[int] = []
    world.site.wait(lambda: woken.append(1))
    world.now_s = 45
    assert world.number(**PART, **cookie(2)) is None  # not a part of release 4 for a page of release 2
    assert world.site.choose({**PART, **cookie(2)}.get, "/a.png", must_decide=True) is BEHIND
    assert world.number(**PART, **cookie(1)) == 1
    assert isinstance(world.site.choose({**NAVIGATION, **cookie(2)}.get, "/"), SiteView)
    world.serve(1, 2, 3, 4)
    assert woken
    assert world.number(**PART, **cookie(2)) == 2


def test_a_client_that_has_seen_a_newer_release_waits(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.serve(1)
    assert world.number(**PART, **cookie(2)) is None
    assert world.site.choose({**NAVIGATION, **cookie(2)}.get, "/") is BEHIND
    called: list[int] = []
    world.site.wait(lambda: called.append(1))
    world.serve(1, 2)
    assert called == [1]
    assert world.number(**PART, **cookie(2)) == 2
    chosen = world.site.choose((cookie(99)).get, "/", must_decide=True)  # a number that the cluster never had
    assert isinstance(chosen, SiteView)
    assert chosen.number == 2


def test_an_api_client_states_the_release(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.serve(1, 2)
    assert world.site.choose(({"QoSweb-Release": "1"}).get, "/data.json").number == 1  # type: ignore[union-attr]
    assert world.site.choose(({"QoSweb-Release": "0"}).get, "/data.json").number == 2  # type: ignore[union-attr]
    assert not sets_cookie(world.site.choose(({"QoSweb-Release": "1"}).get, "/index.html"))


def test_a_client_never_goes_back(tmp_path: Path) -> None:
    """Clients that send their cookie to nodes which learn of releases at different times."""
    for seed in range(50):
        chance = random.Random(seed)
        nodes = [World(tmp_path / f"{seed}-{at}") for at in range(3)]
        known = [1, 1, 1]
        for node in nodes:
            node.serve(1)
        seen = 0
        for step in range(200):
            at = chance.randrange(3)
            if chance.random() < 0.2:
                known[at] = min(known[at] + 1, max(known) + (chance.random() < 0.5))
                nodes[at].serve(*range(max(1, known[at] - 3), known[at] + 1))
            nodes[at].now_s = step
            headers = dict(NAVIGATION if chance.random() < 0.5 else PART)
            if seen:
                headers |= cookie(seen)
            chosen = nodes[at].site.choose((headers).get, "/")
            if isinstance(chosen, SiteView):
                assert chosen.number >= seen
                if sets_cookie(chosen):
                    seen = chosen.number


def test_heads_whose_release_does_not_change(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.serve(1, 2)
    site = world.site
    assert site.plain_view(NOTHING.get, "/a.png") is site.current.plain
    assert site.plain_view(NOTHING.get, "/") is site.current.moving
    assert site.plain_view(cookie(2).get, "/") is site.current.plain
    assert site.plain_view(cookie(1).get, "/") is None
    assert site.plain_view(cookie(3).get, "/") is None


def test_no_release_yet(tmp_path: Path) -> None:
    world = World(tmp_path)
    assert world.number(**PART) == 0
    assert world.number(**NAVIGATION) == 0


@pytest.mark.parametrize(
    ("headers", "number"),
    [
        ({}, None),
        ({"Cookie": "qosweb-release=7"}, 7),
        ({"Cookie": "a=b; qosweb-release=7; c=d"}, 7),
        ({"Cookie": "xqosweb-release=7"}, None),
        ({"Cookie": "qosweb-release=7x"}, None),
        ({"Cookie": "qosweb-release=-1"}, None),
        ({"Cookie": f"qosweb-release={'9' * 30}"}, None),
        ({"QoSweb-Release": "3", "Cookie": "qosweb-release=7"}, 3),
        ({"QoSweb-Release": "latest"}, None),
    ],
)
def test_what_a_client_has_seen(headers: dict[str, str], number: int | None) -> None:
    assert seen_by(headers.get) == number


@pytest.mark.parametrize(
    ("headers", "path", "expected"),
    [
        ({"Sec-Fetch-Mode": "navigate"}, "/a.pdf", True),
        ({"Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, "/a.html", False),
        ({"Sec-Fetch-Mode": "cors"}, "/a.html", False),
        ({}, "/", True),
        ({}, "/a/b.html", True),
        ({}, "/a/b.css", False),
        ({}, "/a/b", False),
    ],
)
def test_what_a_navigation_is(headers: dict[str, str], path: str, *, expected: bool) -> None:
    assert is_navigation(headers.get, path) is expected
