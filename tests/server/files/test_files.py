"""Static files over the wire: which path gets which file; media types, directories, names, methods."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.support.nodes import RunningNode
from tests.support.raw import RawConnection, Reply

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SECRET = b"SECRET: outside of the root\n"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``house/site`` is served; files next to it must not be."""
    house = tmp_path_factory.mktemp("house")
    root = house / "site"
    (root / "dir" / "sub").mkdir(parents=True)
    (root / "empty").mkdir()
    (house / "outside").mkdir()
    for secret in (house / "secret.txt", house / "outside" / "index.html", root / ".hidden", root / "dir" / ".env"):
        secret.write_bytes(SECRET)
    for name in ("index.html", "dir/index.html", "dir/a.txt", "A.txt", "a b.txt", "café.txt", "100%.txt", "q?.txt"):
        (root / name).write_text(name)
    (root / ".well-known").mkdir()
    (root / ".well-known" / "security.txt").write_text("contact")
    (root / ".well-known" / ".hidden").write_bytes(SECRET)
    (root / "dir" / ".well-known").mkdir()
    (root / "dir" / ".well-known" / "x.txt").write_bytes(SECRET)
    return root


@pytest.fixture(scope="module")
def node(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    with RunningNode(root, tmp_path_factory.mktemp("node"), "--cache-fresh", "0", "--cache-file-max", "64KB") as node:
        yield node
        assert node.stderr[1:] == []


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("t.html", "text/html; charset=utf-8"),
        ("t.HTML", "text/html; charset=utf-8"),
        ("t.css", "text/css; charset=utf-8"),
        ("t.js", "text/javascript; charset=utf-8"),
        ("t.txt", "text/plain; charset=utf-8"),
        ("t.json", "application/json"),
        ("t.svg", "image/svg+xml"),
        ("t.png", "image/png"),
        ("t.woff2", "font/woff2"),
        ("t.wasm", "application/wasm"),
        ("t.tar.gz", "application/gzip"),
        ("t.unheard-of", "application/octet-stream"),
        ("t", "application/octet-stream"),
    ],
)
def test_content_types(node: RunningNode, root: Path, name: str, kind: str) -> None:
    (root / name).write_text("x")
    reply = node.get(f"/{name}")
    assert (reply.status, reply.headers["content-type"]) == (200, kind)
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("/", "index.html"),
        ("/?a=b", "index.html"),
        ("/index.html", "index.html"),
        ("/dir/", "dir/index.html"),
        ("/dir/a.txt?b=/../c", "dir/a.txt"),
        ("//dir//a.txt", "dir/a.txt"),
        ("http://localhost/dir/a.txt", "dir/a.txt"),
        ("/A.txt", "A.txt"),
        ("/%41.txt", "A.txt"),
        ("/%41%2e%74xt", "A.txt"),
        ("/a%20b.txt", "a b.txt"),
        ("/caf%C3%A9.txt", "café.txt"),
        ("/caf%c3%a9.txt", "café.txt"),
        ("/100%25.txt", "100%.txt"),
        ("/q%3F.txt", "q?.txt"),
    ],
)
def test_a_path_names_a_file(node: RunningNode, target: str, name: str) -> None:
    reply = node.get(target)
    assert (reply.status, reply.body.decode()) == (200, name)


def test_a_name_that_is_not_utf_8(node: RunningNode, root: Path) -> None:
    (root / os.fsdecode(b"\xff\xe9.txt")).write_text("odd")
    assert node.get("/%FF%E9.txt").body == b"odd"
    assert node.get("/%C3%BF%C3%A9.txt").status == 404


def test_names_are_utf_8_whatever_the_locale(root: Path, tmp_path: Path) -> None:
    plain_ascii = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with RunningNode(root, tmp_path, env=plain_ascii) as node:
        assert node.get("/caf%C3%A9.txt").body.decode() == "café.txt"
        assert node.get("/caf%C3%AA.txt").status == 404


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("/dir", "/dir/"),
        ("/dir?a=b&c=%2F", "/dir/?a=b&c=%2F"),
        ("/dir?", "/dir/"),
        ("/dir/sub", "/dir/sub/"),
        ("//dir", "/dir/"),
        ("/%64ir", "/dir/"),
        ("http://other.example/dir?x", "/dir/?x"),
    ],
)
def test_a_directory_is_redirected_to_its_slash(node: RunningNode, target: str, location: str) -> None:
    reply = node.get(target)
    assert (reply.status, reply.headers["location"]) == (301, location)


