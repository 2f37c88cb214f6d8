"""RFC 9112 section 3.2: what targets mean. What must not get through is in test_target_tricks."""

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.http.targets import BadTarget, RequestTarget, parse_target
from tests.http.wire import wire_text


def refusal(raw: str) -> int:
    with pytest.raises(BadTarget) as refused:
        parse_target(raw)
    assert refused.value.reason
    return refused.value.status


@pytest.mark.parametrize(
    ("raw", "segments", "is_directory"),
    [
        ("/", (), True),
        ("/index.html", ("index.html",), False),
        ("/a/b/c.txt", ("a", "b", "c.txt"), False),
        ("/a/b/", ("a", "b"), True),
        ("/a%20b", ("a b",), False),
        ("/%41%2dB", ("A-B",), False),
        ("/caf%C3%A9", ("caf\u00e9",), False),
        ("/caf%E9", ("caf\udce9",), False),  # Latin-1: a possible file name, though not UTF-8
        ("/100%25", ("100%",), False),
        ("/a+b", ("a+b",), False),  # a plus is a space in forms only
        ("/what%3F", ("what?",), False),
        ("/c%23", ("c#",), False),
        ("/a:b@c;d=e,f!$&'()*~_-", ("a:b@c;d=e,f!$&'()*~_-",), False),
        ('/{a}|^`"<>[]', ('{a}|^`"<>[]',), False),
        ("/trailing.", ("trailing.",), False),
        ("/a..b", ("a..b",), False),
        ("/a../b", ("a..", "b"), False),
    ],
)
def test_9112_3_2_1_origin_form(raw: str, segments: tuple[str, ...], is_directory: bool) -> None:
    assert parse_target(raw) == RequestTarget(segments, is_directory, "", None, raw)


@pytest.mark.parametrize(
    ("raw", "path", "query"),
    [
        ("/a?", "/a", ""),
        ("/a?b=c", "/a", "b=c"),
        ("/a/?b", "/a/", "b"),
        ("/?", "/", ""),
        ("/a?b?c", "/a", "b?c"),
        ("/a?/../..\\%2F%5c%zz%", "/a", "/../..\\%2F%5c%zz%"),  # a query is opaque here
        ("/a?%00", "/a", "%00"),
    ],
)
def test_3986_3_4_the_query_follows_the_first_question_mark(raw: str, path: str, query: str) -> None:
    target = parse_target(raw)
    assert (target.path, target.query) == (path, query)


@pytest.mark.parametrize(
    ("raw", "path", "query", "authority"),
    [
        ("http://www.example.org/pub/WWW/TheProject.html", "/pub/WWW/TheProject.html", "", "www.example.org"),
        ("https://example.org/", "/", "", "example.org"),
        ("HTTP://EXAMPLE.org/A", "/A", "", "example.org"),
        ("http://example.org", "/", "", "example.org"),
        ("http://example.org?a=b", "/", "a=b", "example.org"),
        ("http://example.org:8080/a", "/a", "", "example.org:8080"),
        ("http://example.org:/a", "/a", "", "example.org"),
        ("http://[::1]:8080/a/", "/a/", "", "[::1]:8080"),
        ("http://example.org//a", "/a", "", "example.org"),
        ("http://example.org/a@b", "/a@b", "", "example.org"),
        ("http://example.org/http://other/", "/http:/other/", "", "example.org"),
    ],
)
def test_9112_3_2_2_absolute_form(raw: str, path: str, query: str, authority: str) -> None:
    target = parse_target(raw)
    assert (target.path, target.query, target.authority) == (path, query, authority)


@pytest.mark.parametrize("raw", ["", "*", "example.org:443", "example.org", "a/b", "?a", "http:", "http:/", "://x/"])
def test_9112_3_2_other_forms_are_refused(raw: str) -> None:
    assert refusal(raw) == 400


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("//", "/"),
        ("/a//b", "/a/b"),
        ("/a///", "/a/"),
        ("///a", "/a"),
        ("//example.org/a", "/example.org/a"),  # never an authority
    ],
)
def test_repeated_slashes_collapse(raw: str, path: str) -> None:
    assert parse_target(raw).path == path


