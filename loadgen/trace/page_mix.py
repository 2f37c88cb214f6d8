"""Page mix: weighted classes, and the pages within a class, chosen evenly or by Zipf's law. Pure."""

from __future__ import annotations

import re
from bisect import bisect_right
from itertools import accumulate
from typing import TYPE_CHECKING, NamedTuple, Protocol

from loadgen.trace.request import CLASS_LEN_MAX, fault_in_url
from qosweb.units import parse_number

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGES_MAX = 1_000_000
_CLASS_OF_PAGES = re.compile(r"/[^=?]*=[0-9.]+:(?=/|https?://)")  # a class with the name of a path
_RANGE = re.compile(r"\{([0-9]{1,9})\.\.([0-9]{1,9})\}")


class Dice(Protocol):
    """A source of randomness: numbers from 0 up to, but not including, 1."""

    def random(self) -> float: ...


class MixPart(NamedTuple):
    """A class, its weight, and its pages: ``before`` + number + ``after``, or ``before`` alone."""

    class_name: str
    weight: float
    before: str
    after: str = ""
    numbers: range = range(0)


def parse_mix(text: str) -> MixPart:
    """``A=30:/a.html``, ``B=70:/b/{1..500}.html``; without a class ``/page.html`` or ``/p/{1..9}.html``."""
    if text.startswith(("/", "http://", "https://")) and not _CLASS_OF_PAGES.match(text):
        return _with_pages("", 1.0, text, text)
    name, equals, rest = text.partition("=")
    weight, colon, url = rest.partition(":")
    if not (equals and colon and name):
        raise ValueError(f"'{text}' is not a part of a mix; write CLASS=WEIGHT:URL, such as A=30:/a.html")
    if len(name) > CLASS_LEN_MAX or not name.isprintable():
        raise ValueError(f"the class in '{text}' has to be at most {CLASS_LEN_MAX} printable characters")
    try:
        number = parse_number(weight, "a weight")
    except ValueError:
        raise ValueError(
            f"'{weight}' in '{text}' is not a weight; write such as {name}=30:{url or '/a.html'}"
        ) from None
    if not number:
        raise ValueError(f"the weight of '{name}' in '{text}' is 0; leave the class out, or give it a weight above 0")
    return _with_pages(name, number, url, text)


def _with_pages(name: str, weight: float, url: str, text: str) -> MixPart:
    found = _RANGE.search(url)
    plain = _RANGE.sub("1", url)
    if fault := fault_in_url(plain):
        raise ValueError(f"'{text}': {fault}")
    if "{" in plain or "}" in plain or (found and len(_RANGE.findall(url)) > 1):
        raise ValueError(f"'{text}': pages are numbered by one range in braces, such as /p/{{1..500}}.html")
    if not found:
        return MixPart(name, weight, url)
    first, last = int(found[1]), int(found[2])
    if not first <= last < first + PAGES_MAX:
        raise ValueError(
            f"'{text}': a range goes from the smaller number to the larger, over at most {PAGES_MAX} pages"
        )
    return MixPart(name, weight, url[: found.start()], url[found.end() :], range(first, last + 1))


class Pages:
    """Draws pages of one class. By Zipf's law the n-th page is drawn in proportion to n^-exponent."""

    def __init__(self, part: MixPart, zipf_exponent: float) -> None:
        self._part = part
        self._bounds: list[float] = []
        if zipf_exponent and len(part.numbers) > 1:
            self._bounds = list(accumulate((at + 1) ** -zipf_exponent for at in range(len(part.numbers))))

    def draw(self, dice: Dice) -> str:
        part = self._part
        if not part.numbers:
            return part.before
        at = draw(self._bounds, dice) if self._bounds else int(dice.random() * len(part.numbers))
        return f"{part.before}{part.numbers[at]}{part.after}"


def draw(bounds: Sequence[float], dice: Dice) -> int:
    """Draw a random index from cumulative weights."""
    return min(bisect_right(bounds, dice.random() * bounds[-1]), len(bounds) - 1)
