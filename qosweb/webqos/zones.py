"""Time zones: turns the name of a zone into a table of UTC offsets, and computes local time from the table.

The time zone database is read once, when a specification is compiled. Its offsets for the years 2020 to 2099 become
part of the model. So all replicas agree on the local time, even with different versions of the database.
"""

import difflib
import re
from bisect import bisect_right
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo, available_timezones

from qosweb.webqos.values import DAY_S, BadValue

DEFAULT = "UTC"

_FIRST = datetime(2020, 1, 1, tzinfo=UTC)
_LAST = datetime(2100, 1, 1, tzinfo=UTC)
_STEP = timedelta(days=7)  # no zone changes its clocks twice in a week
_NAME = re.compile(r"(?!posix|right|localtime|Factory)[A-Za-z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+)*")
_EPOCH_DAY = 719_163  # 1970-01-01

Offsets = tuple[tuple[int, int], ...]  # (start in Unix time, seconds east of UTC), in order


@lru_cache(maxsize=64)
def zone_offsets(name: str) -> Offsets:
    """The offsets of a time zone, empty for UTC. Raises BadValue for an unknown zone."""
    if name == DEFAULT:
        return ()
    if not _NAME.fullmatch(name):
        raise _unknown(name)
    try:
        zone = ZoneInfo(name)
    except (ValueError, OSError, LookupError):
        raise _unknown(name) from None
    found = [(0, _offset_s(zone, _FIRST))]
    at = _FIRST
    while at < _LAST:
        following = at + _STEP
        if _offset_s(zone, following) != found[-1][1]:
            before, after = at, following
            while after - before > timedelta(seconds=1):
                middle = before + timedelta(seconds=int((after - before).total_seconds()) // 2)
                before, after = (middle, after) if _offset_s(zone, middle) == found[-1][1] else (before, middle)
            found.append((int(after.timestamp()), _offset_s(zone, after)))
        at = following
    return tuple(found)


def zone_name(text: str) -> str:
    """Validate the name of a time zone. Raises BadValue."""
    zone_offsets(text)
    return text


def local_time(offsets: Offsets, unix_s: int) -> tuple[int, int, int]:
    """Second of the day, weekday (0 is Monday), day as an ordinal."""
    east_s = offsets[max(0, bisect_right(offsets, unix_s, key=lambda entry: entry[0]) - 1)][1] if offsets else 0
    day, time_s = divmod(unix_s + east_s, DAY_S)
    return time_s, (day + _EPOCH_DAY - 1) % 7, day + _EPOCH_DAY


def _offset_s(zone: ZoneInfo, at: datetime) -> int:
    offset = at.astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def _unknown(name: str) -> BadValue:
    known = sorted(available_timezones())
    if not known:
        return BadValue(f"the time zone '{name}' cannot be looked up", "this machine has no time zones: install tzdata")
    low = name.lower().replace(" ", "_")
    by_low = {one.lower(): one for one in known}
    by_place = {one.rpartition("/")[2]: by_low[one] for one in by_low}
    near = difflib.get_close_matches(low, by_low, n=1, cutoff=0.6)
    meant = by_low.get(low) or by_place.get(low) or (by_low[near[0]] if near else None)
    return BadValue(f"unknown time zone '{name}'", f"did you mean '{meant}'?" if meant else "such as Europe/Paris")