@pytest.mark.parametrize(
    ("raw", "escaped"),
    [
        ("/", "/"),
        ("//evil.example/x", "/evil.example/x"),
        ("/a%20b/", "/a%20b/"),
        ("/%61", "/a"),
        ("/caf%c3%a9", "/caf%C3%A9"),
        ("/%ff", "/%FF"),
        ("/%252e", "/%252e"),
        ("/a%3Fb%23c", "/a%3Fb%23c"),
        ("/{}", "/%7B%7D"),
        ("/a;b=c:d@e", "/a;b=c:d@e"),
    ],
)
def test_escaped_path_is_fit_for_location(raw: str, escaped: str) -> None:
    assert parse_target(raw).escaped_path == escaped


@pytest.mark.parametrize("raw", ["/.well-known", "/.well-known/", "/.well-known/acme-challenge/x", "//.well-known"])
def test_8615_well_known_is_not_hidden(raw: str) -> None:
    assert parse_target(raw).segments[0] == ".well-known"


@pytest.mark.parametrize(
    "raw",
    [
        "/.git/config",
        "/.env",
        "/a/.htaccess",
        "/%2egit/config",
        "/.well-known/.git",
        "/a/.well-known/x",
        "/.well-known2",
        "/.WELL-KNOWN/x",
        "/...",
        "/.a/",
    ],
)
def test_hidden_files_are_not_found(raw: str) -> None:
    assert refusal(raw) == 404


def test_a_400_comes_before_a_404() -> None:
    assert refusal("/.git/../a") == 400
    assert refusal("/" + "a" * 300 + "/..") == 400
    assert refusal("/.git%00") == 400


@pytest.mark.parametrize("character", ["a", "%20", "%C3%A9", "%FF"])
def test_a_segment_has_at_most_255_bytes(character: str) -> None:
    size = 2 if character == "%C3%A9" else 1
    most = 255 // size
    assert len(os.fsencode(parse_target("/" + character * most).path)) == 1 + most * size
    assert refusal("/" + character * (most + 1)) == 404
    assert refusal("/a/" + character * (most + 1) + "/b") == 404


def test_a_path_has_at_most_4096_bytes() -> None:
    segments = "/" + "a" * 127  # 32 of them are 4096 bytes
    assert len(parse_target(segments * 32).path) == 4096
    assert refusal(segments * 32 + "/") == 404
    assert refusal(segments * 32 + "/b") == 404
    assert parse_target("/" * 10_000 + "a").path == "/a"


def test_a_refusal_says_why() -> None:
    refused = BadTarget(404, "hidden file")
    assert (refused.status, refused.reason) == (404, "hidden file")
    assert "hidden file" in str(refused)


LIKELY = "/ . .. // % %2e %2F %5c %00 %C0%AE %zz \\ ; a index.html .well-known ? # http:// https:// a.example : @"


@given(wire_text(LIKELY) | wire_text(LIKELY).map("/{}".format))
def test_garbage_is_refused_or_canonical(raw: str) -> None:
    try:
        target = parse_target(raw)
    except BadTarget:
        assert refusal(raw) in (400, 404)
        return
    assert_safe(target)
    assert parse_target(target.escaped_path) == RequestTarget(target.segments, target.is_directory, "", None, "")


NAME_BYTES = st.integers(1, 255).filter(lambda byte: byte not in b"/\\\x7f" and byte >= 0x20)
NAMES = st.lists(NAME_BYTES, min_size=1, max_size=40).map(bytes).filter(lambda name: name[0] != ord("."))


@given(st.lists(NAMES, max_size=5), st.booleans())
def test_every_ordinary_file_name_can_be_asked_for(names: list[bytes], is_directory: bool) -> None:
    escaped = "".join("/" + "".join(f"%{byte:02X}" for byte in name) for name in names)
    target = parse_target(escaped + "/" if is_directory or not names else escaped)
    assert [os.fsencode(segment) for segment in target.segments] == names
    assert_safe(target)
    assert parse_target(target.escaped_path) == target


def assert_safe(target: RequestTarget) -> None:
    """What the file system and a Location field rely on."""
    for segment in target.segments:
        assert segment
        assert not segment.startswith(".") or segment == ".well-known"
        assert not re.search(r"[/\\\x00-\x1f\x7f]", segment)
        assert len(os.fsencode(segment)) <= 255
    assert target.path == os.path.normpath(target.path) + ("/" if target.is_directory and target.segments else "")
    assert re.fullmatch(r"/([0-9A-Za-z._~!$&'()*+,;=:@%-]+/)*[0-9A-Za-z._~!$&'()*+,;=:@%-]*", target.escaped_path)
    assert not target.escaped_path.startswith("//")
