"""Parsing and formatting of sizes, durations, counts and addresses."""

import contextlib

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from qosweb.units import (
    Address,
    describe_size,
    format_duration_s,
    format_size,
    parse_address,
    parse_count,
    parse_duration_s,
    parse_size,
)


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0", 0),
        ("512", 512),
        ("512b", 512),
        ("16KB", 16 << 10),
        ("16 KiB", 16 << 10),
        ("1.5mb", 3 << 19),
        ("  64MB ", 64 << 20),
        ("2GB", 2 << 30),
        ("1GiB", 1 << 30),
    ],
)
def test_sizes_are_powers_of_1024(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    "text", ["", " ", "-1", "+1", "1e6", "KB", "1TB", "1 2", "1.KB", ".5KB", "0x10", "\u0661", "1KBB"]
)
def test_what_is_not_a_size_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="not a size such as 512, 16KB or 64MB"):
        parse_size(text)


@given(st.integers(0, 1 << 45))
def test_a_formatted_size_reads_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("0", 0),
        ("2", 2),
        ("500ms", 0.5),
        ("10us", 1e-5),
        ("1.5s", 1.5),
        ("2m", 120),
        ("2 min", 120),
        ("1H", 3600),
        ("1d", 86400),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration_s(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "-1s", "1ns", "soon", "1s30", "inf", "nan", "1e3"])
def test_what_is_not_a_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="not a duration such as 500ms, 10s or 2min"):
        parse_duration_s(text)


@pytest.mark.parametrize(
    ("text", "host", "port"),
    [
        ("127.0.0.1:8080", "127.0.0.1", 8080),
        ("localhost:0", "localhost", 0),
        ("www.example.com:65535", "www.example.com", 65535),
        (":80", "0.0.0.0", 80),
        ("8080", "127.0.0.1", 8080),
        ("[::1]:8080", "::1", 8080),
        (" [::]:1 ", "::", 1),
    ],
)
def test_addresses(text: str, host: str, port: int) -> None:
    assert parse_address(text) == Address(host, port)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "localhost",
        "::1:80",
        "[::1]",
        "[::1",
        "a..b:80",
        f"{'a' * 64}:80",
        "a b:80",
        "a\nb:80",
        "a\0:80",
        "h:x",
    ],
)
def test_what_is_not_an_address_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="not an address; write HOST:PORT, such as"):
        parse_address(text)


@pytest.mark.parametrize("text", ["65536", "h:65536", "[::1]:99999", f"h:{'9' * 5000}"])
def test_a_port_has_16_bits(text: str) -> None:
    with pytest.raises(ValueError, match="is not between 0 and 65535"):
        parse_address(text)


@pytest.mark.parametrize(
    ("host", "is_loopback"),
    [
        ("127.0.0.1", True),
        ("127.8.9.1", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
        ("127.1", False),  # not a form that can be judged without the resolver
    ],
)
def test_what_counts_as_loopback(host: str, is_loopback: bool) -> None:
    assert Address(host, 1).is_loopback is is_loopback


def test_an_address_reads_back() -> None:
    for address in (Address("127.0.0.1", 80), Address("::1", 8080), Address("localhost", 0)):
        assert parse_address(str(address)) == address


@pytest.mark.parametrize("text", ["", "-1", "1.0", "1KB", "ten", "٣", "1" * 16])
def test_what_is_not_a_count_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number"):
        parse_count(text)


@given(st.text())
@example("9" * 5000)
@example("\ud800:80")
def test_garbage_is_a_value_error_and_nothing_else(text: str) -> None:
    for parse in (parse_size, parse_duration_s, parse_count, parse_address):
        with contextlib.suppress(ValueError):
            parse(text)


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.25, "0.25s"), (90, "90s"), (600, "10min"), (7200, "2h"), (2592000, "30d")]
)
def test_a_duration_is_written_in_its_largest_unit(seconds: float, text: str) -> None:
    assert format_duration_s(seconds) == text
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 bytes"), (1, "1 byte"), (1536, "1.5 KB"), (1047552, "1,023 KB"), (64 << 20, "64 MB")]
)
def test_a_size_for_people(size: int, text: str) -> None:
    assert describe_size(size) == text
