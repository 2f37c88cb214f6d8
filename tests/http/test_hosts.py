"""RFC 9110 section 7.2, RFC 3986 sections 3.2.2 and 3.2.3."""

import re

import pytest
from hypothesis import given

from qosweb.http.hosts import parse_host
from tests.http.wire import wire_text


@pytest.mark.parametrize(
    "value",
    [
        "www.example.org",
        "localhost",
        "localhost:8080",
        "a",
        "example.org.",
        "example.org:0",
        "example.org:80",
        "example.org:443",
        "example.org:65535",
        "example.org:00080",
        "under_score.example",
        "xn--bcher-kva.example",
        "127.0.0.1",
        "127.0.0.1:8080",
        "1.example",
        "1e1",
        "[::1]",
        "[::]",
        "[::1]:8080",
        "[2001:db8::7]",
        "[2001:db8:0:0:0:0:0:7]:443",
        "[::ffff:192.0.2.1]",
    ],
)
def test_3986_3_2_2_valid_hosts_stand_for_themselves(value: str) -> None:
    assert parse_host(value) == value


def test_3986_6_2_2_1_hosts_are_case_insensitive() -> None:
    assert parse_host("WWW.Example.ORG:8080") == "www.example.org:8080"
    assert parse_host("[2001:DB8::A]") == "[2001:db8::a]"


def test_3986_6_2_3_an_empty_port_is_dropped() -> None:
    assert parse_host("Example.org:") == "example.org"
    assert parse_host("[::1]:") == "[::1]"


@pytest.mark.parametrize(
    "value",
    [
        "",
        ".",
        "..",
        ".example.org",
        "example..org",
        "example.org..",
        "example.org.:x",
        "256.256.256.256",
        "127.0.0.1.",
        "1.2.3",
        "1",
        "127.0.0.01",
        "a.1",
        "a%20b",
        "%41",
        "a,b",
        "a;b",
        "a~b",
        *(f"a{one}b" for one in "!$&'()*+="),
        ":",
        ":80",
        "example.org:65536",
        "example.org:99999",
        "example.org:100000",
        "example.org:" + "9" * 10_000,
        "example.org:-1",
        "example.org:+80",
        "example.org:80a",
        "example.org:http",
        "example.org:80:80",
        "example.org: 80",
        "example.org:\u0668\u0660",
        "user@example.org",
        "user:secret@example.org",
        "example.org/",
        "example.org/path",
        "http://example.org",
        "example.org?x",
        "example.org#x",
        "example.org\\x",
        "a b",
        " example.org",
        "example.org ",
        "example.org\r\nX: y",
        "example.org\n",
        "example.org\x00",
        "b\u00fccher.example",
        "example\udcff.org",
        "\u212aelvin.example",
        "a%2",
        "a%zz",
        "%",
        "<script>",
        '"quoted"',
        "a|b",
        "a^b",
        "a{b}",
        "a, b",  # two field lines, joined
        "[::1",
        "::1",
        "::1]",
        "[]",
        "[]:80",
        "[:]",
        "[:::]",
        "[::1]80",
        "[::1]]",
        "[[::1]]",
        "[1:2:3:4:5:6:7]",
        "[1:2:3:4:5:6:7:8:9]",
        "[1::2::3]",
        "[12345::]",
        "[::ffff:256.0.0.1]",
        "[::ffff:1.2.3]",
        "[127.0.0.1]",
        "[fe80::1%eth0]",
        "[fe80::1%25eth0]",
        "[v1.x]",
        "[localhost]",
        "[::\uff11]",
    ],
)
def test_invalid_hosts(value: str) -> None:
    assert parse_host(value) is None


def test_3986_3_2_2_names_have_at_most_255_characters() -> None:
    assert parse_host("a" * 255) == "a" * 255
    assert parse_host("a" * 256) is None
    assert parse_host("a." * 127) == "a." * 127
    assert parse_host("a." * 128) is None


def test_many_labels_take_linear_time() -> None:
    assert parse_host("a." * 100_000) is None
    assert parse_host("a-" * 100_000 + "!") is None
    assert parse_host("1." * 100_000 + "!") is None


def test_leading_zeros_of_a_port_take_linear_time() -> None:
    assert parse_host("a:" + "0" * 100_000 + "80") is not None
    assert parse_host("a:" + "0" * 100_000 + "80x") is None


@given(wire_text("example.org [::1] :80 : . % %41 @ [ ] 127.0.0.1 65536"))
def test_garbage_never_raises(value: str) -> None:
    host = parse_host(value)
    if host:
        assert re.fullmatch(r"[.:_\[\]0-9a-z-]+", host)
        assert parse_host(host) == host
