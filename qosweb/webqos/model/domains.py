"""Enumerates situations: example facts for every combination of outcomes that a set of conditions can have.

The values of each subject fall into finitely many equivalence classes that no condition distinguishes: ranges between
the limits in conditions, nested networks, the texts in conditions and any other text. One value represents each
class. A condition is satisfiable if and only if it holds in one of these situations.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from itertools import product
from math import prod
from typing import TYPE_CHECKING

from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.subjects import ORDERED
from qosweb.webqos.model.texts import text_choices, text_tests

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

Key = tuple[str, str]
_Choice = int | str | None


class TooManySituations(Exception):
    """The number of situations exceeds the limit."""


@dataclass(frozen=True, slots=True)
class Situation:
    """Facts with a chosen value for each subject."""

    chosen: dict[Key, _Choice] = field(default_factory=dict)

    def number(self, subject: str, argument: str) -> int | None:
        value = self.chosen.get((subject, argument))
        return value if isinstance(value, int) else None

    def text(self, subject: str, argument: str) -> str | None:
        value = self.chosen.get((subject, argument))
        return value if isinstance(value, str) else None

    def linked(self, pages: int) -> bool:
        return self.chosen.get(("linked", str(pages))) == 1


def situations(
    conditions: Iterable[c.Condition], most: int, implied_accesses: Iterable[tuple[Key, Key]] = ()
) -> Iterator[Situation]:
    """One situation for each combination of values. Raises TooManySituations at once if there are more than ``most``.

    Each pair in ``implied_accesses`` is (inner, outer): the outer pages include the inner ones, so that the last access
    to the outer pages is never older.
    """
    choices = _choices(list(conditions))
    if prod(map(len, choices.values())) > most:
        raise TooManySituations
    pairs = [pair for pair in implied_accesses if pair[0] in choices and pair[1] in choices]
    return (one for one in _all_of(choices) if all(_respects_implied(one, choices, *pair) for pair in pairs))


def _respects_implied(situation: Situation, choices: dict[Key, list[_Choice]], inner: Key, outer: Key) -> bool:
    age, outer_age = situation.number(*inner), situation.number(*outer)
    if age is None:
        return True
    later = [one for one in choices[inner] if isinstance(one, int) and one > age]
    return outer_age is not None and (not later or outer_age < min(later))


def outcomes(conditions: list[c.Condition], most: int) -> set[tuple[bool, ...]]:
    """All combinations of outcomes that ``conditions`` can have together."""
    return {
        tuple(c.holds(condition, situation) for condition in conditions) for situation in situations(conditions, most)
    }


def _all_of(choices: dict[Key, list[_Choice]]) -> Iterator[Situation]:
    keys = sorted(choices)
    days = set(_starts([low for low in choices.get(("date", ""), []) if isinstance(low, int)]))
    for values in product(*(choices[key] for key in keys)):
        situation = Situation(dict(zip(keys, values, strict=True)))
        if not days or _weekday_fits(situation, days):
            yield situation


def _starts(lows: list[int]) -> list[tuple[int, int]]:
    lows = sorted(lows)
    return list(zip(lows, [*(low - 1 for low in lows[1:]), c.UNBOUNDED], strict=False))


def _weekday_fits(situation: Situation, days: set[tuple[int, int]]) -> bool:
    """Whether the range of dates that the situation stands for contains its weekday."""
    weekday, day = situation.number("weekday", ""), situation.number("date", "")
    if weekday is None or day is None:
        return True
    last = next(high for low, high in days if low == day)
    return last - day >= 6 or weekday in {date.fromordinal(one).weekday() for one in range(day, last + 1)}


def _choices(conditions: list[c.Condition]) -> dict[Key, list[_Choice]]:
    found: dict[Key, list[_Choice]] = {}
    ordered: dict[Key, set[int]] = {}
    networks: set[str] = set()
    for leaf in {leaf for condition in conditions for leaf in c.leaves(condition)}:
        match leaf:
            case c.Within(subject, argument, ranges):
                ends = ordered.setdefault((subject, argument), set())
                ends.update(end for low, high in ranges for end in (low, high + 1))
            case c.ClientIn(named):
                networks.update(named)
            case c.Linked(pages):
                found["linked", str(pages)] = [0, 1]
    for key, ends in ordered.items():
        found[key] = _numbers(key[0], ends)
    for key, tests in text_tests(conditions).items():
        found[key] = text_choices(key, tests)
    if networks:
        found["client", ""] = _addresses(networks)
    return found


def _numbers(subject: str, ends: set[int]) -> list[_Choice]:
    kind = ORDERED.get(subject)
    low, high = (kind.low, kind.high) if kind else (0, c.UNBOUNDED)
    numbers: list[_Choice] = [*sorted({low, *(end for end in ends if low <= end <= high)})]
    # The age of an access and the attributes of a page may be unknown.
    return numbers if subject in ("time", "weekday", "date", "load", "nodes") else [*numbers, None]


def _addresses(networks: set[str]) -> list[_Choice]:
    parsed = [ip_network(network) for network in sorted(networks)]
    found: list[_Choice] = [None]
    everything: list[IPv4Network | IPv6Network] = [ip_network("0.0.0.0/0"), ip_network("::/0")]
    for network in {*parsed, *everything}:
        inner = [one for one in parsed if one != network and _is_within(one, network)]
        at = int(network.network_address)
        end = int(network.broadcast_address)
        for one in sorted(inner, key=lambda one: (int(one.network_address), -one.num_addresses)):
            if int(one.network_address) <= at <= int(one.broadcast_address):
                at = int(one.broadcast_address) + 1
        if at <= end:
            found.append(str(ip_address(at) if network.version == 4 else ip_address(at.to_bytes(16, "big"))))
    return sorted(set(found), key=str)


def _is_within(one: IPv4Network | IPv6Network, other: IPv4Network | IPv6Network) -> bool:
    return one.version == other.version and one.subnet_of(other)  # type: ignore[arg-type]
