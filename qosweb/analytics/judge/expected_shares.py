"""Expected shares: demand, capacity and fair share of each class in one part of a window. Pure.

Only contended slots count: without contention no class is held back, so a share cannot be tested. The amount to divide
is the amount that was served. A request that was denied or expired, or whose client gave up, counts with the mean
response size of its class. In a pool of resources that the log knows, waiting is demand, too: a class that had a
request waiting for a part of the time asked for at least that part of its share, also if none was denied. A response in
service is not interrupted, so each period of waiting may be one response short of that (the bound of packet fair
queueing), also where a period goes on in the next moment; a class whose small requests only wait for the end of a large
response is not starved. The expected amount of a class is what the language's own division gives for this demand,
moment by moment.

Pauses. The scheduler divides by the demand of the last second, and lets a class make up for a pause in which others
used its share (see docs/explanation/shares.md). So what a class is due at least does not grow while another class
pauses that lacked something in the moment before, or has waited in each moment since then. And what a class had beyond
its due counts against what it is due afterwards, while every second is contended, and by at most what it is due in
MADE_UP_S.
Neighbours: ``share_verdicts``, ``rate_verdicts`` and ``priority_verdicts`` compare the log with these amounts.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from qosweb.analytics.read.pools import NODES
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.model.model import Bytes, Requests
from qosweb.webqos.policy.division import Division
from qosweb.webqos.policy.environment import REQUEST_BYTES, ShareBasis
from qosweb.webqos.policy.terms import ConflictingValues, Terms, terms_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from qosweb.analytics.read.policies import LoggedPolicy
    from qosweb.analytics.read.rows import AnalysisLimits, ClassSums, Part
    from qosweb.webqos.policy.binding import Binding

MADE_UP_S = 4  # as long may a class be held back that used the pauses of others (CREDIT_MS of the scheduler)
SIZES_ALIKE = 1.5  # largest over smallest mean response size


class DividedSlot(NamedTuple):
    """One moment: what the always available classes left, and, by class, demand, expected amount and least amount."""

    left: float
    asked: list[float]
    expected: list[float]
    due: list[float]


class MadeUp:
    """What carries over from one moment to the next: who lacked something, and what each class had beyond its due."""

    def __init__(self) -> None:
        self.slot = -1  # the last one
        self.short: set[int] = set()
        self.beyond: dict[int, float] = {}

    def begin(self, first: int) -> None:
        """A moment begins with the slot `first`. Nothing carries over a slot without contention."""
        if first != self.slot + 1:
            self.short, self.beyond = set(), {}


class _Backlog(NamedTuple):
    """How long a class had a request waiting: as a part of the time, and in how many periods."""

    part: float
    periods: int


class _Amounts(NamedTuple):
    """Amounts of one moment, from slot ``first`` to ``last``; by class what it got, its demand, and its backlog."""

    first: int
    last: int
    got: list[float]
    asked: list[float]
    total: float
    backlog: Mapping[int, _Backlog]


class ExpectedShares:
    """Amounts by class number, in bytes (with the fixed cost of requests); ``counted`` amounts are requests."""

    def __init__(
        self,
        policy: LoggedPolicy,
        binding: Binding,
        part: Part,
        limits: AnalysisLimits,
        nodes: tuple[int, int] = (1, 1),
        capacity_bps: tuple[int, int] | None = None,
        means: Mapping[str, float] | None = None,
        request_cost: int | None = None,
        made_up: MadeUp | None = None,
    ) -> None:
        """``made_up``: of the part before; it is changed to that of this part."""
        self._made_up = made_up or MadeUp()
        self._beyond: dict[int, float] = {}  # at the beginning
        self.policy, self.binding, self.part, self.limits = policy, binding, part, limits
        self.nodes, self.capacity_bps = nodes, capacity_bps
        self.cells: dict[int, ClassSums] = {}
        self.strangers: list[str] = []  # classes of the log that the policy does not define
        for cell in part.cells:
            number = policy.numbers.get(cell.name)
            if number is None:
                self.strangers.append(cell.name)
            else:
                self.cells[number] = cell
        self.is_of_servers = part.key.pool not in ("", NODES)  # amounts are slot time, in microseconds
        self.unit = "slot us" if self.is_of_servers else "bytes"
        self.request_cost = cost = limits.request_cost if request_cost is None else request_cost
        count = len(policy.model.classes)
        self.got = [0.0] * count
        self.asked = [0.0] * count
        self.counted_got = [0] * count
        self.counted_asked = [0] * count
        self.response_max = [0.0] * count
        self._mean = [0.0] * count
        self.total = float(sum(c.busy_bytes + cost * (c.busy_served + c.busy_failed) for c in part.cells))
        self.counted_total = sum(c.busy_served for c in part.cells)
        all_done = sum(c.busy_served + c.busy_failed for c in part.cells)
        anybody = self.total / all_done if all_done else float(REQUEST_BYTES)
        for number, cell in self.cells.items():
            done = cell.busy_served + cell.busy_failed
            self.got[number] = cell.busy_bytes + cost * done
            mean = self.got[number] / done if done else (means or {}).get(cell.name, anybody) + cost
            held_back = 0 if self.is_turned_away(number) else cell.busy_held_back
            self.asked[number] = self.got[number] + held_back * mean
            self._mean[number] = mean
            self.counted_got[number] = cell.busy_served
            self.counted_asked[number] = cell.busy_served + held_back
            self.response_max[number] = max(
                cell.size_max + cost, mean
            )  # a class without responses: the mean is the best guess
        for number in binding.always:  # denied requests count only for its own guarantee
            self.asked[number], self.counted_asked[number] = self.got[number], self.counted_got[number]
        self._capped: set[int] = set()
        self._cap_demand_at_bounds()
        if self._has_backlog and self.total > 0:
            asked = [sum(one.asked[at] for one in self.moments) for at in range(count)]
            self.asked = [max(pair) for pair in zip(self.asked, asked, strict=True)]

    @property
    def _has_backlog(self) -> bool:
        return any(amount.backlog for moment in self.part.moments for amount in moment.amounts)

    @cached_property
    def moments(self) -> list[DividedSlot]:
        """The contended time in pieces: capacity unused in one piece is not saved for the next."""
        return self._divide() if self.total > 0 else []

    @cached_property
    def expected(self) -> list[float]:
        """The amount that the division gives each class, moment by moment, added up."""
        return [sum(one.expected[at] for one in self.moments) for at in range(len(self.got))]

    def due(self, number: int) -> float:
        """The least amount that the division and the class's use of earlier pauses of others leave to it."""
        return max(0.0, sum(one.due[number] for one in self.moments) - self._beyond.get(number, 0.0))

    def at_least(self, classes: Iterable[int], ppm: int) -> float:
        """A part of the amount to divide, or the whole demand if that is less; moment by moment."""
        classes = tuple(classes)
        return sum(min(ppm * one.left / PPM, sum(one.asked[at] for at in classes)) for one in self.moments)

    def at_most(self, classes: Iterable[int], ppm: int) -> float:
        """A part of the amount to divide, or what the division gives if that is more; moment by moment."""
        classes = tuple(classes)
        return sum(max(ppm * one.left / PPM, sum(one.expected[at] for at in classes)) for one in self.moments)

    @property
    def left(self) -> float:
        """The amount that the always available classes left to the others."""
        return self.total - sum(self.got[at] for at in self.binding.always)

    @property
    def sizes_differ(self) -> bool:
        """True if mean response sizes differ so much that bytes alone do not show the cost of each class."""
        served = [cell for cell in self.cells.values() if cell.busy_served and cell.busy_bytes]
        sizes = [cell.busy_bytes / cell.busy_served for cell in served]
        return bool(sizes) and max(sizes) > SIZES_ALIKE * min(sizes)

    def mean(self, number: int) -> float:
        """Mean response size of a class."""
        return self._mean[number]

    def terms(self, number: int) -> Terms | None:
        try:
            return terms_of(self.policy.model, self.policy.coverage, self.binding, number)
        except ConflictingValues:
            return None

    def is_turned_away(self, number: int) -> bool:
        """True outside the primary view for a class that the specification denies there."""
        if not self.part.key.scope:
            return False
        terms = self.terms(number)
        return terms is not None and terms.in_minority == "deny"

    def others(self, classes: Iterable[int]) -> tuple[int, ...]:
        """The classes without the always available ones."""
        return tuple(at for at in classes if at not in self.binding.always)

    def names(self, classes: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.policy.model.classes[at].name for at in classes)

    def rate_bound(self, value: Requests | Bytes, *, most: bool) -> float:
        """The bound per second. If the number of nodes changed, the bound that cannot accuse wrongly."""
        per_s = value.urps / 1e6 if isinstance(value, Requests) else float(value.bps)
        return per_s * (self.nodes[1 if most else 0] if value.per_node else 1)

    def _cap_demand_at_bounds(self) -> None:
        """A class at an upper bound on its rate is not held back by other classes: it demanded as much as it got."""
        part, limits = self.part, self.limits
        for one in self.binding.in_force:
            rule = self.policy.model.constraints[one.number]
            if not one.upper or not isinstance(rule.value, Requests | Bytes):
                continue
            if self.is_of_servers and isinstance(rule.value, Bytes):
                continue
            bound = self.rate_bound(rule.value, most=False) * part.seconds
            cells = [self.cells[at] for at in one.upper if at in self.cells]
            has = sum(c.served if isinstance(rule.value, Requests) else c.sent_bytes for c in cells)
            if has >= bound * (1 - limits.rate_tolerance) - 1:
                self._capped.update(one.upper)
                for at in one.upper:
                    self.asked[at], self.counted_asked[at] = self.got[at], self.counted_got[at]

    def _divide(self) -> list[DividedSlot]:
        rated = [
            self.cells[at]
            for one in self.binding.in_force
            if isinstance(self.policy.model.constraints[one.number].value, Requests)
            for at in {*one.lower, *one.upper}
            if at in self.cells
        ] or list(self.cells.values())
        served = sum(c.busy_served for c in rated)
        size = int(sum(c.busy_bytes for c in rated) / served) if served else REQUEST_BYTES
        per_s = int(self.total / self.part.busy_s) if self.part.busy_s and not self.is_of_servers else None
        division = Division(
            self.policy.model, self.policy.coverage, self.binding, ShareBasis(self.nodes[0], per_s, max(1, size))
        )
        if not self.part.moments:
            return [self._divided(division, _Amounts(0, 0, self.got, self.asked, self.total, {}), {})]
        self._made_up.begin(self.part.moments[0].slot)
        self._beyond = dict(self._made_up.beyond)
        excused: dict[int, float] = {}
        return [self._divided(division, amounts, excused) for amounts in self._amounts() if amounts.total > 0]

    def _divided(self, division: Division, amounts: _Amounts, excused: dict[int, float]) -> DividedSlot:
        """Divides one moment. A class that had a request waiting for some time asked for all that it was due then.

        ``excused``: how much a class may still be short in a period of waiting that goes on; kept up to date.
        """
        first, last, got, asked, total, backlog = amounts
        demand = [min(PPM, round(amount * PPM / total)) for amount in asked]
        one_response = max(self.response_max)
        before = {at: min(left, one_response) for at, left in excused.items()}
        excused.clear()
        if backlog:
            with_backlog = division.shares([PPM if at in backlog else ppm for at, ppm in enumerate(demand)])
            asked = list(asked)
            for at, waited in backlog.items():
                wanted = waited.part * with_backlog[at] * total / PPM
                excuse = before.get(at, 0.0) + waited.periods * one_response
                asked[at] = max(asked[at], wanted - excuse)
                excused[at] = max(0.0, excuse - wanted)
            demand = [min(PPM, round(amount * PPM / total)) for amount in asked]
        shares = division.shares(demand)
        left = total - sum(got[at] for at in self.binding.always)
        expected = [share * total / PPM for share in shares]
        made_up = self._made_up
        made_up.begin(first)
        made_up.slot = last
        lacks = {at for at, share in enumerate(shares) if demand[at] > share + 1 and at not in self.binding.always}
        due = expected
        if made_up.short - lacks:
            kept = division.shares([PPM if at in made_up.short | lacks else ppm for at, ppm in enumerate(demand)])
            due = [min(amount, share * total / PPM) for amount, share in zip(expected, kept, strict=True)]
        made_up.short = lacks | (made_up.short & backlog.keys())  # a class that still waits has not paused
        seconds = (last - first + 1) * self.limits.slot_s
        for at, amount in enumerate(due):
            beyond = made_up.beyond.get(at, 0.0) + got[at] - amount
            made_up.beyond[at] = min(max(0.0, beyond), amount * MADE_UP_S / seconds)
        return DividedSlot(left, asked, expected, due)

    def _amounts(self) -> Iterator[_Amounts]:
        """The contended time in pieces of a slot or of the longest lifetime.

        A request that still waits is not yet in the log, so shorter pieces would miss demand.
        """
        lifetimes_ms = [terms.lifetime_ms or 0 for at in self.cells if (terms := self.terms(at)) is not None]
        step = max(1, math.ceil(max(lifetimes_ms, default=0) / 1000 / self.limits.slot_s))
        held_back = [not self.is_turned_away(at) and self.asked[at] > self.got[at] for at in range(len(self.got))]
        cost = self.request_cost
        for _, group in groupby(self.part.moments, key=lambda moment: moment.slot // step):
            moments = list(group)
            got, asked, total = [0.0] * len(self.got), [0.0] * len(self.got), 0.0
            backlog: dict[int, _Backlog] = {}
            for amount in (amount for moment in moments for amount in moment.amounts):
                number = self.policy.numbers.get(amount.name)
                has = float(amount.sent_bytes + cost * amount.done)
                total += has
                if number is not None:
                    got[number] += has
                    asked[number] += has + (amount.held_back * self._mean[number] if held_back[number] else 0.0)
                    if amount.backlog and number not in self._capped and number not in self.binding.always:
                        part, periods = backlog.get(number, _Backlog(0.0, 0))
                        backlog[number] = _Backlog(part + amount.backlog / len(moments), periods + amount.waits)
            yield _Amounts(moments[0].slot, moments[-1].slot, got, asked, total, backlog)
