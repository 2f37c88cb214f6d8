"""Closing: the last response arrives completely, whatever the client still sends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGE = os.urandom(600_000)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    scratch: Path = tmp_path_factory.mktemp("closing")
    (scratch / "site").mkdir()
    (scratch / "site" / "page.bin").write_bytes(PAGE)
    with RunningNode(scratch / "site", scratch) as running:
        yield running


@pytest.mark.parametrize("turn", range(10))
def test_9112_9_6_the_last_answer_survives_what_is_sent_after_it(node: RunningNode, turn: int) -> None:
    """A socket closed with unread data sends a reset, which destroys the response; so it is closed in stages."""
    del turn
    with node.connect() as connection:
        more = b"GET /page.bin HTTP/1.1\r\nHost: localhost\r\n\r\n" * 4000
        connection.send(b"GET /page.bin HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" + more)
        reply = connection.read_reply()
        assert reply.body == PAGE
        assert reply.headers["connection"] == "close"
        assert connection.is_closed()


@pytest.mark.parametrize("head", [b"HEAD  /page.bin HTTP/1.1\r\n", b"HEAD /page.bin HTTP/1.1\r\nbad line\r\n"])
def test_9110_9_3_2_a_refused_head_request_gets_no_body(node: RunningNode, head: bytes) -> None:
    with node.connect() as connection:
        connection.send(head + b"\r\n")
        assert connection.read_reply(head_only=True).status == 400
        assert connection.read_to_end() == b""
