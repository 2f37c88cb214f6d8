"""Histograms keep three digits, add up, and are encoded as HdrHistogram reads them."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loadgen.results.histogram import VALUE_MAX, Histogram, highest_of, index_of

values = st.integers(0, VALUE_MAX)

# Written by HdrHistogram's implementation for Python (hdrhistogram 0.10.8): these values, 1000 a million times.
THEIRS = "HISTFAAAADp4nJNpmSzMwMAgyQABzFCaEURcm7yEwf4DRICJiekkf0Nn1WoBJqa//Ez9fkyHY5h6JzAyAQAlnQvu"
RECORDED = (0, 1, 2, 2047, 2048, 4097, 123456, 7_000_000, 3_600_000_000)


@given(values)
def test_a_slot_holds_its_value_to_three_digits(value: int) -> None:
    highest = highest_of(index_of(value))
    assert value <= highest <= value * 1.001 + 1
    assert index_of(highest) == index_of(value)
    assert index_of(highest + 1) == index_of(value) + 1


@given(st.lists(values, min_size=1, max_size=300), st.floats(0, 100))
def test_percentiles_are_those_of_the_sorted_values(recorded: list[int], percent: float) -> None:
    histogram = Histogram()
    for value in recorded:
        histogram.record(value)
    at = max(1, math.ceil(len(recorded) * percent / 100 - 1e-9))
    assert histogram.percentile(percent) == highest_of(index_of(sorted(recorded)[at - 1]))
    assert histogram.total == len(recorded)


@given(st.lists(values), st.lists(values))
def test_parts_add_up(first: list[int], second: list[int]) -> None:
    whole, a, b = Histogram(), Histogram(), Histogram()
    for histogram, recorded in ((whole, first + second), (a, first), (b, second)):
        for value in recorded:
            histogram.record(value)
    a.add(b.counts)
    assert a.counts == whole.counts


@given(st.dictionaries(values.map(index_of), st.integers(1, 1 << 60)))
def test_written_and_read_again(counts: dict[int, int]) -> None:
    assert Histogram.decode(Histogram(counts).encode()).counts == counts


def test_what_hdrhistogram_writes_is_read() -> None:
    histogram = Histogram.decode(THEIRS)
    expected = Histogram()
    for value in RECORDED:
        expected.record(value)
    expected.record(1000, 1_000_000)
    assert histogram.counts == expected.counts


@pytest.mark.parametrize("text", ["", "hello", "HISTFAAA", THEIRS[:-8], THEIRS[:20] + "AAAA" + THEIRS[24:], "é"])
def test_what_is_no_histogram_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="histogram"):
        Histogram.decode(text)


def test_nothing_recorded() -> None:
    histogram = Histogram()
    assert (histogram.percentile(99), histogram.max, histogram.mean, histogram.total) == (0, 0, 0.0, 0)
    assert Histogram.decode(histogram.encode()).counts == {}
