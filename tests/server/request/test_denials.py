"""Denials: 429 for a limit on the client, 503 for all other reasons, each with its reason."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.clusters import KIB, make_site
from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.raw import Reply

pytestmark = pytest.mark.timing

SPEC = """\
set lifetime = 300ms
set channel = 1MB in 1s
client in 127.0.0.2/32 => </a>.num_requests < 2
cookie("plan") = "free" => </a>.num_bytes < 2KB/s
</b>.num_requests < 2
"""
CROWD = 12
LATE = "denied; reason=lifetime"


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    folder = tmp_path_factory.mktemp("denials")
    site = make_site(folder / "site", {"a": KIB, "b": KIB, "c": KIB * KIB})
    (folder / "site.webqos").write_text(SPEC)
    with RunningNode(site, folder, "--spec", str(folder / "site.webqos"), "--capacity", "2MB/s") as node:
        yield node


def crowd(node: RunningNode, target: str, *fields: str, source: str = "127.0.0.1") -> list[Reply]:
    """The responses to some concurrent requests."""
    with ExitStack() as stack:
        clients = [stack.enter_context(RawConnection(node.port, source=source)) for _ in range(CROWD)]
        head = "".join(f"{field}\r\n" for field in fields)
        for client in clients:
            client.send(f"GET {target} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode())
        return [client.read_reply() for client in clients]


def decision(reply: Reply) -> str:
    return reply.headers["qos-decision"]


def denied(replies: list[Reply], reason: str, status: int) -> list[Reply]:
    """The denials with this reason. On a slow machine others may have expired first."""
    assert {decision(reply) for reply in replies} - {LATE} == {"served", f"denied; reason={reason}"}
    found = [reply for reply in replies if decision(reply) == f"denied; reason={reason}"]
    assert {reply.status for reply in found} == {status}
    assert all(int(reply.headers["retry-after"]) >= 1 and reply.headers["qos-class"] for reply in found)
    return found


@pytest.mark.parametrize(
    ("fields", "source", "bound"),
    [
        ((), "127.0.0.2", "client in 127.0.0.2/32 =&gt; &lt;/a&gt;.num_requests &lt; 2"),
        (("Cookie: plan=free",), "127.0.0.1", "&lt;/a&gt;.num_bytes &lt;"),
    ],
    ids=["address", "cookie"],
)
def test_a_client_limit_is_429(node: RunningNode, fields: tuple[str, ...], source: str, bound: str) -> None:
    for reply in denied(crowd(node, "/a/page", *fields, source=source), "client_bound", 429):
        assert bound in reply.body.decode()


def test_a_client_limit_does_not_affect_others(node: RunningNode) -> None:
    assert {decision(reply) for reply in crowd(node, "/a/page")} - {LATE} == {"served"}


def test_a_limit_on_pages_is_503(node: RunningNode) -> None:
    for reply in denied(crowd(node, "/b/page", source="127.0.0.2"), "bound", 503):
        assert "over a bound (&lt;/b&gt;.num_requests &lt; 2)" in reply.body.decode()


def test_lack_of_capacity_is_503(node: RunningNode) -> None:
    assert node.get("/c/page").status == 200  # from now on the node knows what a request of this class costs
    replies = crowd(node, "/c/page", source="127.0.0.2")
    for reply in denied(replies, "cannot_be_reached", 503):
        assert "is over its share" in reply.body.decode()
    for reply in replies:
        if decision(reply) == LATE:
            assert reply.status == 503
            assert "waited for the whole lifetime" in reply.body.decode()


def test_the_log_has_the_reason_of_each_denial(node: RunningNode) -> None:
    replies = crowd(node, "/a/page", "Cookie: plan=free") + crowd(node, "/b/page")

    def lines() -> list[dict[str, Any]]:
        return [line for line in node.log() if line["decision"] in ("denied", "expired")]

    wait_for(lambda: len(lines()) >= sum(decision(reply) != "served" for reply in replies), "all denials in the log")
    assert all(line.get("reason") for line in lines())
    assert {"client_bound", "bound"} <= {line["reason"] for line in lines()}
    expired = {line["reason"] for line in lines() if line["decision"] == "expired"}
    assert expired <= {"lifetime", "bound", "client_bound"}  # a bound may have held it up
    assert not any("reason" in line for line in node.log() if line["decision"] == "served")
