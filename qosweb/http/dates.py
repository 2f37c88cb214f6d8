"""Formats and parses HTTP-date: one format to send, three formats to accept.

From: RFC 9110 section 5.6.7.
Departs: the weekday must be a valid name, but need not match the date. It is redundant, and the section encourages
recipients to be robust.
"""

import re
from datetime import UTC, date, datetime, timedelta

_WEEKDAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_MONTH_NUMBERS = {name: number for number, name in enumerate(_MONTHS, start=1)}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_ORDINAL = date(1970, 1, 1).toordinal()
_DAY_S = 86_400

# The years 1 to 9999: the format requires four digits.
_EARLIEST_S = (date.min.toordinal() - _EPOCH_ORDINAL) * _DAY_S
_LATEST_S = (date.max.toordinal() - _EPOCH_ORDINAL + 1) * _DAY_S - 1

_WEEKDAY = "(?:" + "|".join(_WEEKDAYS) + ")"
_WEEKDAY_LONG = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day"
_MONTH = "(?P<month>" + "|".join(_MONTHS) + ")"
_TIME = "(?P<hour>[0-9]{2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})"

_IMF_FIXDATE = re.compile(f"{_WEEKDAY}, (?P<day>[0-9]{{2}}) {_MONTH} (?P<year>[0-9]{{4}}) {_TIME} GMT")
_RFC850 = re.compile(f"{_WEEKDAY_LONG}, (?P<day>[0-9]{{2}})-{_MONTH}-(?P<year>[0-9]{{2}}) {_TIME} GMT")
_ASCTIME = re.compile(f"{_WEEKDAY} {_MONTH} (?P<day>[0-9]{{2}}| [0-9]) {_TIME} (?P<year>[0-9]{{4}})")


def format_http_date(epoch_s: int) -> str:
    """Format a time as IMF-fixdate, independent of the locale.

    A time outside the years 1 to 9999 (file systems can store such times) is clamped.
    """
    at = _moment(epoch_s)
    return (
        f"{_WEEKDAYS[at.weekday()]}, {at.day:02} {_MONTHS[at.month - 1]} {at.year:04} "
        f"{at.hour:02}:{at.minute:02}:{at.second:02} GMT"
    )


def parse_http_date(text: str, now_s: int) -> int | None:
    """Parse an HTTP-date into seconds since the epoch; None if it is invalid.

    `now_s` only decides the century of two-digit years in the rfc850 format.
    """
    found = _IMF_FIXDATE.fullmatch(text) or _RFC850.fullmatch(text) or _ASCTIME.fullmatch(text)
    if found is None:
        return None
    year = int(found["year"])
    month = _MONTH_NUMBERS[found["month"]]
    day = int(found["day"])
    hour, minute, second = int(found["hour"]), int(found["minute"]), int(found["second"])
    if hour > 23 or minute > 59 or second > 60:
        return None
    if second == 60 and (hour, minute) != (23, 59):  # a leap second ends the day
        return None
    if found.re is _RFC850:
        year = _full_year(year, (month, day, hour, minute, second), _moment(now_s))
    try:
        ordinal = date(year, month, day).toordinal()
    except ValueError:
        return None
    return (ordinal - _EPOCH_ORDINAL) * _DAY_S + hour * 3600 + minute * 60 + second


def _full_year(year_of_century: int, rest: tuple[int, int, int, int, int], now: datetime) -> int:
    """The latest year with these two digits for which the date is at most 50 years ahead."""
    year_max = now.year + 50
    year = year_max - (year_max - year_of_century) % 100
    too_far = year == year_max and rest > (now.month, now.day, now.hour, now.minute, now.second)
    return year - 100 if too_far else year


def _moment(epoch_s: int) -> datetime:
    return _EPOCH + timedelta(seconds=min(max(epoch_s, _EARLIEST_S), _LATEST_S))
