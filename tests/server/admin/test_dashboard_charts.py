"""Dashboard of a cluster in a browser, on a desk and on a phone: nodes, charts, events; and `GET /history`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from qosweb.server.cluster.class_history import KEPT
from tests.support.browser import browser_tab, find_browser
from tests.support.clusters import RunningCluster
from tests.support.sites import write_site
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPEC = "</page.html>.server_resource > 40%\n</index.html>.available = always\n"
NAMES = "ab"
LOADED = (
    "document.querySelectorAll('#charts .chart').length >= 2 && document.querySelectorAll('#events li').length >= 2"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningCluster]:
    folder = tmp_path_factory.mktemp("charts")
    with RunningCluster(write_site(folder / "site"), folder, SPEC, NAMES, "--capacity", "1MB/s") as running:
        yield running


def history(cluster: RunningCluster, at: str, after: str = "0") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(cluster.nodes[at].admin(f"/history?after={after}"))
    return found


def test_the_history_has_shares_queues_and_waits_of_all_classes(cluster: RunningCluster) -> None:
    def seen() -> dict[str, Any] | None:
        cluster.nodes["b"].get("/page.html")  # again: a later report replaces an earlier one that has not arrived
        page: dict[str, Any] = history(cluster, "a")["classes"]["/page.html"]
        return page if any(page["share"]) and any(value is not None for value in page["wait_p99_ms"]) else None

    page = wait_for(seen, "node a has figures of the requests at node b")
    assert page["promised"][-1] >= 0.4
    assert set(page["waiting"]) <= {0, None}
    assert history(cluster, "a")["classes"]["/index.html"]["promised"][-1] is None


def test_only_new_samples_are_asked_for(cluster: RunningCluster) -> None:
    first = history(cluster, "a")
    assert len(first["classes"]["default"]["share"]) == first["number"] - first["first"] + 1 <= KEPT

    def more() -> dict[str, Any] | None:
        found = history(cluster, "a", str(first["number"]))
        return found if found["number"] > first["number"] else None

    found = wait_for(more, "another sample")
    assert found["first"] == first["number"] + 1
    assert len(found["classes"]["default"]["share"]) == found["number"] - first["number"]
    assert history(cluster, "a", "999999")["first"] == first["first"]  # of another life of the node


def test_an_invalid_number_is_explained(cluster: RunningCluster) -> None:
    with pytest.raises(Exception, match="400"):
        cluster.nodes["a"].admin("/history?after=x")


@pytest.mark.parametrize(("width", "height"), [(1200, 900), (390, 844)], ids=["desk", "phone"])
def test_the_page_fits_and_has_no_errors(cluster: RunningCluster, tmp_path: Path, width: int, height: int) -> None:
    program = find_browser()
    if program is None:
        pytest.skip("needs Chromium (./dev setup --full)")
    asyncio.run(_look(program, cluster, tmp_path, width, height))


async def _look(program: str, cluster: RunningCluster, folder: Path, width: int, height: int) -> None:
    async with browser_tab(program, folder) as tab:
        url = f"http://127.0.0.1:{cluster.nodes['a'].admin_port}/"
        await tab.open(url, width, height)
        await tab.wait_for(LOADED)
        assert await tab.evaluate("document.documentElement.scrollWidth") <= width
        assert await tab.evaluate("document.querySelectorAll('.node').length") == len(NAMES)
        cards = await tab.evaluate("[...document.querySelectorAll('.chart')].map(card => card.innerText)")
        page = next(card for card in cards if card.startswith("/page.html > 40%"))
        assert [word for word in ("share", "waiting", "p99 waiting", "-10 min") if word not in page] == []
        assert await tab.evaluate(
            "[...document.querySelectorAll('.chart')].every(one => one.querySelectorAll('svg path').length > 3)"
        )
        events = await tab.evaluate("document.getElementById('events').innerText")
        assert "primary view" in events
        assert "policy" in events
        samples = await tab.evaluate("past.number")
        await tab.call("Page.reload")  # the node has kept what the charts show
        await tab.wait_for(LOADED)
        assert await tab.evaluate("past.classes.get('default').share.length") >= samples
        assert tab.errors == []
