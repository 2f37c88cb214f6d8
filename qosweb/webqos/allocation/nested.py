"""Max-min shares under nested bounds: water filling in integers, in microseconds. Pure.

Pour water into all classes at once. A class at water level t holds t, but not less than its lower and not more than
its upper bound. A group holds what its members hold, again within its own two bounds. The total is a function of t that
never falls, so there is a level at which the total equals the capacity. A group that its own bound has stopped has its
own level inside, found in the same way. Priority is height: the classes of each next level of priority stand one whole
capacity higher, so the water reaches them when all classes before them are full.

Between levels the amounts are fractions. The amount of a group is an integer before its members divide it. Each member
gets its exact part rounded down; the remaining units go, one each, to the members with the largest fraction, then to
the lower number. So the amount of every class and every group is its exact value rounded up or down, and no bound is
broken.
"""

from __future__ import annotations

from operator import sub
from typing import TYPE_CHECKING

from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.allocation.water import GroupTree, WaterDivision

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from qosweb.webqos.allocation.groups import Group


class Nested:
    """Nested bounds, ready to be filled.

    Of bounds that are not nested, a nested part is taken; ``others`` are the remaining floors and ceilings. Classes and
    groups are numbered together: first the classes, then the groups, each after all that it contains, the last being
    the group of all classes.
    """

    def __init__(
        self,
        levels: Sequence[int],
        floors: Iterable[Group],
        ceilings: Iterable[Group],
    ) -> None:
        self._classes = len(levels)
        self._offsets = [level * PPM for level in levels]
        floors, ceilings = list(floors), list(ceilings)
        whole = tuple(range(self._classes))
        bound = [group for group, _ in (*floors, *ceilings) if len(group) > 1]
        groups = _nested_part([whole, *bound])
        number = {group: self._classes + g for g, group in enumerate(groups)}
        number |= {(one,): one for one in whole if self._classes > 1}
        self._floor = [0] * (self._classes + len(groups))
        self._ceiling = [PPM] * (self._classes + len(groups))
        for group, ppm in floors:
            if group in number:
                self._floor[number[group]] = ppm
        for group, ppm in ceilings:
            if group in number:
                self._ceiling[number[group]] = min(ppm, PPM)
        self.others = (
            [(group, ppm) for group, ppm in floors if group not in number],
            [(group, ppm) for group, ppm in ceilings if group not in number],
        )
        self._tree = GroupTree(self._classes, groups)

    def fill(self, demand: Sequence[int], held: Sequence[int] = ()) -> list[int] | None:
        """The shares; None if the floors cannot all be met.

        The amounts in ``held`` are kept: all classes start to rise from there at the same time, not the smallest first.
        """
        classes = self._classes
        # Inlined: min() takes several times as long.
        high = [ask if ask < most else most for ask, most in zip(demand, self._ceiling, strict=False)]  # noqa: FURB136
        low = [least if least < most else most for least, most in zip(held or self._floor, high, strict=False)]  # noqa: FURB136
        offsets = [*map(sub, self._offsets, held)] if held else self._offsets
        for g, children in enumerate(self._tree.children, classes):
            least = sum([low[c] for c in children])
            most = min(sum([high[c] for c in children]), self._ceiling[g])
            if least > most:
                return None
            high.append(most)
            low.append(max(least, min(self._floor[g], most)))
        return WaterDivision(self._tree, offsets, low, high).shares()


def _nested_part(groups: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Groups that contain each other or are disjoint, inner groups before outer ones."""
    taken: dict[tuple[int, ...], frozenset[int]] = {}
    for group in groups:
        members = frozenset(group)
        if all(members <= other or other <= members or not members & other for other in taken.values()):
            taken[group] = members
    return sorted(taken, key=lambda group: (len(group), group))
