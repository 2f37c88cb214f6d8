"""A client that disconnects while its request is queued: the request leaves the queue, and the log has its wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.support.clusters import KIB, make_site
from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

SPEC = "set lifetime = 60s\nset channel = 1MB in 1s\n</c>.server_resource > 50%\n"


def test_a_client_that_disconnects_in_the_queue_is_logged_as_not_served(tmp_path: Path) -> None:
    site = make_site(tmp_path / "site", {"c": 64 * KIB * KIB})
    (tmp_path / "site.webqos").write_text(SPEC)
    options = ("--spec", str(tmp_path / "site.webqos"), "--capacity", "1MB/s")
    with RunningNode(site, tmp_path, *options) as node, node.connect() as first:
        first.send(b"GET /c/page HTTP/1.1\r\nHost: localhost\r\n\r\n")
        first._read_until(b"\r\n\r\n")  # the only channel is taken, and for how long is known
        with node.connect() as second:
            second.send(b"GET /c/page HTTP/1.1\r\nHost: localhost\r\n\r\n")
            wait_for(lambda: node.metric("qosweb_queue_entries", **{"class": "/c"}) == 1, "the second waits")
        wait_for(lambda: node.metric("qosweb_queue_entries", **{"class": "/c"}) == 0, "it is forgotten")
        line = wait_for(lambda: next(iter(node.log()), None), "its line in the log")
        assert (line["decision"], line["status"]) == ("failed", 499)
        assert float(str(line["queue_ms"])) > 0
        assert float(str(line["service_ms"])) < float(str(line["queue_ms"]))
