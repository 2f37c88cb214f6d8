"""Error responses: HTML, JSON for clients that prefer it, or the pages of ``--error-pages``."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack
from signal import Signals
from typing import TYPE_CHECKING

import pytest

from qosweb.errors import UsageError
from qosweb.server.request.error_pages import PAGE_LEN_MAX, ErrorPages
from tests.support.misbehaving import free_port
from tests.support.nodes import RunningNode, run_command
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.raw import Reply

JSON = "Accept: application/json"
OWN_404 = "<h1>Nothing at this address: é</h1>\n"
OWN_5XX = "<h1>Our fault</h1>\n"
HTML_FIELD = "text/html; charset=utf-8"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("errors")
    (folder / "site" / "folder").mkdir(parents=True)
    (folder / "site" / "folder" / "index.html").write_text("index")
    (folder / "site" / "page.txt").write_text("page")
    (folder / "pages").mkdir()
    (folder / "pages" / "404.html").write_text(OWN_404)
    (folder / "pages" / "5xx.html").write_text(OWN_5XX)
    (folder / "pages" / "style.css").write_text("h1 {}")
    (folder / "site.webqos").write_text("set lifetime = 300ms\n</denied>.num_requests < 1\n")
    return folder


@pytest.fixture(scope="module")
def node(folder: Path) -> Iterator[RunningNode]:
    options = ("--spec", str(folder / "site.webqos"), "--upstream", f"http://127.0.0.1:{free_port()}")
    with RunningNode(folder / "site", folder, "--error-pages", str(folder / "pages"), *options) as started:
        yield started


@pytest.fixture(scope="module")
def files(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    """A node with the same error pages, but without another server."""
    with RunningNode(
        folder / "site", tmp_path_factory.mktemp("files"), "--error-pages", str(folder / "pages")
    ) as started:
        yield started


def check(reply: Reply, status: int, media_type: str) -> None:
    assert (reply.status, reply.headers["content-type"], reply.headers["vary"]) == (status, media_type, "Accept")


def test_json_for_those_who_prefer_it(files: RunningNode) -> None:
    reply = files.get("/page.txt", JSON, method="DELETE")
    check(reply, 405, "application/json")
    assert json.loads(reply.body) == {
        "status": 405,
        "title": "Method Not Allowed",
        "detail": "DELETE is not allowed here.",
    }
    assert reply.headers["allow"] == "GET, HEAD, OPTIONS"
    check(files.get("/missing", "Accept: application/problem+json"), 404, "application/problem+json")
    plain = files.get("/page.txt", "Accept: text/html, application/json;q=0.9", method="DELETE")
    check(plain, 405, HTML_FIELD)
    assert b"DELETE is not allowed here." in plain.body


def test_own_pages(files: RunningNode, node: RunningNode) -> None:
    missing = files.get("/missing")
    check(missing, 404, HTML_FIELD)
    assert missing.body.decode() == OWN_404
    unreachable = node.get("/elsewhere")
    check(unreachable, 502, HTML_FIELD)
    assert unreachable.body.decode() == OWN_5XX
    assert (unreachable.headers["qos-decision"], unreachable.headers["qos-class"]) == ("failed", "default")
    assert "vary" not in files.get("/folder").headers  # a redirect
    assert b"<h1>" in files.get("/page.txt", method="DELETE").body  # 405 has no page of its own


@pytest.mark.parametrize("accept", [JSON, "Accept: */*"])
def test_head_has_the_fields_of_get(files: RunningNode, accept: str) -> None:
    with files.connect() as connection:
        head = connection.get("/missing", accept, method="HEAD")
        get = connection.get("/missing", accept)
    assert {**head.headers, "date": ""} == {**get.headers, "date": ""}
    assert int(head.headers["content-length"]) == len(get.body)


def test_denials_keep_their_fields(node: RunningNode) -> None:
    """Of concurrent requests for a page under a bound some are denied."""
    with ExitStack() as stack:
        connections = [stack.enter_context(node.connect()) for _ in range(8)]
        for at, connection in enumerate(connections):
            accept = f"{JSON}\r\n" if at % 2 else ""
            connection.send(f"GET /denied HTTP/1.1\r\nHost: localhost\r\n{accept}\r\n".encode())
        replies = [connection.read_reply() for connection in connections]
    denied = [reply for reply in replies if reply.headers["qos-decision"].startswith("denied; reason=")]
    assert {reply.headers["content-type"] for reply in denied} == {"application/json", HTML_FIELD}
    for reply in denied:
        assert reply.status == 503
        assert int(reply.headers["retry-after"]) >= 1
        assert reply.headers["qos-class"]
        if reply.headers["content-type"] == HTML_FIELD:
            assert reply.body.decode() == OWN_5XX
        else:
            assert json.loads(reply.body)["detail"].startswith("The request was not served.")


def test_malformed_requests_get_the_page_too(folder: Path, tmp_path: Path) -> None:
    pages = tmp_path / "pages"
    pages.mkdir()
    (pages / "4xx.html").write_text("four")
    with RunningNode(folder / "site", tmp_path, "--error-pages", str(pages)) as node:
        with node.connect() as connection:
            connection.send(b"nonsense\r\n\r\n")
            reply = connection.read_reply()
            assert (reply.status, reply.body, reply.headers["connection"]) == (400, b"four", "close")
        with node.connect() as connection:
            connection.send(b"HEAD / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n")
            reply = connection.read_reply(head_only=True)
            assert (reply.status, reply.headers["content-length"]) == (400, "4")
            assert connection.is_closed()
        assert node.get("/missing").body == b"four"
        (pages / "404.html").write_text("new")
        node.kill(Signals.SIGHUP)
        wait_for(lambda: node.get("/missing").body == b"new", "the new page")
        (pages / "40x.html").write_text("wrong")
        node.kill(Signals.SIGHUP)
        wait_for(lambda: any("40x.html" in line for line in node.stderr), "the message")
        assert node.get("/missing").body == b"new"


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("notfound.html", b"x", "not the name of a status, such as 404.html or 5xx.html"),
        ("302.html", b"x", "not the name of a status"),
        ("404.html", b"", "the file is empty"),
        ("404.html", b"\xff", "not UTF-8"),
        ("404.html", b"x" * (PAGE_LEN_MAX + 1), "larger than 256 KB"),
        ("404.txt", b"x", "has no page; name pages 404.html"),
    ],
)
def test_bad_pages_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message):
        ErrorPages(tmp_path)


def test_bad_folders_are_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no such folder"):
        ErrorPages(tmp_path / "none")
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="not a folder"):
        ErrorPages(tmp_path / "file")
    os.mkfifo(tmp_path / "503.html")
    with pytest.raises(UsageError, match=r"503\.html: not a file"):
        ErrorPages(tmp_path)
    ended = run_command("serve", "--root", str(tmp_path), "--error-pages", str(tmp_path / "none"))
    assert (ended.returncode, ended.stderr.count("\n")) == (2, 1)
