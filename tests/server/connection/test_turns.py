"""Requests of a node whose processor is full: each gets its response, in order, and the log tells that it waited."""

from __future__ import annotations

import json
import socket
from typing import TYPE_CHECKING

from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

SPEC = "set lifetime = 30s\n</a>.server_resource = 70%\n</b>.server_resource = 30%\n"
CLIENTS, PIPELINED = 24, 50


def test_pipelined_requests_beyond_the_processor_wait_for_their_turns_and_keep_their_order(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / "site" / name).mkdir(parents=True)
        (tmp_path / "site" / name / "page").write_bytes(name.encode() * 200)
    (tmp_path / "spec.webqos").write_text(SPEC)
    with RunningNode(tmp_path / "site", tmp_path, "--spec", str(tmp_path / "spec.webqos"), "--find-processor") as node:
        clients = [socket.create_connection(("127.0.0.1", node.port), 30) for _ in range(CLIENTS)]

        def is_full() -> bool:
            for client in clients:
                client.sendall(b"".join(request("ab"[at % 2]) for at in range(PIPELINED)))
            for client in clients:
                read_in_order(client)
            return bool(json.loads(node.admin("/status"))["capacity"]["processor"]["times_full"])

        wait_for(is_full, "a full processor", 60)
        for client in clients:
            client.close()
        wait_for(lambda: any(one.get("queue_ms", 0) > 0 for one in node.log_lines()), "a logged wait")
        assert {one["decision"] for one in node.log_lines() if "decision" in one} == {"served"}


def request(name: str) -> bytes:
    return f"GET /{name}/page HTTP/1.1\r\nHost: x\r\n\r\n".encode()


def read_in_order(client: socket.socket) -> None:
    reader = client.makefile("rb")
    for at in range(PIPELINED):
        assert reader.readline() == b"HTTP/1.1 200 OK\r\n"
        while reader.readline() != b"\r\n":
            pass
        assert reader.read(200) == b"ab"[at % 2 : at % 2 + 1] * 200
