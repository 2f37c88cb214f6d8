"""RFC 9110 section 5.6.7."""

import calendar
from email.utils import formatdate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qosweb.http.dates import format_http_date, parse_http_date
from tests.http.wire import wire_text

EXAMPLE_S = 784_111_777  # the moment of all three examples in the section
IN_2026_S = calendar.timegm((2026, 7, 1, 12, 0, 0))
YEAR_1_S = calendar.timegm((1, 1, 1, 0, 0, 0))
YEAR_9999_END_S = calendar.timegm((9999, 12, 31, 23, 59, 59))


def year_of(text: str, now_s: int) -> int:
    epoch_s = parse_http_date(text, now_s)
    assert epoch_s is not None
    return int(format_http_date(epoch_s).split()[3])


def test_the_preferred_format_is_sent() -> None:
    assert format_http_date(EXAMPLE_S) == "Sun, 06 Nov 1994 08:49:37 GMT"


@pytest.mark.parametrize(
    "text",
    [
        "Sun, 06 Nov 1994 08:49:37 GMT",  # IMF-fixdate
        "Sunday, 06-Nov-94 08:49:37 GMT",  # obsolete RFC 850 format
        "Sun Nov  6 08:49:37 1994",  # ANSI C's asctime() format
    ],
)
def test_a_recipient_must_accept_all_three_formats(text: str) -> None:
    assert parse_http_date(text, IN_2026_S) == EXAMPLE_S


def test_asctime_with_a_day_of_two_digits() -> None:
    assert parse_http_date("Wed Nov 16 08:49:37 1994", IN_2026_S) == EXAMPLE_S + 10 * 86_400


@given(st.integers(0, 4_102_444_799))
def test_format_agrees_with_the_mail_library(epoch_s: int) -> None:
    assert format_http_date(epoch_s) == formatdate(epoch_s, usegmt=True)


@given(st.integers(YEAR_1_S, YEAR_9999_END_S))
def test_what_is_formatted_parses_back(epoch_s: int) -> None:
    assert parse_http_date(format_http_date(epoch_s), IN_2026_S) == epoch_s


@given(st.integers())
def test_format_takes_any_number_and_clamps(epoch_s: int) -> None:
    clamped_s = min(max(epoch_s, YEAR_1_S), YEAR_9999_END_S)
    assert parse_http_date(format_http_date(epoch_s), IN_2026_S) == clamped_s


@pytest.mark.parametrize(
    ("epoch_s", "text"),
    [
        (10**30, "Fri, 31 Dec 9999 23:59:59 GMT"),
        (-(10**30), "Mon, 01 Jan 0001 00:00:00 GMT"),
        (-1, "Wed, 31 Dec 1969 23:59:59 GMT"),
    ],
)
def test_moments_far_away_and_before_the_epoch(epoch_s: int, text: str) -> None:
    assert format_http_date(epoch_s) == text


@pytest.mark.parametrize(
    ("text", "year"),
    [
        ("Sunday, 06-Nov-94 08:49:37 GMT", 1994),
        ("Monday, 01-Jan-00 00:00:00 GMT", 2000),
        ("Wednesday, 01-Jul-26 12:00:00 GMT", 2026),
        ("Wednesday, 01-Jul-75 12:00:00 GMT", 2075),
        ("Wednesday, 01-Jul-76 12:00:00 GMT", 2076),  # 50 years ahead to the second: not "more than"
        ("Wednesday, 01-Jul-76 12:00:01 GMT", 1976),
        ("Thursday, 01-Jul-77 12:00:00 GMT", 1977),
    ],
)
def test_rfc850_more_than_50_years_in_the_future_means_the_past(text: str, year: int) -> None:
    assert year_of(text, IN_2026_S) == year


def test_rfc850_looks_into_the_next_century_too() -> None:
    in_1999_s = calendar.timegm((1999, 6, 1, 0, 0, 0))
    assert year_of("Saturday, 01-Jan-05 00:00:00 GMT", in_1999_s) == 2005


