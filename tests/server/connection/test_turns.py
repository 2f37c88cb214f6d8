"""Requests of a node whose processor is full: responses keep their order, and the log tells who waited, and why."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SPEC = "set lifetime = 30s\n</a>.server_resource = 70%\n</b>.server_resource = 30%\n"
CLIENTS, PIPELINED = 24, 50


@pytest.fixture
def node(tmp_path: Path) -> Iterator[RunningNode]:
    for name in "ab":
        (tmp_path / "site" / name).mkdir(parents=True)
        (tmp_path / "site" / name / "page").write_bytes(name.encode() * 200)
    (tmp_path / "spec.webqos").write_text(SPEC)
    with RunningNode(tmp_path / "site", tmp_path, "--spec", str(tmp_path / "spec.webqos")) as node:
        yield node


def test_pipelined_requests_beyond_the_processor_wait_for_their_turns_and_keep_their_order(node: RunningNode) -> None:
    clients = [socket.create_connection(("127.0.0.1", node.port), 30) for _ in range(CLIENTS)]

    def has_waited() -> bool:  # it may become full with the last requests: then none of them waits
        ask(clients, PIPELINED)
        return any(one.get("queue_ms", 0) > 0 for one in node.log_lines())

    wait_for(has_waited, "a logged wait", 60)
    assert json.loads(node.admin("/status"))["capacity"]["processor"]["times_full"]
    for client in clients:
        client.close()
    served = [one for one in node.log_lines() if "decision" in one]
    assert {one["decision"] for one in served} == {"served"}
    assert len({one["rid"] for one in served}) == len(served)
    for one in served:
        assert one["queue_ms"] + one["service_ms"] == pytest.approx(one["total_ms"], abs=0.0011), one
    waited = max(served, key=lambda one: one["queue_ms"])
    assert time.time() - 60 < waited["ts"] < time.time()


def test_events_name_the_processor_while_requests_wait_for_it(node: RunningNode) -> None:
    clients = [socket.create_connection(("127.0.0.1", node.port), 30) for _ in range(CLIENTS)]

    def is_logged() -> bool:
        ask(clients, 10 * PIPELINED)
        return any(cause == "processor" for cause, _ in causes(node))

    wait_for(is_logged, "a logged shortage of the processor", 60)
    waiting = max(waiting for cause, waiting in causes(node) if cause == "processor")
    assert waiting > 0
    wait_for(lambda: causes(node)[-1][0] is None, "the end of the shortage", 60)
    for client in clients:
        client.close()


def causes(node: RunningNode) -> list[tuple[str | None, int]]:
    """Of the node, with the number of requests that waited."""
    return [(one["cause"], one["waiting"]) for one in node.log_lines() if one.get("event") == "resource"]


def ask(clients: list[socket.socket], count: int) -> None:
    for client in clients:
        client.sendall(b"".join(request("ab"[at % 2]) for at in range(count)))
    for client in clients:
        read_in_order(client, count)


def request(name: str) -> bytes:
    return f"GET /{name}/page HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def read_in_order(client: socket.socket, count: int) -> None:
    reader = client.makefile("rb")
    for at in range(count):
        assert reader.readline() == b"HTTP/1.1 200 OK\r\n"
        while reader.readline() != b"\r\n":
            pass
        assert reader.read(200) == b"ab"[at % 2 : at % 2 + 1] * 200
