"""Two floors that have classes in common, where both lift. Pure, exact.

What the classes in both gain counts twice, so they are lifted first, until one of the floors is met or they can hold no
more; then each floor that is not met yet lifts all its classes together. Nothing smaller meets both floors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence


class Part(NamedTuple):
    """Classes that divide an amount by a level of their own; of it, some must hold ``least`` together."""

    members: tuple[int, ...]
    amount: int
    inner: tuple[int, ...] = ()
    least: int = 0


class Crossing:
    """The classes of two floors. ``needs`` are what the floors demand, ``most_of_both`` what common ones can hold."""

    def __init__(self, first: tuple[int, ...], second: tuple[int, ...]) -> None:
        self.first = first
        self.second = second
        self.both = tuple(one for one in first if one in second)
        self.members = tuple(sorted({*first, *second}))
        self._first_alone = tuple(one for one in first if one not in second)
        self._second_alone = tuple(one for one in second if one not in first)

    def total(
        self, ones: Sequence[int], pace: Sequence[int], most_of_both: int, needs: tuple[int, int]
    ) -> tuple[int, int]:
        """What all hold together, and what that gains per level."""
        held, held_pace = sum([ones[k] for k in self.members]), sum([pace[k] for k in self.members])
        short = [(need - sum([ones[k] for k in group]), group) for need, group in self._floors(needs)]
        lifting = [(amount, -sum([pace[k] for k in group])) for amount, group in short if amount > 0]
        for amount, amount_pace in lifting:
            held += amount
            held_pace += amount_pace
        if len(lifting) == 2:
            room = most_of_both - sum([ones[k] for k in self.both])
            twice, twice_pace = min(*lifting, (room, -sum([pace[k] for k in self.both])))
            held -= twice
            held_pace -= twice_pace
        return held, held_pace

    def parts(self, ones: Sequence[int], most_of_both: int, needs: tuple[int, int]) -> list[Part]:
        """Who divides what."""
        (first, _), (second, _) = short = [
            (need - sum([ones[k] for k in group]), group) for need, group in self._floors(needs)
        ]
        own = sum([ones[k] for k in self.both])
        twice = max(0, min(first, second, most_of_both - own))
        still = [(amount - twice, group) for amount, group in short if amount > twice]
        if not still:
            return [Part(self.both, own + twice)]
        if len(still) == 1:
            amount, group = still[0]
            return [Part(group, sum([ones[k] for k in group]) + twice + amount, self.both, own + twice)]
        alone = [
            Part(group, sum([ones[k] for k in group]) + amount)
            for group, (amount, _) in zip((self._first_alone, self._second_alone), still, strict=True)
        ]
        return [Part(self.both, own + twice), *alone]

    def _floors(self, needs: tuple[int, int]) -> tuple[tuple[int, tuple[int, ...]], tuple[int, tuple[int, ...]]]:
        return (needs[0], self.first), (needs[1], self.second)


def crossings(floors: Sequence[tuple[int, ...]]) -> list[tuple[int, int]] | None:
    """Which of these have classes in common; None if one has with two others."""
    found: list[tuple[int, int]] = []
    taken: set[int] = set()
    for f, floor in enumerate(floors):
        for g in range(f):
            if not set(floor).isdisjoint(floors[g]):
                if f in taken or g in taken:
                    return None
                taken |= {f, g}
                found.append((g, f))
    return found
