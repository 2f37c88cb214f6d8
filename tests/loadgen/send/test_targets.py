"""Targets: other machines only on request; requests are spread by weight, whatever the pattern of the trace."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.send.resolve import parse_target
from loadgen.send.spread import Spread, parse_spread
from qosweb.errors import UsageError


@pytest.mark.parametrize(
    ("url", "shown", "address"),
    [
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080", "127.0.0.1"),
        ("http://127.0.0.1:8080/", "http://127.0.0.1:8080", "127.0.0.1"),
        ("127.0.0.1:8080", "http://127.0.0.1:8080", "127.0.0.1"),
        ("http://127.0.0.5", "http://127.0.0.5", "127.0.0.5"),
        ("https://127.0.0.1:443", "https://127.0.0.1", "127.0.0.1"),
        ("http://[::1]:81", "http://[::1]:81", "::1"),
    ],
)
def test_targets(url: str, shown: str, address: str) -> None:
    target = parse_target(url, allow_remote=False)
    assert (target.url, target.address) == (shown, address)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("", "is not a URL"), ("ftp://127.0.0.1", "is not a URL"), ("http://", "is not a URL"),
        ("http://127.0.0.1:99999", "is not a URL"), ("http://127.0.0.1:0", "port 0"), ("http://[::1", "is not a URL"),
        ("http://127.0.0.1/page", "leave out '/page'"), ("http://u:p@127.0.0.1", "user name"),
        ("http://exa mple", "not a host name"), ("http://no-such-host.invalid", "cannot be resolved"),
        ("http://192.0.2.1", "add --allow-remote"), ("http://0.0.0.0:80", "add --allow-remote"),
    ],
)  # fmt: skip
def test_bad_targets(url: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_target(url, allow_remote=False)


def test_other_machines_on_request() -> None:
    assert parse_target("http://192.0.2.1:8080", allow_remote=True).address == "192.0.2.1"


@given(st.lists(st.integers(0, 100), min_size=1, max_size=6).filter(any), st.integers(1, 7), st.integers(0, 6))
def test_every_pattern_of_a_trace_is_spread_as_the_whole(weights: list[int], step: int, offset: int) -> None:
    """Every k-th request may be of one class: it too goes to all targets by their weights."""
    spread = Spread([float(weight) for weight in weights])
    counts = Counter(spread.target_of(number) for number in range(offset, 2000 * step, step))
    total = sum(counts.values())
    for at, weight in enumerate(weights):
        assert counts[at] == pytest.approx(total * weight / sum(weights), abs=25)


@pytest.mark.parametrize(
    ("text", "weights"),
    [("even", [1, 1, 1]), ("one", [1, 0, 0]), ("skewed", [1, 1 / 2, 1 / 3]), ("skewed:2", [1, 1 / 4, 1 / 9]),
     ("70,20,10", [70, 20, 10]), ("skewed:0", [1, 1, 1])],
)  # fmt: skip
def test_spreads(text: str, weights: list[float]) -> None:
    assert parse_spread(text, 3) == pytest.approx(weights)


@pytest.mark.parametrize(
    ("text", "why"),
    [("odd", "write one, even"), ("70,30", "2 weights for 3 targets"), ("0,0,0", "above 0"), ("skewed:", "skewed:1.5"),
     ("skewed:x", "skewed:1.5"), ("one:2", "write one, even"), ("1,-1,1", "write one, even")],
)  # fmt: skip
def test_bad_spreads(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_spread(text, 3)
