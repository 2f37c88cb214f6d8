"""Arrivals have the specified distribution. Seeds are fixed, so the results are deterministic."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from loadgen.trace.arrivals import arrivals, requests, stages
from loadgen.trace.curves import CurvePiece, parse_curve
from loadgen.trace.flash_crowds import parse_crowd
from loadgen.trace.page_mix import MixPart, parse_mix

if TYPE_CHECKING:
    from loadgen.trace.request import TraceRequest

ANY = [MixPart("", 1.0, "/")]
P_MIN = 0.001  # a right distribution would be called wrong once in a thousand seeds


def _times(rate: str, duration_s: float | None, kind: str = "poisson", seed: int = 1) -> list[float]:
    course = stages(parse_curve(rate, duration_s), ANY, [])
    return [t for t, _ in arrivals(course, kind, random.Random(seed))]


def _made(rate: str, duration_s: float, mix: list[str], flash: list[str] = [], zipf: float = 0.0) -> list[TraceRequest]:  # noqa: B006
    parts = [parse_mix(text) for text in mix]
    course = stages(parse_curve(rate, duration_s), parts, [parse_crowd(text) for text in flash])
    made = requests(course, parts, kind="poisson", zipf_exponent=zipf, method="GET", dice=random.Random(7))
    return list(made)


def _in(times: list[float], begin_s: float, end_s: float) -> int:
    return sum(begin_s <= t < end_s for t in times)


def test_constant_arrivals_are_evenly_spaced() -> None:
    assert _times("10", 2.0, "constant") == pytest.approx([at / 10 for at in range(20)])


def test_poisson_gaps_are_exponential_and_independent() -> None:
    times = _times("200", 100.0)
    gaps = [b - a for a, b in itertools.pairwise(times)]
    assert stats.kstest(gaps, "expon", args=(0, 1 / 200)).pvalue > P_MIN
    assert abs(stats.pearsonr(gaps[:-1], gaps[1:]).statistic) < 4 / math.sqrt(len(gaps))


def test_poisson_counts_vary_as_they_should() -> None:
    times = _times("50", 400.0)
    counts = [_in(times, second, second + 1) for second in range(400)]
    assert stats.chisquare(
        [sum(low <= c < high for c in counts) for low, high in ((0, 43), (43, 48), (48, 52), (52, 57), (57, 999))],
        [400 * (stats.poisson.cdf(high - 1, 50) - stats.poisson.cdf(low - 1, 50))
         for low, high in ((0, 43), (43, 48), (48, 52), (52, 57), (57, 999))],
        sum_check=False,
    ).pvalue > P_MIN  # fmt: skip


@pytest.mark.parametrize("kind", ["constant", "poisson"])
def test_a_ramp_grows_steadily(kind: str) -> None:
    times = _times("0..200", 100.0, kind)
    assert len(times) == pytest.approx(10_000, abs=4 * 100)
    assert stats.kstest(times, lambda t: (t / 100) ** 2).pvalue > P_MIN


def test_steps() -> None:
    times = _times("10@20s,50..100@20s,0@10s,10@10s", None, "constant")
    assert [_in(times, 0, 20), _in(times, 20, 40), _in(times, 40, 50), _in(times, 50, 60)] == [200, 1500, 0, 100]


@pytest.mark.parametrize("kind", ["constant", "poisson"])
def test_each_step_has_its_rate(kind: str) -> None:
    """Counted on the clock of the area under the curve, arrivals are those of rate one; in each step, of its rate."""
    curve = parse_curve("20@50s,200@20s,0@10s,5..100@40s,20@50s", None)
    times = _times("20@50s,200@20s,0@10s,5..100@40s,20@50s", None, kind)
    for piece in curve:
        count = _in(times, piece.begin_s, piece.end_s)
        allowed = 4 * math.sqrt(piece.area) if kind == "poisson" else 1
        assert count == pytest.approx(piece.area, abs=allowed), piece
    if kind == "constant":
        return
    for begin_s, end_s, rate in ((0, 50, 20), (50, 70, 200), (120, 170, 20)):
        gaps = [b - a for a, b in itertools.pairwise(t for t in times if begin_s <= t < end_s)]
        assert stats.kstest(gaps, "expon", args=(0, 1 / rate)).pvalue > P_MIN
        assert stats.kstest(gaps, "expon", args=(0, 1 / (1.3 * rate))).pvalue < P_MIN  # it would be seen
    passed = [sum(p.area if p.end_s <= t else p.cut(p.begin_s, t).area for p in curve if p.begin_s < t) for t in times]
    assert stats.kstest([b - a for a, b in itertools.pairwise(passed)], "expon").pvalue > P_MIN


def _by_then(t_s: float, low: float, high: float, length_s: float) -> float:
    """The part of a day's requests that came by then: the integral of low + (high - low) (1 - cos) / 2."""
    swing = (t_s - length_s / (2 * math.pi) * math.sin(2 * math.pi * t_s / length_s)) / 2
    return (low * t_s + (high - low) * swing) / ((low + high) / 2 * length_s)


def test_a_day_follows_its_integral_and_a_triangle_would_not() -> None:
    def likely(times: list[float]) -> float:
        found: float = stats.kstest([_by_then(t, 10, 200, 240.0) for t in times], "uniform").pvalue
        return found

    assert likely(_times("day:10..200", 240.0)) > P_MIN
    assert likely(_times("day:10..200", 240.0, seed=2)) > P_MIN
    assert likely(_times("10..200@120s,200..10@120s", None)) < 1e-9
    evenly = _times("day:10..200", 240.0, "constant")
    assert max(abs(_by_then(t, 10, 200, 240.0) - at / len(evenly)) for at, t in enumerate(evenly)) < 0.001


