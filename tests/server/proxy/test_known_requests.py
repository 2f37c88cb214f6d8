"""Request heads that repeat are not parsed again, and mean the same: class, fields, file and policy still count."""

from __future__ import annotations

from signal import Signals
from typing import TYPE_CHECKING

from tests.support.misbehaving import MisbehavingServer, Talk
from tests.support.nodes import RunningNode, run_command
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.raw import Reply

SPEC = "</a>.available = always\n</b>.server_resource > 10%\n"


def tell_head(talk: Talk) -> None:
    talk.send(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(talk.head) + talk.head)


def lines_of(reply: Reply) -> list[bytes]:
    """The request as the server got it, without its id."""
    return [line for line in reply.body.split(b"\r\n") if not line.startswith(b"X-Request-Id")]


def test_a_repeated_head_gives_the_same_request(tmp_path: Path) -> None:
    (tmp_path / "spec.webqos").write_text(SPEC)
    with (
        MisbehavingServer(tell_head) as server,
        RunningNode(None, tmp_path, "--upstream", server.url, "--spec", str(tmp_path / "spec.webqos")) as node,
        node.connect() as connection,
    ):
        for target in ("/a", "/b?x=1", "//a", "/other"):
            replies = [connection.get(target, "Cookie: k=v", "Connection: X-Hop", "X-Hop: 1") for _ in range(5)]
            assert {tuple(lines_of(reply)) for reply in replies} == {tuple(lines_of(replies[0]))}
            assert {reply.headers["qos-class"] for reply in replies} == {replies[0].headers["qos-class"]}
            assert len({reply.headers["x-request-id"] for reply in replies}) == 5
        lines = wait_for(lambda: node.log() if len(node.log()) == 20 else None, "all lines")
        assert [line["path"] for line in lines[::5]] == ["/a", "/b", "/a", "/other"]
        assert {line["class"] for line in lines[:5]} == {connection.get("/a").headers["qos-class"]}


def test_a_file_that_appears_and_a_policy_that_changes_count(tmp_path: Path) -> None:
    site, spec = tmp_path / "site", tmp_path / "spec.webqos"
    site.mkdir()
    spec.write_text(SPEC)
    with (
        MisbehavingServer(tell_head) as server,
        RunningNode(site, tmp_path, "--upstream", server.url, "--spec", str(spec), "--cache-fresh", "0.1s") as node,
        node.connect() as connection,
    ):
        for _ in range(5):
            before = connection.get("/b")
            assert before.body.startswith(b"GET /b ")
        spec.write_text("</a>.available = always\n")
        node.kill(Signals.SIGHUP)
        wait_for(lambda: connection.get("/b").headers["qos-class"] != before.headers["qos-class"] or None, "the policy")
        (site / "b").write_text("a file")
        wait_for(lambda: connection.get("/b").body == b"a file" or None, "the file")


def test_the_block_list_counts_for_heads_that_are_known(tmp_path: Path) -> None:
    with (
        MisbehavingServer(tell_head) as server,
        RunningNode(None, tmp_path, "--upstream", server.url) as node,
        node.connect() as connection,
    ):
        for _ in range(5):
            assert connection.get("/a").status == 200
        words = ("127.0.0.1", "--path", "/a", "--force", "--admin", f"127.0.0.1:{node.admin_port}")
        blocked = run_command("block", *words)
        assert blocked.returncode == 0, blocked.stderr
        wait_for(lambda: connection.get("/a").status == 403 or None, "the block")
        assert connection.get("/b").status == 200


def test_a_file_that_a_release_brings_counts(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "a.txt").write_text("file a")
    options = ("--site", "--data-dir", str(tmp_path / "data"), "--cache-fresh", "10s")
    with (
        MisbehavingServer(tell_head) as server,
        RunningNode(None, tmp_path, "--upstream", server.url, *options) as node,
        node.connect() as connection,
    ):

        def publish() -> None:
            done = run_command("publish", str(site), "--admin", f"127.0.0.1:{node.admin_port}")
            assert done.returncode == 0, done.stderr

        publish()
        for fields in ((), ("Cookie: qosweb-release=1",), ("QoSweb-Release: 1",)):
            for _ in range(5):
                assert connection.get("/b.txt", *fields).body.startswith(b"GET /b.txt ")
                assert connection.get("/a.txt", *fields).body == b"file a"
        (site / "b.txt").write_text("file b")
        publish()
        for _ in range(5):
            assert connection.get("/b.txt").body == b"file b"
            # the page of this client is of the first release, which has no such file
            assert connection.get("/b.txt", "Sec-Fetch-Mode: no-cors", "QoSweb-Release: 1").body.startswith(b"GET ")
