"""Subjects of conditions: the type of each, how its values are parsed, and comparisons as ranges of integers."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from qosweb.webqos import values
from qosweb.webqos.model.conditions import UNBOUNDED

DATE_MAX = 3_652_059  # 9999-12-31


@dataclass(frozen=True, slots=True)
class OrderedSubject:
    """Numbers from ``low`` to ``high``. ``cyclic``: ranges may wrap around. ``open_end``: ranges exclude their end."""

    read: Callable[[str], int]
    low: int = 0
    high: int = UNBOUNDED
    cyclic: bool = False
    open_end: bool = False


@dataclass(frozen=True, slots=True)
class TextSubject:
    read: Callable[[str], str]
    needs_argument: bool = False


ORDERED = {
    "time": OrderedSubject(values.clock_s, 0, values.DAY_S - 1, cyclic=True, open_end=True),
    "weekday": OrderedSubject(values.weekday, 0, 6, cyclic=True),
    "date": OrderedSubject(values.day, 1, DATE_MAX),
    "size": OrderedSubject(values.size_bytes),
    "last_access": OrderedSubject(values.duration_ms),
    "last_modified": OrderedSubject(values.duration_ms),
    "load": OrderedSubject(values.load_ppm),
    "nodes": OrderedSubject(values.count, 1),
}
TEXTUAL = {
    "owner": TextSubject(values.plain_text),
    "method": TextSubject(values.method),
    "host": TextSubject(values.host),
    "header": TextSubject(values.plain_text, needs_argument=True),
    "cookie": TextSubject(values.plain_text, needs_argument=True),
}

Ranges = tuple[tuple[int, int], ...]


def compared(kind: OrderedSubject, op: str, value: int) -> Ranges:
    """The numbers ``x`` with ``x op value``."""
    match op:
        case "<":
            ranges = [(kind.low, value - 1)]
        case "<=":
            ranges = [(kind.low, value)]
        case ">":
            ranges = [(value + 1, kind.high)]
        case ">=":
            ranges = [(value, kind.high)]
        case "=":
            ranges = [(value, value)]
        case _:
            ranges = [(kind.low, value - 1), (value + 1, kind.high)]
    return tidy((max(low, kind.low), min(high, kind.high)) for low, high in ranges)


def between(kind: OrderedSubject, low: int, high: int) -> Ranges:
    """The range from ``low`` to ``high``, which may wrap around if cyclic; empty if ``low`` is beyond ``high``."""
    end = high - 1 if kind.open_end else high
    if kind.cyclic and (low > high or (low == high and kind.open_end)):
        return tidy([(low, kind.high), (kind.low, end)])
    return tidy([(max(low, kind.low), min(end, kind.high))])


def tidy(ranges: Iterable[tuple[int, int]]) -> Ranges:
    """Normalise ranges: sort them, drop empty ones, join adjacent ones. Equal sets become equal values."""
    joined: list[tuple[int, int]] = []
    for low, high in sorted(pair for pair in ranges if pair[0] <= pair[1]):
        if joined and low <= joined[-1][1] + 1:
            joined[-1] = (joined[-1][0], max(joined[-1][1], high))
        else:
            joined.append((low, high))
    return tuple(joined)
