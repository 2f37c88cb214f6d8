"""A client that node `a` redirects to node `b` with a ticket: a's pipe is full of a large page, b's is not."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qosweb.engine.local.expected_redirects import VISIT_MS
from tests.support.clusters import KIB
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from tests.support.clusters import RunningCluster
    from tests.support.raw import RawConnection

SPEC = "set lifetime = 20s\nset channel = 64KB in 1s\n"
PIPE = ("--capacity", "64KB/s")  # one page at a time, for a second
PAGES = {"thick": 64 * KIB, "thin": 16, "other": 16}


class Sent(NamedTuple):
    target: str
    until_ms: int  # it is good for so long, by the time of the cluster


def sent_to_b(cluster: RunningCluster) -> Sent:
    """The redirect target at `b` of a client of `a`, with its ticket."""
    a, b = cluster.nodes["a"], cluster.nodes["b"]

    def try_once() -> Sent | None:
        wait_for(lambda: not in_use(cluster) or None, "both pipes are free")
        with a.connect() as first, a.connect() as second:
            ask(first, "/thick/page")
            wait_for(lambda: in_use(cluster) or None, "the pipe of a is full")
            now_ms = int(cluster.status("b")["time_ms"])
            ask(second, "/thin/page")
            reply = second.read_reply()
            first.read_reply()
        location = reply.headers.get("location", "")
        if reply.status != 307 or not location.startswith(b.url):
            return None
        return Sent(location.removeprefix(b.url), now_ms + VISIT_MS)

    return wait_for(try_once, "a client to be sent to b", 60)


def ask(connection: RawConnection, target: str, host: str = "localhost") -> None:
    connection.send(f"GET {target} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())


def in_use(cluster: RunningCluster) -> int:
    return sum(one["channels"] for one in cluster.status("a")["nodes"].values())