def test_rfc850_leap_day_of_a_century_without_one() -> None:
    in_2060_s = calendar.timegm((2060, 1, 1, 0, 0, 0))
    assert parse_http_date("Monday, 29-Feb-00 00:00:00 GMT", in_2060_s) is None
    assert year_of("Tuesday, 29-Feb-00 00:00:00 GMT", IN_2026_S) == 2000


@given(st.integers(), st.integers(0, 99))
def test_rfc850_is_never_more_than_50_years_ahead(now_s: int, year: int) -> None:
    epoch_s = parse_http_date(f"Monday, 15-Mar-{year:02} 00:00:00 GMT", now_s)
    now_year = int(format_http_date(now_s).split()[3])
    if epoch_s is not None:
        assert now_year - 50 <= int(format_http_date(epoch_s).split()[3]) <= now_year + 50


@pytest.mark.parametrize(
    "text",
    [
        "sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 nov 1994 08:49:37 GMT",
        "Sun, 06 NOV 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 gmt",
        "sunday, 06-Nov-94 08:49:37 GMT",
        "SUN Nov  6 08:49:37 1994",
    ],
)
def test_http_date_is_case_sensitive(text: str) -> None:
    assert parse_http_date(text, IN_2026_S) is None


@pytest.mark.parametrize(
    "text",
    [
        "Wed, 30 Feb 1994 08:49:37 GMT",
        "Wed, 29 Feb 2023 08:49:37 GMT",
        "Mon, 29 Feb 1900 08:49:37 GMT",
        "Sun, 00 Nov 1994 08:49:37 GMT",
        "Sun, 31 Nov 1994 08:49:37 GMT",
        "Sun, 32 Dec 1994 08:49:37 GMT",
        "Sun, 06 Nov 0000 08:49:37 GMT",
        "Sun, 06 Nov 1994 24:00:00 GMT",
        "Sun, 06 Nov 1994 08:60:37 GMT",
        "Sun, 06 Nov 1994 23:59:61 GMT",
        "Sun, 06 Nov 1994 08:49:60 GMT",
        "Sun Feb 30 08:49:37 1994",
        "Sun Nov  0 08:49:37 1994",
    ],
)
def test_impossible_days_and_times(text: str) -> None:
    assert parse_http_date(text, IN_2026_S) is None


def test_the_grammar_allows_a_leap_second_at_the_end_of_a_day() -> None:
    after_s = parse_http_date("Sun, 01 Jan 2017 00:00:00 GMT", IN_2026_S)
    assert parse_http_date("Sat, 31 Dec 2016 23:59:60 GMT", IN_2026_S) == after_s


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Sun, 6 Nov 1994 08:49:37 GMT",
        "Sun,06 Nov 1994 08:49:37 GMT",
        "Sun, 06  Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37",
        "Sun, 06 Nov 1994 08:49:37 UTC",
        "Sun, 06 Nov 1994 08:49:37 +0000",
        "Sun, 06 Nov 94 08:49:37 GMT",
        "Sun, 06-Nov-94 08:49:37 GMT",
        "Sunday, 06 Nov 1994 08:49:37 GMT",
        "Sunday, 06-Nov-1994 08:49:37 GMT",
        "Sun Nov 6 08:49:37 1994",
        "Sun Nov  6 08:49:37 1994 GMT",
        " Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, 06 Nov 1994 08:49:37 GMT ",
        "Sun, 06 Nov 1994 08:49:37 GMT\n",
        "Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT",
        "Sun, ٠٦ Nov 1994 08:49:37 GMT",  # digits, but not ASCII
        "784111777",
        "0",
        "1994-11-06T08:49:37Z",
    ],
)
def test_anything_else_is_no_date(text: str) -> None:
    assert parse_http_date(text, IN_2026_S) is None


def test_departure_the_weekday_may_be_wrong() -> None:
    assert parse_http_date("Tue, 06 Nov 1994 08:49:37 GMT", IN_2026_S) == EXAMPLE_S


@given(wire_text("Sun, Sunday Nov 06-Nov-94 1994 08:49:37 GMT"), st.integers())
def test_garbage_never_raises(text: str, now_s: int) -> None:
    result = parse_http_date(text, now_s)
    assert result is None or isinstance(result, int)