def test_a_redirect_never_leads_elsewhere(node: RunningNode, root: Path) -> None:
    (root / "evil.example" / "x").mkdir(parents=True)
    for target in (b"//evil.example/x", b"///evil.example/x", b"//evil.example//x", b"////evil.example/x"):
        assert b"\r\nLocation: /evil.example/x/\r\n" in node.answer(target)
    for target in (b"/\\evil.example/x", b"/%5cevil.example/x", b"/%2fevil.example/x", b"\\\\evil.example/x"):
        reply = node.answer(target)
        assert reply.startswith(b"HTTP/1.1 400 ")
        assert b"Location" not in reply


@pytest.mark.parametrize(
    "target",
    [
        "/nothing",
        "/nothing/",
        "/empty/",  # no index, and no directory listing
        "/dir/sub/",
        "/A.txt/",  # a file is no directory
        "/A.txt/index.html",
        "/index.html/",
        "/a.txt",  # no case folding
        "/" + "x" * 255,
        "/" + "x" * 256,
        "/" + "x/" * 2000,
        "/.hidden",
        "/%2ehidden",
        "/dir/.env",
        "/.well-known/.hidden",
        "/dir/.well-known/x.txt",
    ],
)
def test_missing_and_hidden_files_look_alike(node: RunningNode, target: str) -> None:
    reply = node.get(target)
    assert (reply.status, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert b"no such page" in reply.body


def test_well_known_is_not_hidden(node: RunningNode) -> None:
    assert node.get("/.well-known/security.txt").body == b"contact"


def without_date(reply: Reply) -> list[bytes]:
    return [line for line in reply.raw_head.split(b"\r\n") if not line.startswith(b"Date:")]


@pytest.mark.parametrize(
    ("target", "fields", "status"),
    [
        ("/A.txt", (), 200),
        ("/dir/", ("Accept-Encoding: gzip",), 200),
        ("/large.bin", (), 200),
        ("/A.txt", ("If-None-Match: *",), 304),
        ("/A.txt", ('If-Match: "other"',), 412),
        ("/dir", (), 301),
        ("/nothing", (), 404),
        ("/../", (), 400),
        ("/A.txt", ("Expect: miracles",), 417),
    ],
)
def test_head_is_get_without_the_body(
    node: RunningNode, root: Path, target: str, fields: tuple[str, ...], status: int
) -> None:
    (root / "large.bin").write_bytes(bytes(200_000))
    os.utime(root / "large.bin", (10**9, 10**9))
    full = node.get(target, *fields)
    with node.connect() as connection:
        head = connection.get(target, *fields, method="HEAD")
        assert full.status == status
        assert without_date(head) == without_date(full)
        if head.headers.get("connection") != "close":
            assert connection.get("/A.txt").body == b"A.txt"  # nothing came after the head


def test_options(node: RunningNode) -> None:
    with node.connect() as connection:
        for target in ("*", "/", "/A.txt", "/nothing"):
            reply = connection.get(target, method="OPTIONS")
            assert (reply.status, reply.headers["allow"]) == (204, "GET, HEAD, OPTIONS")
            assert "content-length" not in reply.headers
        assert connection.get("*").status == 400  # only OPTIONS may ask for the server as a whole


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH", "TRACE", "PROPFIND", "MKCOL", "M-SEARCH"])
def test_other_methods_are_not_allowed(node: RunningNode, method: str) -> None:
    with node.connect() as connection:
        reply = connection.get("/A.txt", method=method)
        assert (reply.status, reply.headers["allow"]) == (405, "GET, HEAD, OPTIONS")
        assert connection.get("/A.txt").status == 200


def test_a_method_with_a_body_changes_nothing(node: RunningNode, root: Path) -> None:
    with RawConnection(node.port) as connection:
        connection.send(b"PUT /A.txt HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nnew")
        assert connection.read_reply().status == 405
        assert connection.is_closed()
    assert (root / "A.txt").read_text() == "A.txt"
