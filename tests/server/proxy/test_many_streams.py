"""Many event streams at once: each gets its events, and ordinary requests are served beside them.

`./dev campaign upstreams` has 1,000 streams for a minute, and judges memory and latency.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

from tests.support.application import Application
from tests.support.event_streams import EventStreams
from tests.support.honest import waits_s
from tests.support.misbehaving import free_port
from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

STREAMS = 200
CONNECTIONS = 20  # of ordinary requests to the server: streams do not count
STREAM_MAX = 64 << 10  # bytes of memory for a stream


def test_streams_leave_room_for_ordinary_requests(tmp_path: Path) -> None:
    options = ["--upstream-connections", str(CONNECTIONS)]
    with (
        Application(free_port()) as server,
        RunningNode(None, tmp_path, "--upstream", server.url, *options) as node,
    ):
        waits_s(node.port, 10)
        process = psutil.Process(node.process.pid)
        before = process.memory_info().rss
        with EventStreams(node.port, STREAMS) as streams:
            assert node.metric("qosweb_streams") == STREAMS
            waits_s(node.port, 100)  # each is answered with 200
            wait_for(lambda: streams.counts()["events"] >= 2 * STREAMS or None, "events of the streams")
            found = streams.counts()
            assert (found["open"], found["ended"]) == (STREAMS, 0)
            assert process.memory_info().rss - before < STREAMS * STREAM_MAX
        wait_for(lambda: node.metric("qosweb_streams") == 0 or None, "the end of the streams")
        assert not any("internal error" in line for line in node.stderr), node.stderr
