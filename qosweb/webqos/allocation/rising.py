"""Max-min shares of the few classes that are bound to each other, as a function of the level of the water. Pure, exact.

At level t a class holds t, between its own bounds. A relation or a floor lifts what is on its left, a class or a group,
to what it demands. Nothing here ever falls when t rises, and what is reached this way is the least that any shares can
be in which all have risen to t. So the first bound from above to be broken stops exactly those whose rise makes its sum
grow, directly or through a relation that lifts; the others go on. The capacity is the last of these bounds.

A group that is lifted divides what it holds by a level of its own. That is right as long as nothing else asks how:
a bound, or a side of a relation, that has some of its classes but not all is beyond this method, as are relations that
lift each other without end. Then the answer is None, and the general method has to do it.

Levels are fractions; amounts are whole numbers, in parts that are fine enough for the level and all divisions.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from math import gcd, prod
from typing import TYPE_CHECKING, NamedTuple

from qosweb.webqos.allocation.crossing import Crossing, Part, crossings
from qosweb.webqos.allocation.water import surface
from qosweb.webqos.allocation.waterline import next_level

if TYPE_CHECKING:
    from collections.abc import Sequence

    from qosweb.webqos.allocation.general import Relation
    from qosweb.webqos.allocation.groups import Group

STEPS_MAX = 60  # in the search for one level
STOPS_MAX = 40


class Sum(NamedTuple):
    """Some classes, those of whole groups as groups; both by their place here."""

    ones: tuple[int, ...]
    groups: tuple[int, ...]


class Lift(NamedTuple):
    """``group`` or else ``one`` holds at least ``numerator / denominator * right``."""

    one: int
    group: int
    right: Sum
    numerator: int
    denominator: int


class Standing(NamedTuple):
    """All that is bound here at the level of ``level / parts``: amounts in the same parts; what they gain per level, in
    parts of the unit."""

    level: int
    parts: int
    ones: list[int]
    ones_pace: list[int]
    groups: list[int]
    groups_pace: list[int]
    unit: int


class Stood(NamedTuple):
    """A level, and in the same parts what each class holds there."""

    level: int
    parts: int
    amounts: dict[int, int]


Limit = tuple[Sum, int, int]  # a sum, and the most that it can be, with its denominator
Stand = Callable[[int, int], "Standing | None"]


class Rising:
    """The relations, ceilings and floors that bind; ``full`` classes have all that they may have."""

    def __init__(
        self,
        offsets: Sequence[int],
        relations: Sequence[Relation],
        ceilings: Sequence[Group],
        floors: Sequence[Group],
        full: frozenset[int],
    ) -> None:
        named = {one for r in relations for one in (*r.left, *r.right)}
        relations = [r for r in relations if r.right and r.weight_right]
        lefts = [*dict.fromkeys(r.left for r in relations if len(r.left) > 1)]
        pairs = crossings([group for group, _ in floors])
        crossing = {f for pair in pairs or () for f in pair}
        unions = [tuple(sorted({*floors[a][0], *floors[b][0]})) for a, b in pairs or ()]
        groups = [*unions, *dict.fromkeys([*lefts, *(g for f, (g, _) in enumerate(floors) if f not in crossing)])]
        sums = [*(side for r in relations for side in (r.left, r.right)), *(group for group, _ in ceilings)]
        self.possible = (
            pairs is not None
            and _whole_groups(groups, sums)
            and all(r.left and r.weight_left for r in relations)
            and not any(union in lefts for union in unions)
        )
        self._course: RisingCourse | None = None
        if not self.possible:
            return
        self.classes = sorted({one for group in (*sums, *groups, full, named) for one in group})
        self._place = {one: k for k, one in enumerate(self.classes)}
        self.offsets = [offsets[one] for one in self.classes]
        self.full = [one in full for one in self.classes] if full else None
        self.groups = [self._places(group) for group in groups]
        number = {group: g for g, group in enumerate(groups)}
        self.lifts = [
            Lift(
                self._place[r.left[0]] if len(r.left) == 1 else -1,
                number[r.left] if len(r.left) > 1 else -1,
                self._sum(r.right),
                r.weight_right,
                r.weight_left,
            )
            for r in relations
        ]
        self.lifts, self.passes = _in_order(self.lifts, self.groups)
        self.unit = prod(lift.denominator for lift in self.lifts)
        self.floors = [
            (number[group], self._places(group), ppm) for f, (group, ppm) in enumerate(floors) if f not in crossing
        ]
        # The first groups are those of two floors that have classes in common.
        self.crossings = [
            (Crossing(self._places(floors[a][0]), self._places(floors[b][0])), floors[a][1], floors[b][1])
            for a, b in pairs or ()
        ]
        self.ceilings = [(self._sum(group), ppm) for group, ppm in ceilings]
        self.lifted = sorted({lift.one for lift in self.lifts if lift.one >= 0})

    def begin(self, demand: Sequence[int], low: Sequence[int], high: Sequence[int]) -> None:
        """The demands of these classes, and their own bounds, are now these."""
        self._course = RisingCourse(self, demand, low, high)

    def stand(self, level: int, parts: int) -> tuple[Stood, tuple[int, int]] | None:
        """What they hold at ``level / parts``, and what all gain per level; None if it is beyond this method."""
        course = self._course
        standing = course.advance(level, parts) if course is not None else None
        found = course.found(standing) if course is not None and standing is not None else None
        if found is None or standing is None:
            return None
        pace = sum(standing.ones_pace) + sum(standing.groups_pace)
        pace -= sum([standing.ones_pace[k] for members in self.groups for k in members])
        return found, (pace, self.unit)

    def _places(self, group: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(self._place[one] for one in group)

    def _sum(self, group: tuple[int, ...]) -> Sum:
        places = {self._place[one] for one in group}
        inside = [g for g, members in enumerate(self.groups) if places.issuperset(members)]
        taken = {k for g in inside for k in self.groups[g]}
        return Sum(tuple(sorted(places - taken)), tuple(inside))


class RisingCourse:
    """What is known of one course. ``_caps`` are the most that classes can hold.

    They, the lower bounds and the floors are in parts of the same size. What was found out up to one level is true at
    every other: a class that stops at a level holds less than that below it.
    """

    def __init__(self, rising: Rising, demand: Sequence[int], low: Sequence[int], high: Sequence[int]) -> None:
        self._rising = rising
        self._low: Sequence[int] = low
        self._caps: Sequence[int] = high
        if rising.full is not None:
            self._low = [
                most if full else least for least, most, full in zip(self._low, self._caps, rising.full, strict=True)
            ]
        self._needs = [0] * len(rising.groups)
        for g, places, ppm in rising.floors:
            self._needs[g] = min(ppm, sum([demand[k] for k in places]))
        for crossing, *ppms in rising.crossings:
            for places, ppm in zip((crossing.first, crossing.second), ppms, strict=True):
                self._needs.append(min(ppm, sum([demand[k] for k in places])))
        self._bound_parts = 1
        self._yielded = False
        self._fixed = [False] * len(demand)

    def advance(self, level: int, parts: int) -> Standing | None:
        """How all stand at this level when bounds from above have acted; None if they cannot, or nobody can tell."""
        now = self.stand(level, parts)
        for _ in range(STOPS_MAX):
            if now is None:
                return None
            broken = self._broken(now)
            if not broken:
                return now
            first = self._first(self.stand, broken, now)
            if first is None:
                if self._yielded or not self._yield():
                    return None
                self._yielded = True
            elif not self._stop(*first):
                return None
            now = self.stand(level, parts)
        return None

    def _first(self, stand: Stand, broken: list[Limit], standing: Standing) -> tuple[Sum, Standing] | None:
        """Which of these limits, all broken as things stand, is reached first, and how all stand there."""
        first: tuple[Sum, Standing] | None = None
        for total, limit, limit_parts in broken:
            there = self._search(stand, total, limit, limit_parts, standing)
            if there is None:
                return None
            if first is None or there.level * first[1].parts < first[1].level * there.parts:
                first = total, there
        return first

    def _yield(self) -> bool:
        """Floors of classes that a bound from above leaves no room for: all get the same part of theirs, then stay.

        False if it is more than floors of single classes that would have to yield.
        """
        if self._rising.full is not None or any(self._needs):
            return False
        for _ in range(STOPS_MAX):
            standing = self._stand_at_floors(1, 1)
            broken = self._broken(standing) if standing is not None else []
            if standing is None or not broken:
                return standing is not None
            first = self._first(self._stand_at_floors, broken, standing)
            if first is None:
                return False
            growing = [k for k in self._growing(*first) if not self._fixed[k]]
            if not any(self._low[k] for k in growing):
                return False
            there = first[1]
            scale = there.parts // self._bound_parts
            low, caps = [least * scale for least in self._low], [cap * scale for cap in self._caps]
            for k in growing:
                low[k] = caps[k] = there.ones[k]
                self._fixed[k] = True
            self._rescale(low, caps, [], there.parts)
        return False

    def _stand_at_floors(self, level: int, parts: int) -> Standing | None:
        """Every class at the same part of its floor, ``level / parts``."""
        unit = self._rising.unit
        ones = [least * (parts if fixed else level) * unit for least, fixed in zip(self._low, self._fixed, strict=True)]
        pace = [0 if fixed else least * unit for least, fixed in zip(self._low, self._fixed, strict=True)]
        groups = [sum([ones[k] for k in members]) for members in self._rising.groups]
        groups_pace = [sum([pace[k] for k in members]) for members in self._rising.groups]
        if not self._lift(ones, pace, groups, groups_pace):
            return None
        finer = self._bound_parts * unit
        return Standing(level * finer, parts * finer, ones, pace, groups, groups_pace, finer)

    def stand(self, level: int, parts: int) -> Standing | None:
        """Everything at ``level / parts``; None if there is no telling."""
        rising = self._rising
        unit = rising.unit
        finer = self._bound_parts * unit // gcd(self._bound_parts, parts)
        level, parts = level * finer, parts * finer
        scale = parts // self._bound_parts
        ones: list[int] = []
        pace: list[int] = []
        whole = level // parts
        if self._bound_parts == 1:
            for least, most, offset in zip(self._low, self._caps, rising.offsets, strict=True):
                here = whole - offset
                if here < least:
                    ones.append(least * parts)
                    pace.append(0)
                elif here >= most:
                    ones.append(most * parts)
                    pace.append(0)
                else:
                    ones.append(level - offset * parts)
                    pace.append(unit)
        else:
            for least, most, offset in zip(self._low, self._caps, rising.offsets, strict=True):
                here = level - offset * parts
                if here < least * scale:
                    ones.append(least * scale)
                    pace.append(0)
                elif here >= most * scale:
                    ones.append(most * scale)
                    pace.append(0)
                else:
                    ones.append(here)
                    pace.append(unit)
        groups: list[int] = []
        groups_pace: list[int] = []
        for g, members in enumerate(rising.groups):
            own, own_pace = sum([ones[k] for k in members]), sum([pace[k] for k in members])
            if g < len(rising.crossings):
                own, own_pace = rising.crossings[g][0].total(ones, pace, *self._crossing_needs(g, scale))
            elif own < self._needs[g] * scale:
                own, own_pace = self._needs[g] * scale, 0
            groups.append(own)
            groups_pace.append(own_pace)
        if not self._lift(ones, pace, groups, groups_pace):
            return None
        return Standing(level, parts, ones, pace, groups, groups_pace, unit)

    def _crossing_needs(self, g: int, scale: int) -> tuple[int, tuple[int, int]]:
        """The most that the classes in both floors can hold, and what the two demand."""
        first = len(self._rising.groups) + 2 * g
        most = sum([self._caps[k] for k in self._rising.crossings[g][0].both])
        return most * scale, (self._needs[first] * scale, self._needs[first + 1] * scale)

    def _lift(self, ones: list[int], pace: list[int], groups: list[int], groups_pace: list[int]) -> bool:
        """Let the relations act until all hold. False if that does not end, or is no matter of whole parts."""
        lifts = self._rising.lifts
        for _ in range(self._rising.passes):
            done = True
            for one, group, right, numerator, denominator in lifts:
                amounts, paces, at = (ones, pace, one) if one >= 0 else (groups, groups_pace, group)
                need = need_pace = 0
                for k in right.ones:
                    need += ones[k]
                    need_pace += pace[k]
                for g in right.groups:
                    need += groups[g]
                    need_pace += groups_pace[g]
                need, rest = divmod(need * numerator, denominator)
                if need < amounts[at]:
                    continue
                need_pace, pace_rest = divmod(need_pace * numerator, denominator)
                if need == amounts[at] and not rest and need_pace <= paces[at]:
                    continue
                if rest or pace_rest:
                    return False
                amounts[at] = need
                paces[at] = need_pace
                done = False
            if done or self._rising.passes == 1:
                return True
        return False

    def _search(self, stand: Stand, total: Sum, limit: int, limit_parts: int, start: Standing) -> Standing | None:
        """Where ``total``, beyond the limit now, has reached it; None if it was beyond it from the start."""
        below = (-1, 1)
        above = start.level, start.parts
        standing: Standing | None = start
        for _ in range(STEPS_MAX):
            if standing is None:
                return None
            level, parts = standing.level, standing.parts
            held = sum([standing.ones[k] for k in total.ones]) + sum([standing.groups[g] for g in total.groups])
            missing = limit * parts - held * limit_parts
            if not missing:
                return standing
            if missing > 0:
                below = level, parts
            else:
                if level <= 0:
                    return None
                above = level, parts
            missing *= standing.unit
            pace = sum([standing.ones_pace[k] for k in total.ones])
            pace += sum([standing.groups_pace[g] for g in total.groups])
            pace *= limit_parts
            if missing < 0 and below[0] < 0 and level * pace + missing < 0:
                level, parts = 0, 1  # if it is broken from the start, there is no more to be found out
            else:
                level, parts = next_level(level, parts, missing, pace, below, above)
            standing = stand(max(level, 0), parts)
        return None

    def _broken(self, standing: Standing) -> list[Limit]:
        """The bounds from above that do not hold."""
        rising = self._rising
        parts = standing.parts
        found: list[Limit] = []
        for total, ppm in rising.ceilings:
            held = sum([standing.ones[k] for k in total.ones]) + sum([standing.groups[g] for g in total.groups])
            if held > ppm * parts:
                found.append((total, ppm, 1))
        scale = parts // self._bound_parts
        found += [
            (Sum((k,), ()), self._caps[k], self._bound_parts)
            for k in rising.lifted
            if standing.ones[k] > self._caps[k] * scale
        ]
        for g, members in enumerate(rising.groups):
            most = sum([self._caps[k] for k in members])
            if standing.groups[g] > most * scale:
                found.append((Sum((), (g,)), most, self._bound_parts))
        return found

    def _growing(self, total: Sum, standing: Standing) -> list[int]:
        """The classes whose rise makes ``total`` grow, be it through what they lift."""
        rising = self._rising
        found: list[int] = []
        ones, groups = [*total.ones], [*total.groups]
        seen: set[tuple[int, int]] = set()
        while ones or groups:
            one, group = (ones.pop(), -1) if ones else (-1, groups.pop())
            if (one, group) in seen:
                continue
            seen.add((one, group))
            if one >= 0:
                held = standing.ones[one]
                found.append(one)
            else:
                held = standing.groups[group]
                members = rising.groups[group]
                if held == sum([standing.ones[k] for k in members]):
                    found += members
            for lift in rising.lifts:
                if (lift.one, lift.group) == (one, group):
                    right = sum([standing.ones[k] for k in lift.right.ones])
                    right += sum([standing.groups[g] for g in lift.right.groups])
                    if lift.numerator * right == held * lift.denominator:
                        ones += lift.right.ones
                        groups += lift.right.groups
        return found

    def _stop(self, total: Sum, standing: Standing) -> bool:
        """``total`` has reached its limit: what makes it grow stays where it is. False if nothing does."""
        scale = standing.parts // self._bound_parts
        caps = [cap * scale for cap in self._caps]
        stopped = False
        for k in self._growing(total, standing):
            if standing.ones[k] < caps[k]:
                caps[k] = standing.ones[k]
                stopped = True
        low, needs = [least * scale for least in self._low], [need * scale for need in self._needs]
        self._rescale(low, caps, needs, standing.parts)
        return stopped

    def _rescale(self, low: list[int], caps: list[int], needs: list[int], parts: int) -> None:
        divisor = gcd(parts, *low, *caps, *needs)
        self._low = [least // divisor for least in low]
        self._caps = [cap // divisor for cap in caps]
        self._needs = [need // divisor for need in needs] or self._needs
        self._bound_parts = parts // divisor

    def found(self, standing: Standing) -> Stood | None:
        """Groups that are lifted divide what they hold by a level of their own."""
        rising = self._rising
        dividing: list[Part] = []
        for g, members in enumerate(rising.groups):
            held = standing.groups[g]
            if held == sum([standing.ones[k] for k in members]):
                continue
            if g < len(rising.crossings):
                needs = self._crossing_needs(g, standing.parts // self._bound_parts)
                dividing += rising.crossings[g][0].parts(standing.ones, *needs)
            else:
                dividing.append(Part(members, held))
        found = Stood(standing.level, standing.parts, dict(zip(rising.classes, standing.ones, strict=True)))
        for part in dividing:
            members, held, inner, least = part
            divided = self._divide(found, members, held * (found.parts // standing.parts))
            if divided is not None and inner:
                scale = divided.parts // standing.parts
                if sum([divided.amounts[rising.classes[k]] for k in inner]) < least * scale:
                    divided = self._divide(found, inner, least * (found.parts // standing.parts))
                    others = tuple(k for k in members if k not in inner)
                    if divided is not None and others:
                        divided = self._divide(divided, others, (held - least) * (divided.parts // standing.parts))
            if divided is None:
                return None
            found = divided
        return found

    def _divide(self, found: Stood, members: Sequence[int], held: int) -> Stood | None:
        """The same, with these classes at the one level at which they hold so much; None if they cannot."""
        rising = self._rising
        level, parts, amounts = found
        scale = parts // self._bound_parts
        low, high = [self._low[k] * scale for k in members], [self._caps[k] * scale for k in members]
        if held > sum(high):
            return None
        own, missing, even = surface(low, high, [rising.offsets[k] * parts for k in members], held)
        even = even or 1
        parts *= even
        amounts = {one: amount * even for one, amount in amounts.items()}
        own = own * even + missing
        for k, least, most in zip(members, low, high, strict=True):
            here = own - rising.offsets[k] * parts
            amounts[rising.classes[k]] = min(max(here, least * even), most * even)
        return Stood(level * even, parts, amounts)


def _whole_groups(groups: Sequence[tuple[int, ...]], sums: Sequence[tuple[int, ...]]) -> bool:
    """Does every sum have all the classes of a group, or none, and no group anything of another one?"""
    sets = [frozenset(group) for group in groups]
    if any(one & other for one, other in combinations(sets, 2)):
        return False
    return all(group.isdisjoint(one) or group.issubset(one) for one in sums for group in sets)


def _in_order(lifts: list[Lift], groups: list[tuple[int, ...]]) -> tuple[list[Lift], int]:
    """Those first that no other lifts; and how often all have to act until nothing changes any more."""
    ordered: list[Lift] = []
    waiting = lifts
    while waiting:
        lifted = {(lift.one, lift.group) for lift in waiting}
        # A class in a group is never lifted on its own.
        ready = [
            lift
            for lift in waiting
            if not any((k, -1) in lifted for k in lift.right.ones)
            and not any((-1, g) in lifted or any((k, -1) in lifted for k in groups[g]) for g in lift.right.groups)
        ]
        if not ready:
            return [*ordered, *waiting], len(lifts) + 1
        ordered += ready
        waiting = [lift for lift in waiting if lift not in ready]
    return ordered, 1
