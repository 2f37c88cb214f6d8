"""RFC 9110 sections 14 and 15.3.7."""

from email import message_from_bytes

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.http.ranges import (
    UNSATISFIABLE,
    ByteSpan,
    Unsatisfiable,
    content_range,
    multipart_byteranges,
    parse_range,
    unsatisfied_range,
)
from tests.http.wire import wire_text


def parse(value: str, size: int = 10_000, most: int = 8) -> list[tuple[int, int]] | Unsatisfiable | None:
    spans = parse_range(value, size, most)
    if spans is None or isinstance(spans, Unsatisfiable):
        return spans
    return [(span.first, span.last) for span in spans]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("bytes=0-499", [(0, 499)]),
        ("bytes=500-999", [(500, 999)]),
        ("bytes=-500", [(9500, 9999)]),
        ("bytes=9500-", [(9500, 9999)]),
        ("bytes=0-0,-1", [(0, 0), (9999, 9999)]),
        ("bytes= 0-0, -2", [(0, 0), (9998, 9999)]),
        ("bytes=0-999, 4500-5499, -1000", [(0, 999), (4500, 5499), (9000, 9999)]),
        ("bytes=500-600,601-999", [(500, 999)]),
        ("bytes=500-700,601-999", [(500, 999)]),
    ],
)
def test_14_1_2_examples_of_the_section(value: str, expected: list[tuple[int, int]]) -> None:
    assert parse(value) == expected


def test_14_1_unit_names_are_case_insensitive() -> None:
    assert parse("Bytes=0-1") == parse("BYTES=0-1") == [(0, 1)]


@pytest.mark.parametrize("value", ["lines=0-1", "exampleunit=1.2-4.3", "none=0-1", "=0-1", "0-1", "", "bytes 0-1"])
def test_14_2_a_unit_not_understood_is_ignored(value: str) -> None:
    assert parse(value) is None


def test_14_1_1_last_before_first_is_invalid() -> None:
    assert parse("bytes=5-4") is None
    assert parse("bytes=0-1,5-4") is None
    assert parse("bytes=99999-99998") is None


@pytest.mark.parametrize(
    "value",
    [
        "bytes=",
        "bytes=,",
        "bytes=-",
        "bytes=0",
        "bytes=a-b",
        "bytes=0-1-2",
        "bytes=--1",
        "bytes=0--1",
        "bytes=+0-1",
        "bytes=0x0-0x1",
        "bytes=1_0-2_0",
        "bytes=0 -1",
        "bytes=0- 1",
        "bytes=0-1;2-3",
        "bytes=0-1 2-3",
        "bytes=0-1,x",
        "bytes=*",
        "bytes==0-1",
        "bytes =0-1",
        "bytes=0-1\n",
        "bytes=\u0660-\u0661",
        "bytes=0-1.5",
    ],
)
def test_14_2_an_invalid_specifier_is_ignored(value: str) -> None:
    assert parse(value) is None


def test_5_6_1_2_empty_members_are_ignored() -> None:
    assert parse("bytes=,0-1,, \t,5-6,") == [(0, 1), (5, 6)]


def test_14_1_2_a_last_position_beyond_the_end_is_the_end() -> None:
    assert parse("bytes=9000-10000") == parse("bytes=9000-999999") == [(9000, 9999)]


def test_14_1_2_a_suffix_longer_than_the_representation_is_all_of_it() -> None:
    assert parse("bytes=-10001") == parse("bytes=-10000") == [(0, 9999)]


@pytest.mark.parametrize("value", ["bytes=10000-", "bytes=10000-10001", "bytes=-0", "bytes=-0, 20000-", "bytes=-000"])
def test_14_1_2_unsatisfiable(value: str) -> None:
    assert parse(value) is UNSATISFIABLE


def test_14_1_2_one_satisfiable_range_satisfies_the_set() -> None:
    assert parse("bytes=20000-, 0-0, -0") == [(0, 0)]


def test_nothing_of_an_empty_representation() -> None:
    assert parse("bytes=0-", size=0) is UNSATISFIABLE
    assert parse("bytes=0-0", size=0) is UNSATISFIABLE
    assert parse("bytes=-0", size=0) is UNSATISFIABLE
    # 14.1.2 calls it satisfiable, and the whole satisfies it
    assert parse("bytes=-1", size=0) is None
    assert parse("bytes=0-,-5", size=0) is None


def test_all_of_one_byte() -> None:
    assert parse("bytes=0-", size=1) == parse("bytes=0-0", size=1) == parse("bytes=-1", size=1) == [(0, 0)]
    assert parse("bytes=1-", size=1) is UNSATISFIABLE


MILLION_DIGITS = "9" * 1_000_000


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (f"bytes=0-{MILLION_DIGITS}", [(0, 9999)]),
        (f"bytes=-{MILLION_DIGITS}", [(0, 9999)]),
        (f"bytes={MILLION_DIGITS}-", UNSATISFIABLE),
        (f"bytes={MILLION_DIGITS}-{MILLION_DIGITS}", UNSATISFIABLE),
        (f"bytes={MILLION_DIGITS}9-{MILLION_DIGITS}", None),
        (f"bytes={MILLION_DIGITS}-1", None),
        (f"bytes={'0' * 1_000_000}5-6", [(5, 6)]),
        (f"bytes=18446744073709551616-{2**64 + 1}", UNSATISFIABLE),  # must not wrap to 0-1
        (f"bytes=-{2**64}", [(0, 9999)]),
    ],
)
def test_14_1_1_no_number_is_too_large(value: str, expected: list[tuple[int, int]] | Unsatisfiable | None) -> None:
    assert parse(value) == expected


def test_largest_file() -> None:
    assert parse(f"bytes={2**63 - 2}-", size=2**63 - 1) == [(2**63 - 2, 2**63 - 2)]


