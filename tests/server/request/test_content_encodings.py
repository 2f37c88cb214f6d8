"""Precompressed variants: ``page.css.gz``, ``.br`` or ``.zst`` is sent for ``page.css`` if the client accepts it."""

from __future__ import annotations

import gzip
import os
import random
from typing import TYPE_CHECKING

import brotli  # type: ignore[import-untyped]
import pytest

from tests.support.nodes import RunningNode
from tests.support.waiting import wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.raw import Reply

PLAIN = b"p { color: teal }\n" * 500
FORMS = {
    None: PLAIN,
    "gzip": gzip.compress(PLAIN, mtime=0),
    "br": brotli.compress(PLAIN),
    "zstd": b"(\xb5/\xfd" + bytes(20),  # only its name and size matter to the server
}
SUFFIXES = {"gzip": ".gz", "br": ".br", "zstd": ".zst"}
MODIFIED_S = 1_700_000_000

LARGE = random.Random(5).randbytes(300_000)
LARGE_GZIP = random.Random(6).randbytes(200_000)


def write(path: Path, content: bytes, modified_s: float = MODIFIED_S) -> None:
    spare = path.with_name("spare")
    spare.write_bytes(content)
    os.utime(spare, (modified_s, modified_s))
    spare.replace(path)


def write_forms(root: Path, name: str, *codings: str) -> None:
    (root / name).parent.mkdir(exist_ok=True)
    write(root / name, PLAIN)
    for coding in codings:
        write(root / (name + SUFFIXES[coding]), FORMS[coding])


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("site")
    write_forms(root, "all.css", "gzip", "br", "zstd")
    write_forms(root, "gz.css", "gzip")
    write_forms(root, "none.css")
    write_forms(root, "dir/index.html", "gzip")
    write(root / "large.bin", LARGE)
    write(root / "large.bin.gz", LARGE_GZIP)
    return root


@pytest.fixture(scope="module")
def node(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningNode]:
    options = ("--cache-file-max", "64KB", "--cache-fresh", "50ms")
    with RunningNode(root, tmp_path_factory.mktemp("node"), *options) as node:
        yield node
        assert node.stderr[1:] == []


def coding_of(reply: Reply) -> str | None:
    """The coding of a response with one of the FORMS; its body must be the bytes of that form."""
    coding = reply.headers.get("content-encoding")
    assert (reply.status, reply.body) == (200, FORMS[coding])
    return coding


def asked_with(node: RunningNode, target: str, accept: str | None) -> Reply:
    return node.get(target, *(() if accept is None else (f"Accept-Encoding: {accept}",)))


@pytest.mark.parametrize(
    ("accept", "coding"),
    [
        (None, None),
        ("", None),
        ("identity", None),
        ("gzip", "gzip"),
        ("GZip", "gzip"),
        ("x-gzip", "gzip"),
        ("br", "br"),
        ("zstd", "zstd"),
        ("deflate", None),
        ("gzip, deflate, br, zstd", "zstd"),  # all alike: the smallest
        ("gzip, deflate, br", "br"),
        ("*", "zstd"),
        ("gzip;q=1.0, br;q=0.5", "gzip"),
        ("gzip;q=0.5, br;q=0.501, identity;q=0.1", "br"),
        ("br;q=0.5, identity;q=0.8", None),
        ("br;q=0.8, identity;q=0.8", "br"),
        ("gzip;q=0", None),
        ("gzip;q=0, *", "zstd"),
        ("zstd;q=0, *;q=0.1, identity;q=0", "br"),
        ("identity;q=0", None),  # nothing else is wanted either: better than nothing
        ("*;q=0", None),
        ("gzip;q=2", None),
        ("gzip;level=9", None),
        (";;, ,gzip", "gzip"),
    ],
)
def test_the_best_form_that_is_accepted(node: RunningNode, accept: str | None, coding: str | None) -> None:
    assert coding_of(asked_with(node, "/all.css", accept)) == coding
    assert coding_of(asked_with(node, "/all.css", accept)) == coding  # and the same when it is remembered


def test_lines_of_the_field_belong_together(node: RunningNode) -> None:
    assert coding_of(node.get("/all.css", "Accept-Encoding: gzip;q=0.1", "Accept-Encoding: br")) == "br"


def test_forms_share_the_type_and_differ_in_tag(node: RunningNode) -> None:
    replies = [asked_with(node, "/all.css", accept) for accept in (None, "gzip", "br", "zstd")]
    assert {reply.headers["content-type"] for reply in replies} == {"text/css; charset=utf-8"}
    assert {reply.headers["vary"] for reply in replies} == {"Accept-Encoding"}
    assert len({reply.headers["etag"] for reply in replies}) == 4
    assert gzip.decompress(replies[1].body) == brotli.decompress(replies[2].body) == replies[0].body
    assert [int(reply.headers["content-length"]) for reply in replies] == [len(form) for form in FORMS.values()]


def test_forms_of_equal_bytes_or_equal_size_and_time_differ_in_tag(node: RunningNode, root: Path) -> None:
    for name, content in (("same.txt", b"odd, but allowed"), ("same.bin", LARGE)):
        write(root / name, content)
        write(root / f"{name}.gz", content)
        assert node.get(f"/{name}").headers["etag"] != asked_with(node, f"/{name}", "gzip").headers["etag"]


def test_a_page_without_forms_does_not_vary(node: RunningNode) -> None:
    for accept in (None, "gzip, br, zstd"):
        reply = asked_with(node, "/none.css", accept)
        assert coding_of(reply) is None
        assert "vary" not in reply.headers