def test_a_day_is_quiet_at_night_and_busy_at_noon() -> None:
    times = _times("day:10..200", 240.0)
    by_hour = [_in(times, hour * 10, hour * 10 + 10) for hour in range(24)]
    assert by_hour[0] < 200
    assert by_hour[12] == pytest.approx(2000, rel=0.1)
    assert len(times) == pytest.approx(105 * 240, rel=0.02)
    assert sum(by_hour[:12]) == pytest.approx(sum(by_hour[12:]), rel=0.05)


@given(
    st.floats(0, 1000), st.floats(0, 1000), st.floats(0.1, 1000), st.floats(0, 1)
)  # fmt: skip
def test_when_is_the_inverse_of_the_area(rate: float, rate_end: float, length_s: float, part: float) -> None:
    piece = CurvePiece(5.0, 5.0 + length_s, rate, rate_end)
    t_s = 5.0 + part * length_s
    if piece.area * part > 1e-6:
        area = piece.cut(5.0, t_s).area
        assert piece.cut(5.0, max(piece.when(area), 5.0 + 1e-12)).area == pytest.approx(area, rel=1e-6, abs=1e-6)


def test_a_mix_has_its_weights() -> None:
    made = Counter(request.class_name for request in _made("100", 200.0, ["A=30:/a", "B=60:/b", "C=10:/c"]))
    total = sum(made.values())
    assert stats.chisquare([made[c] for c in "ABC"], [total * w for w in (0.3, 0.6, 0.1)]).pvalue > P_MIN


def test_pages_of_a_range_are_equally_likely() -> None:
    made = Counter(request.url for request in _made("100", 200.0, ["A=1:/p/{5..14}.html?x=1"]))
    assert made.keys() == {f"/p/{n}.html?x=1" for n in range(5, 15)}
    assert stats.chisquare(list(made.values())).pvalue > P_MIN


def test_pages_of_a_range_by_zipfs_law() -> None:
    made = Counter(request.url for request in _made("200", 200.0, ["/p{1..50}"], zipf=1.1))
    total = sum(made.values())
    weights = [n**-1.1 for n in range(1, 51)]
    expected = [total * w / sum(weights) for w in weights]
    assert stats.chisquare([made[f"/p{n}"] for n in range(1, 51)], expected).pvalue > P_MIN


def test_a_flash_crowd_comes_on_top_of_everything_else() -> None:
    """The paper's figure 6: five classes alike, ten times as much of one of them from 50 s to 70 s."""
    made = _made("100", 100.0, [f"{c}=1:/{c}" for c in "ABCDE"], ["A=x10@50s+20s"])

    def rate(name: str, begin_s: float, end_s: float) -> float:
        return _in([r.t for r in made if r.class_name == name], begin_s, end_s) / (end_s - begin_s)

    assert rate("A", 0, 50) == pytest.approx(20, rel=0.15)
    assert rate("A", 50, 70) == pytest.approx(200, rel=0.07)
    assert rate("A", 70, 100) == pytest.approx(20, rel=0.2)
    for name in "BCDE":
        assert rate(name, 50, 70) == pytest.approx(20, rel=0.2)


def test_crowds_of_everybody_and_overlapping_ones() -> None:
    course = stages(
        parse_curve("10", 40.0), [parse_mix("A=1:/a"), parse_mix("B=1:/b")],
        [parse_crowd("x2@10s+20s"), parse_crowd("B=x3@20s+20s")],
    )  # fmt: skip
    assert [(s.piece.begin_s, s.piece.end_s, s.piece.rate) for s in course] == [
        (0, 10, 10), (10, 20, 20), (20, 30, pytest.approx(40)), (30, 40, pytest.approx(20)),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "not a rate"), ("fast", "not a rate"), ("10..", "not a rate"), ("-5", "not a rate"),
        ("10..20..30", "not a rate"), ("day:", "not a rate"), ("99999999", "more than"), ("10@", "not a step"),
        ("10@20s,", "not a step"), ("10@20x", "not a duration"), ("10@0s", "not greater than 0"), ("1e3", "not a rate"),
    ],
)  # fmt: skip
def test_bad_curves(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_curve(text, None if "@" in text else 10.0)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("A", "CLASS=WEIGHT:URL"), ("A=3", "CLASS=WEIGHT:URL"), ("A=x:/a", "not a weight"), ("A=0:/a", "is 0"),
        ("A=3:a.html", "neither a path"), ("A=3:/a b", "neither a path"), ("A=3:/{1..2}/{1..2}", "one range"),
        ("A=3:/{9..2}", "smaller number"), ("A=3:/{1..9999999}", "at most"), ("A=3:/{n}", "one range"),
        ("=3:/a", "CLASS=WEIGHT:URL"), ("A=3:/a#b", "fragment"), ("A=3:", "neither a path"),
    ],
)  # fmt: skip
def test_bad_mixes(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_mix(text)


@pytest.mark.parametrize("text", ["A", "A=10@5s+5s", "A=x10@5s", "A=x10", "x10@5s+", "A=x1.2.3@5s+5s", "A=x2@5s+0s"])
def test_bad_crowds(text: str) -> None:
    with pytest.raises(ValueError, match=r"crowd|factor|greater than 0"):
        parse_crowd(text)
