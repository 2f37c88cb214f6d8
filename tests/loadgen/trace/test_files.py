"""Trace files, and transformations of traces."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.trace.files import decode, read_share, read_trace, survey, write_trace, writing
from loadgen.trace.request import TraceRequest, fault_in
from loadgen.trace.transforms import denser, faster, merged, of_classes, sliced
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path

times = st.integers(0, 60_000_000).map(lambda us: us / 1e6)
one = st.builds(TraceRequest, times, st.sampled_from(["/a", "/b?q=1"]), st.just("GET"), st.sampled_from(["A", "B", ""]))
traces = st.lists(one, max_size=40).map(lambda found: sorted(found, key=lambda request: request.t))


def _ts(trace: list[TraceRequest]) -> list[float]:
    return [request.t for request in trace]


@given(st.lists(traces, max_size=4))
def test_a_merge_has_everything_in_order(several: list[list[TraceRequest]]) -> None:
    whole = list(merged(several))
    assert _ts(whole) == sorted(_ts(whole))
    assert sorted(whole, key=repr) == sorted((r for trace in several for r in trace), key=repr)


@given(traces, times, times)
def test_slices_put_together_are_the_whole(trace: list[TraceRequest], a: float, b: float) -> None:
    first, second = sorted((a, b))
    parts = [list(sliced(trace, begin, end)) for begin, end in ((0, first), (first, second), (second, 1e9))]
    assert sum(map(len, parts)) == len(trace)
    shifted = [t + begin for part, begin in zip(parts, (0, first, second), strict=True) for t in _ts(part)]
    assert shifted == pytest.approx(_ts(trace), abs=2e-6)
    assert all(t >= 0 for part in parts for t in _ts(part))


@given(traces, st.floats(0.1, 10))
def test_faster_keeps_everything_but_time(trace: list[TraceRequest], speed: float) -> None:
    quick = list(faster(trace, speed))
    assert _ts(quick) == pytest.approx([t / speed for t in _ts(trace)], abs=1e-6)
    assert [msgspec.structs.replace(r, t=0.0) for r in quick] == [msgspec.structs.replace(r, t=0.0) for r in trace]


@given(traces, st.integers(1, 5), st.integers())
def test_denser_by_a_whole_number_is_exact(trace: list[TraceRequest], factor: int, seed: int) -> None:
    more = list(denser(trace, factor, random.Random(seed)))
    assert len(more) == factor * len(trace)
    assert _ts(more) == sorted(_ts(more))
    assert set(trace_key(r) for r in more) == set(trace_key(r) for r in trace)  # noqa: C401
    assert more == list(denser(trace, factor, random.Random(seed)))


def trace_key(request: TraceRequest) -> tuple[str, str]:
    return request.url, request.class_name


@pytest.mark.parametrize("factor", [0.25, 0.9, 1.5, 3.3])
def test_denser_by_a_fraction_is_right_on_average(factor: float) -> None:
    trace = [TraceRequest(at / 100, "/a") for at in range(20_000)]
    more = list(denser(trace, factor, random.Random(5)))
    assert len(more) == pytest.approx(20_000 * factor, rel=0.02)
    assert more[-1].t == pytest.approx(200, abs=1)
    assert _ts(more) == sorted(_ts(more))


@given(traces)
def test_only_some_classes(trace: list[TraceRequest]) -> None:
    assert list(merged([of_classes(trace, ["A"]), of_classes(trace, ["B", ""])])) == sorted(
        trace, key=lambda r: (r.t, r.class_name != "A")
    )


@pytest.mark.parametrize("name", ["t.jsonl", "t.jsonl.gz"])
def test_written_and_read_again(name: str, tmp_path: Path) -> None:
    trace = [TraceRequest(at / 7, f"/{at}", "HEAD" if at % 2 else "GET", "A", {"X": "ä"}) for at in range(3000)]
    path = str(tmp_path / name)
    for _ in range(2):
        with writing(path) as file:
            facts = write_trace(file, trace)
    assert list(read_trace(path)) == trace
    assert survey(read_trace(path)) == facts
    assert (facts.requests, facts.peak_per_s, facts.classes) == (3000, 7, {"A": 3000})
    shares = [list(read_share(path, part=part, parts=3)) for part in range(3)]
    assert [r for _, r in sorted((pair for share in shares for pair in share), key=lambda pair: pair[0])] == trace


def test_equal_traces_are_equal_files_also_compressed(tmp_path: Path) -> None:
    names = [tmp_path / "a.gz", tmp_path / "b.gz"]
    for name in names:
        with writing(str(name)) as file:
            write_trace(file, [TraceRequest(0.5, "/")])
    assert names[0].read_bytes() == names[1].read_bytes()


BAD_LINES = {
    b"hello": "not a request",
    b"[]": "not a request",
    b'{"t":0}': "missing required field `url`",
    b'{"t":"x","url":"/"}': "Expected `float`",
    b'{"t":-1,"url":"/"}': "0 or more",
    b'{"t":0,"url":"page.html"}': "neither a path",
    b'{"t":0,"url":"/a b"}': "neither a path",
    b'{"t":0,"url":"/a\\r\\nX: y"}': "neither a path",
    b'{"t":0,"url":"ftp://x/"}': "neither a path",
    b'{"t":0,"url":"/a#b"}': "fragment",
    b'{"t":0,"url":"/","method":"G T"}': "not the name of an HTTP method",
    b'{"t":0,"url":"/","method":"CONNECT"}': "not supported",
    b'{"t":0,"url":"/","class":"a\\nb"}': "printable",
    b'{"t":0,"url":"/","headers":{"A b":"c"}}': "not the name of a field",
    b'{"t":0,"url":"/","headers":{"A":"b\\r\\nc"}}': "control characters",
    b'{"t":0,"url":"/","headers":{"Host":"x"}}': "write url as http://host/path",
    b'{"t":0,"url":"/","headers":{"Content-Length":"3"}}': "set by the load generator",
    b'{"t":0,"url":"/\xff"}': "not a request",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_mistake_is_told_with_its_line(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(b'{"t":0,"url":"/"}\n\n' + line + b"\n")
    with pytest.raises(UsageError) as raised:
        list(read_trace(str(path)))
    assert str(raised.value).startswith(f"{path}:3: ")
    assert BAD_LINES[line] in str(raised.value)


def test_a_trace_is_in_order_of_time(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text('{"t":2,"url":"/"}\n{"t":1,"url":"/"}\n')
    with pytest.raises(UsageError, match=r"t\.jsonl:2: t is 1, but the request before it is due at 2"):
        list(read_trace(str(path)))


def test_files_that_are_no_traces(tmp_path: Path) -> None:
    (tmp_path / "bad.gz").write_bytes(b"not gzip at all")
    (tmp_path / "cut.gz").write_bytes(b"\x1f\x8b\x08\x00")
    (tmp_path / "long").write_bytes(b"x" * 100_000)
    for name, why in (("bad.gz", "cannot be decompressed"), ("cut.gz", "cannot be decompressed"),
                      ("long", "the line is longer than"), ("none", "No such file"), (".", "directory")):  # fmt: skip
        with pytest.raises(UsageError, match=why):
            list(read_trace(str(tmp_path / name)))


@given(st.text(max_size=30))
def test_no_url_can_break_out_of_its_request(url: str) -> None:
    if fault_in(TraceRequest(0.0, url)) is None:
        assert not set(url) & set(" \r\n\t#")
        assert url.isascii()


def test_decode_says_what_would_be_right() -> None:
    with pytest.raises(UsageError, match=r'x:1: not a request: .*; a valid line is \{"t":0.25'):
        decode(b"{", "x", 1)
