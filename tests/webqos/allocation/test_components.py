"""What classes that are bound to each other hold at a level, and that what is remembered of it proves what follows."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from qosweb.webqos.allocation import component
from qosweb.webqos.allocation.component import Component, Rules
from qosweb.webqos.allocation.general import Relation, fill, fill_to
from qosweb.webqos.allocation.problem import PPM
from qosweb.webqos.allocation.waterline import Bounds
from tests.webqos.allocation.problems import amounts, groups
from tests.webqos.allocation.test_shares import ceiling, floor, rules

if TYPE_CHECKING:
    from qosweb.webqos.allocation.groups import Exact

CLASSES = 4


@st.composite
def some_rules(draw: st.DrawFn) -> Rules:
    """Relations, ceilings and floors of all kinds over four classes."""
    side = st.sets(st.integers(0, CLASSES - 1), min_size=1, max_size=2)
    relations = []
    for _ in range(draw(st.integers(0, 2))):
        left, right = draw(side), draw(side)
        weights = draw(st.integers(1, 4)), draw(st.integers(0, 4))
        relations.append(Relation(tuple(sorted(left)), tuple(sorted(right - left)), *weights))
    bounds = st.dictionaries(groups(CLASSES), amounts, max_size=3)
    ceilings = draw(bounds)
    floors = {group: ppm // 3 for group, ppm in draw(bounds).items()}
    everyone = ceilings | {tuple(range(CLASSES)): CLASSES * PPM}  # so that all are in it
    return Rules(relations, [*everyone.items()], [*floors.items()], draw(st.just([]) | st.just([(0,)])))


wanted = st.lists(amounts, min_size=CLASSES, max_size=CLASSES)
priorities = st.lists(st.integers(0, 1), min_size=CLASSES, max_size=CLASSES)


def _bounds(rules: Rules, demand: list[int], serial: int) -> Bounds:
    high, low = [*demand], [0] * CLASSES
    for group, ppm in rules.ceilings:
        if len(group) == 1:
            high[group[0]] = min(high[group[0]], ppm)
    for group, ppm in rules.floors:
        if len(group) == 1:
            low[group[0]] = min(high[group[0]], ppm)
    return Bounds(demand, low, high, PPM, serial, ())


def _exactly(rules: Rules, demand: list[int], levels: list[int], level: int, parts: int) -> list[Fraction]:
    exact = fill_to(level, parts, demand, levels, rules.floors, rules.ceilings, rules.relations, rules.full)
    return [Fraction(amount, exact.scale) for amount in exact.amounts]


@settings(max_examples=200)
@given(some_rules(), wanted, priorities, st.integers(0, PPM - 1))
def test_the_water_is_one_more_class_that_gets_what_others_leave(
    rules: Rules, demand: list[int], levels: list[int], level: int
) -> None:
    """Divide what all hold at a level, and the level itself, among them and one who asks for all: he gets the level."""
    held = fill_to(level, 1, demand, levels, rules.floors, rules.ceilings, rules.relations, rules.full)
    scale = held.scale
    together = sum(held.amounts) + level * scale
    finer = [amount * scale for amount in demand]
    whole = fill(
        together,
        [*finer, PPM * scale],
        [*levels, 0],
        [(group, ppm * scale) for group, ppm in rules.floors],
        [(group, ppm * scale) for group, ppm in rules.ceilings],
        rules.relations,
        rules.full,
    )
    assert [Fraction(amount, whole.scale) for amount in whole.amounts] == [*held.amounts, level * scale]


@settings(max_examples=300)
@given(some_rules(), priorities, st.data())
def test_what_follows_from_a_shape_is_what_programs_find(rules: Rules, levels: list[int], data: st.DataObject) -> None:
    """Demands and levels change; wherever a piece claims to be good, it is."""
    known = Component([level * PPM for level in levels], rules)
    demand = data.draw(wanted)
    level = data.draw(st.integers(0, 2 * PPM))
    for serial in range(6):
        known.take(_bounds(rules, demand, serial))
        for _ in range(2):
            for piece in (known.guess(level), known.piece(level, 1)):
                for end in (piece.least, piece.most, (level, 1)):
                    if piece.covers(*end) and end[0] <= 3 * PPM * end[1]:
                        found = [
                            (Fraction(base) + slope * Fraction(*end)) / piece.scale
                            for base, slope in zip(piece.base, piece.slope, strict=True)
                        ]
                        assert found == _exactly(rules, demand, levels, *end)
                        assert sum(found) == (piece.sum_base + piece.sum_slope * Fraction(*end)) / piece.scale
            level = max(0, level + data.draw(st.integers(-20_000, 20_000)))
        one = data.draw(st.integers(0, CLASSES - 1))
        demand = [*demand]
        demand[one] = data.draw(amounts | st.integers(max(demand[one] - 9_000, 0), demand[one] + 9_000))


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The levels at which linear programs were needed."""
    levels: list[int] = []

    def counted(level: int, parts: int, *rest: object) -> Exact:
        levels.append(level)
        return fill_to(level, parts, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(component, "fill_to", counted)
    return levels


def test_a_shape_makes_programs_needless(programs: list[int]) -> None:
    """Twice as much for 0 as for 1 and 2: one program, and from then on none as long as nobody else becomes full."""
    known = Component([0, 0, 0], Rules([Relation((0,), (1, 2), 1, 2)], [], [], []))
    for serial, last in enumerate((5_000, 4_000, 6_000, 7_000)):
        level = 100_000 + serial
        known.take(Bounds([PPM, PPM, last], [0, 0, 0], [PPM, PPM, last], PPM, serial, ()))
        piece = known.piece(level, 1)
        lines = zip(piece.base, piece.slope, strict=True)
        assert [base + slope * level for base, slope in lines] == [2 * (level + last), level, last]
    assert programs == [100_000]
    known.take(Bounds([PPM, PPM, PPM], [0, 0, 0], [PPM, PPM, PPM], PPM, 9, ()))
    known.piece(100_000, 1)
    assert len(programs) == 2


def test_floors_that_yield_do_so_at_every_level(programs: list[int]) -> None:
    """Floors of 600,000 and 300,000 where there is room for 400,000: four ninths of each, found once."""
    known = Component([0, 0], Rules([], [((0, 1), 400_000)], [((0,), 600_000), ((1,), 300_000)], []))
    known.take(Bounds([PPM, PPM], [600_000, 300_000], [PPM, PPM], PPM, 0, ()))
    for level in (100_000, 70_000, 130_000):
        piece = known.piece(level, 1)
        assert [Fraction(base, piece.scale) for base in piece.base] == [Fraction(2_400_000, 9), Fraction(1_200_000, 9)]
        assert not any(piece.slope)
    assert programs == [100_000]


def test_a_floor_beyond_its_own_ceiling_yields_in_proportion_to_the_floor() -> None:
    """Floors of 600,000, one with a ceiling of 150,000, both with one of 400,000: first a quarter of each."""
    bounds = [ceiling(150_000, 0), ceiling(400_000, 0, 1), ceiling(450_000, 1, 2)]
    divide = rules(floors=(floor(600_000, 0), floor(600_000, 1)), ceilings=tuple(bounds))
    assert divide(PPM, PPM, PPM, PPM)[:2] == (150_000, 250_000)


@settings(max_examples=60)
@given(some_rules(), wanted, st.permutations(range(CLASSES)))
def test_no_order_of_asking_makes_a_difference(rules: Rules, demand: list[int], order: list[int]) -> None:
    assume(any(demand))
    levels = [0] * CLASSES
    known = Component([0] * CLASSES, rules)
    now = [PPM // 3] * CLASSES
    for serial, one in enumerate(order):
        now = [*now]
        now[one] = demand[one]
        known.take(_bounds(rules, now, serial))
        piece = known.piece(PPM // 5, 1)
    found = [
        Fraction(base + slope * (PPM // 5), piece.scale) for base, slope in zip(piece.base, piece.slope, strict=True)
    ]
    assert found == _exactly(rules, demand, levels, PPM // 5, 1)