def test_some_forms_and_directories(node: RunningNode) -> None:
    assert coding_of(asked_with(node, "/gz.css", "br, gzip;q=0.1, identity;q=0")) == "gzip"
    assert coding_of(asked_with(node, "/gz.css", "br")) is None
    assert coding_of(asked_with(node, "/dir/", "gzip")) == "gzip"
    assert asked_with(node, "/dir/", "gzip").headers["content-type"] == "text/html; charset=utf-8"


def test_head_tells_of_the_same_form(node: RunningNode) -> None:
    reply = node.get("/all.css", "Accept-Encoding: br", method="HEAD")
    assert (reply.headers["content-encoding"], reply.headers["content-length"]) == ("br", str(len(FORMS["br"])))


def test_conditions_are_about_the_form(node: RunningNode) -> None:
    accept = "Accept-Encoding: gzip"
    plain, encoded = node.get("/all.css").headers["etag"], node.get("/all.css", accept).headers["etag"]
    reply = node.get("/all.css", accept, f"If-None-Match: {encoded}")
    assert (reply.status, reply.headers["etag"], reply.headers["vary"]) == (304, encoded, "Accept-Encoding")
    assert "content-encoding" not in reply.headers
    assert node.get("/all.css", accept, f"If-None-Match: {plain}").status == 200
    assert node.get("/all.css", f"If-None-Match: {encoded}").status == 200
    assert node.get("/all.css", f"If-None-Match: {plain}").status == 304
    assert node.get("/all.css", accept, f"If-Match: {plain}").status == 412


@pytest.mark.parametrize(
    ("target", "plain", "encoded"),
    [("/gz.css", PLAIN, FORMS["gzip"]), ("/large.bin", LARGE, LARGE_GZIP)],
    ids=["in memory", "on disk"],
)
def test_ranges_are_of_the_form(node: RunningNode, target: str, plain: bytes, encoded: bytes) -> None:
    accept = "Accept-Encoding: gzip"
    assert node.get(target, accept).body == encoded
    size = len(encoded)
    for value, part in (("10-19", encoded[10:20]), ("-7", encoded[-7:]), ("1-", encoded[1:])):
        reply = node.get(target, accept, f"Range: bytes={value}")
        assert (reply.status, reply.body, reply.headers["content-encoding"]) == (206, part, "gzip")
        assert reply.headers["vary"] == "Accept-Encoding"
        assert reply.headers["content-range"].endswith(f"/{size}")
    assert node.get(target, accept, f"Range: bytes={size}-").headers["content-range"] == f"bytes */{size}"
    assert node.get(target, f"Range: bytes={size}-").body == plain[size:]
    plain_tag = node.get(target).headers["etag"]
    assert node.get(target, accept, "Range: bytes=0-9", f"If-Range: {plain_tag}").body == encoded


def test_a_form_asked_for_by_name_is_a_file_like_any_other(node: RunningNode) -> None:
    for suffix, kind in ((".gz", "application/gzip"), (".br", "application/x-brotli"), (".zst", "application/zstd")):
        reply = node.get(f"/all.css{suffix}", "Accept-Encoding: gzip, br, zstd")
        assert (reply.status, reply.headers["content-type"]) == (200, kind)
        assert "content-encoding" not in reply.headers
        assert reply.body in FORMS.values()


def test_a_form_without_its_page_is_no_page(node: RunningNode, root: Path) -> None:
    write(root / "lonely.css.gz", FORMS["gzip"])
    assert node.get("/lonely.css", "Accept-Encoding: gzip").status == 404


def test_a_form_older_than_its_page_is_not_sent(node: RunningNode, root: Path) -> None:
    write_forms(root, "aging.css", "gzip", "br")
    write(root / "aging.css.br", FORMS["br"], MODIFIED_S - 0.001)
    assert coding_of(asked_with(node, "/aging.css", "br, gzip")) == "gzip"
    write(root / "aging.css", PLAIN, MODIFIED_S + 1)
    wait_for(lambda: coding_of(asked_with(node, "/aging.css", "br, gzip")) is None, "the page to be alone")
    assert "vary" not in asked_with(node, "/aging.css", "gzip").headers
    write(root / "aging.css.gz", FORMS["gzip"], MODIFIED_S + 1)
    wait_for(lambda: coding_of(asked_with(node, "/aging.css", "br, gzip")) == "gzip", "the new form")


def test_a_form_that_comes_and_goes(node: RunningNode, root: Path) -> None:
    write_forms(root, "some.css")
    form = root / "some.css.gz"
    for _ in range(2):
        assert coding_of(asked_with(node, "/some.css", "gzip")) is None
        write(form, FORMS["gzip"])
        wait_for(lambda: coding_of(asked_with(node, "/some.css", "gzip")) == "gzip", "the form to be found")
        form.unlink()
        wait_for(lambda: coding_of(asked_with(node, "/some.css", "gzip")) is None, "the form to be gone")


def test_a_settled_page_notices_a_new_form(node: RunningNode, root: Path) -> None:
    """A page that has not changed for a while is checked, not read: its variants are checked, too."""
    write_forms(root, "settled.css")
    asked_with(node, "/settled.css", "gzip")

    def is_settled() -> bool:
        before = node.metric("qosweb_cache_misses_total")
        node.get("/settled.css")
        return node.metric("qosweb_cache_misses_total") == before

    wait_for(is_settled, "the page to settle")
    write(root / "settled.css.br", FORMS["br"])
    wait_for(lambda: coding_of(asked_with(node, "/settled.css", "br")) == "br", "the form to be found")