def test_17_15_more_ranges_than_allowed_are_ignored() -> None:
    assert parse("bytes=0-0,2-2,4-4", most=3) == [(0, 0), (2, 2), (4, 4)]
    assert parse("bytes=0-0,2-2,4-4,6-6", most=3) is None
    assert parse("bytes=0-0", most=0) is None


@pytest.mark.parametrize(
    "value", ["bytes=0-,0-", "bytes=0-,1-,2-,3-", "bytes=-10000,0-0", "bytes=0-9999,5-6", "bytes=-6000,-6000"]
)
def test_17_15_sets_that_ask_for_more_than_the_whole_are_ignored(value: str) -> None:
    assert parse(value) is None


def test_15_3_7_2_parts_keep_the_order_of_the_request() -> None:
    assert parse("bytes=-1,500-599,0-9") == [(9999, 9999), (500, 599), (0, 9)]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("bytes=0-9,5-14", [(0, 14)]),
        ("bytes=5-14,0-9", [(0, 14)]),
        ("bytes=0-9,10-19", [(0, 19)]),
        ("bytes=10-19,0-9", [(0, 19)]),
        ("bytes=0-9,11-19", [(0, 9), (11, 19)]),
        ("bytes=0-99,10-19", [(0, 99)]),
        ("bytes=5-5,5-5", [(5, 5)]),
        ("bytes=100-109,0-9,110-119,9990-", [(100, 119), (0, 9), (9990, 9999)]),
        ("bytes=20-29,9990-,0-9,10-19", [(0, 29), (9990, 9999)]),
    ],
)
def test_15_3_7_2_overlapping_or_touching_ranges_coalesce(value: str, expected: list[tuple[int, int]]) -> None:
    assert parse(value) == expected


SPECS = st.one_of(
    st.builds("{}-{}".format, st.integers(0, 40), st.integers(0, 40)),
    st.builds("{}-".format, st.integers(0, 40)),
    st.builds("-{}".format, st.integers(0, 40)),
)


def bytes_asked_for(spec: str, size: int) -> set[int]:
    first, last = spec.split("-")
    if not first:
        return set(range(max(size - int(last), 0), size))
    return set(range(int(first), min(int(last) + 1 if last else size, size)))


@given(st.lists(SPECS, min_size=1, max_size=6), st.integers(0, 30))
def test_exactly_the_bytes_asked_for_and_each_once(specs: list[str], size: int) -> None:
    asked = [bytes_asked_for(spec, size) for spec in specs]
    result = parse_range("bytes=" + ",".join(specs), size, most=6)
    if result is None:
        return
    if isinstance(result, Unsatisfiable):
        assert not any(asked)
        return
    sent = [position for span in result for position in span_positions(span)]
    assert sorted(sent) == sorted(set().union(*asked))
    assert len(sent) == sum(span.length for span in result) <= size
    places = [next(i for i, want in enumerate(asked) if want & set(span_positions(span))) for span in result]
    assert places == sorted(places)


def span_positions(span: ByteSpan) -> range:
    return range(span.first, span.last + 1)


@given(wire_text("bytes= bytes=0-1, 0-5 - 1 2 , = 99999999999999999999"), st.integers(0, 100), st.integers(0, 5))
def test_garbage_never_raises(value: str, size: int, most: int) -> None:
    result = parse_range(value, size, most)
    if isinstance(result, list):
        assert 0 < len(result) <= most
        assert all(0 <= span.first <= span.last < size for span in result)


def test_14_4_content_range() -> None:
    assert content_range(ByteSpan(42, 1233), 1234) == "bytes 42-1233/1234"
    assert unsatisfied_range(1234) == "bytes */1234"
    assert unsatisfied_range(0) == "bytes */0"


def test_length_counts_both_ends() -> None:
    assert ByteSpan(0, 0).length == 1
    assert ByteSpan(500, 999).length == 500


def test_14_6_the_bytes_of_a_multipart_body() -> None:
    heads, close = multipart_byteranges([ByteSpan(500, 501), ByteSpan(7000, 7001)], 8000, "text/plain", "SEP")
    assert heads == [
        b"--SEP\r\nContent-Type: text/plain\r\nContent-Range: bytes 500-501/8000\r\n\r\n",
        b"\r\n--SEP\r\nContent-Type: text/plain\r\nContent-Range: bytes 7000-7001/8000\r\n\r\n",
    ]
    assert close == b"\r\n--SEP--\r\n"


def test_without_parts_there_is_only_the_closing_delimiter() -> None:
    assert multipart_byteranges([], 10, "text/plain", "SEP") == ([], b"--SEP--\r\n")


@given(st.binary(min_size=1, max_size=200), st.data())
def test_14_6_a_mime_parser_reads_what_is_interleaved(content: bytes, data: st.DataObject) -> None:
    positions = st.integers(0, len(content) - 1)
    pairs = data.draw(st.lists(st.tuples(positions, positions), min_size=1, max_size=4))
    spans = [ByteSpan(min(pair), max(pair)) for pair in pairs]
    heads, close = multipart_byteranges(spans, len(content), "application/octet-stream", "b0undary" * 4)
    parts = [head + content[span.first : span.last + 1].hex().encode() for head, span in zip(heads, spans, strict=True)]
    message = message_from_bytes(
        b"Content-Type: multipart/byteranges; boundary=" + b"b0undary" * 4 + b"\r\n\r\n" + b"".join(parts) + close
    )
    read = list(message.walk())[1:]
    assert message.is_multipart()
    assert [part["Content-Range"] for part in read] == [content_range(span, len(content)) for span in spans]
    assert [bytes.fromhex(str(part.get_payload())) for part in read] == [
        content[span.first : span.last + 1] for span in spans
    ]
