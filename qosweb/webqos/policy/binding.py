"""Binds a model to current facts: selects the constraints in force, and states them as an allocation problem.

All constraints whose conditions hold apply together, with one exception: a conditional constraint whose condition
holds overrides an unconditional constraint for the same pages, attribute and direction, for the classes where it holds.
Always available classes are served before all others; shares apply to the capacity that they leave.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from qosweb.webqos.allocation.problem import PPM, Problem, Ratio, ShareBound
from qosweb.webqos.model.model import Bytes, Constraint, Model, Relative, Requests, Share, Word
from qosweb.webqos.policy.environment import ShareBasis

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.webqos.model.conditions import Facts
    from qosweb.webqos.policy.coverage import Coverage

RESOURCES = ("server_resource", "num_requests", "num_bytes")
_OP: dict[str, Literal[">=", "<=", "=="]] = {">": ">=", "<": "<=", "=": "=="}


@dataclass(frozen=True, slots=True)
class ConstraintInForce:
    """A constraint in force. ``lower`` and ``upper`` are the classes that it bounds from below and from above."""

    number: int
    lower: tuple[int, ...]
    upper: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Override:
    """The constraint ``by`` replaces ``constraint`` for ``classes``."""

    constraint: int
    by: int
    classes: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Binding:
    """The rules in force under some facts. ``before`` has pairs of classes: (higher priority, lower priority)."""

    in_force: tuple[ConstraintInForce, ...]
    overrides: tuple[Override, ...]
    always: tuple[int, ...]
    before: tuple[tuple[int, int], ...]
    before_rules: tuple[int, ...]  # the priority that each pair of ``before`` comes from


def bind(model: Model, coverage: Coverage, facts: Facts) -> Binding:
    """Evaluate all conditions under ``facts``."""
    holding = [
        (number, rule, where)
        for number, rule in enumerate(model.constraints)
        if not rule.shadow and (where := coverage.where_it_holds(rule, rule.pages, facts))
    ]
    conditional: dict[tuple[int, str, str], list[tuple[int, frozenset[int]]]] = {}
    for number, rule, where in holding:
        if rule.condition is not None:
            for direction in _directions(rule):
                key = (rule.pages, rule.attribute, direction)
                conditional.setdefault(key, []).append((number, frozenset(where)))
    in_force: list[ConstraintInForce] = []
    overrides: list[Override] = []
    for number, rule, where in holding:
        sides: dict[str, tuple[int, ...]] = {"lower": (), "upper": ()}
        for direction in _directions(rule):
            left = list(where)
            if rule.condition is None:
                for by, taken in conditional.get((rule.pages, rule.attribute, direction), ()):
                    lost = tuple(at for at in left if at in taken)
                    if lost:
                        overrides.append(Override(number, by, lost))
                        left = [at for at in left if at not in taken]
            sides[direction] = tuple(left)
        if sides["lower"] or sides["upper"]:
            in_force.append(ConstraintInForce(number, sides["lower"], sides["upper"]))
    always = {at for one in in_force if model.constraints[one.number].attribute == "available" for at in one.lower}
    pairs = _before(model, coverage, facts)
    return Binding(
        tuple(in_force),
        tuple(dict.fromkeys(overrides)),
        tuple(sorted(always)),
        tuple(pairs),
        tuple(pairs.values()),
    )


def problem_of(
    model: Model,
    coverage: Coverage,
    binding: Binding,
    basis: ShareBasis | None = None,
    only: Callable[[Constraint], bool] | None = None,
) -> Problem:
    """The allocation problem over all classes, without bounds on always available ones.

    Rates are included only if ``basis`` has a capacity. ``only`` filters the constraints.
    """
    basis = basis or ShareBasis()
    always = set(binding.always)
    floors: list[ShareBound] = []
    ceilings: list[ShareBound] = []
    ratios: list[Ratio] = []
    equal: set[int] = set()
    rest: set[int] = set()
    for one in binding.in_force:
        rule = model.constraints[one.number]
        if rule.attribute not in RESOURCES or (only is not None and not only(rule)):
            continue
        lower = tuple(at for at in one.lower if at not in always)
        upper = tuple(at for at in one.upper if at not in always)
        if isinstance(rule.value, Relative):
            left = lower or upper
            right = tuple(at for at in coverage.classes(rule.value.pages) if at not in always)
            if left and right:
                ratios.append(
                    Ratio(left, right, _OP[rule.op], rule.value.numerator, rule.value.denominator, one.number)
                )
        elif isinstance(rule.value, Word):
            (equal if rule.value.word == "equal" else rest).update(lower)
        else:
            down, up = as_ppm(rule, basis)
            if lower and down is not None:
                floors.append(ShareBound(lower, down, one.number))
            if upper and up is not None:
                ceilings.append(ShareBound(upper, up, one.number, rule.hard))
    return Problem(
        len(model.classes),
        tuple(floors),
        tuple(ceilings),
        tuple(ratios),
        tuple(pair for pair in binding.before if not always.intersection(pair)),
        (tuple(sorted(equal)),) if len(equal) > 1 else (),
        tuple(sorted(rest)),
    )


def as_ppm(rule: Constraint, basis: ShareBasis) -> tuple[int | None, int | None]:
    """A bound as a share, rounded down for a lower bound and up for an upper bound: (lower, upper)."""
    value = rule.value
    if isinstance(value, Share):
        return value.ppm, value.ppm
    if isinstance(value, Bytes):
        numerator, denominator = value.bps, 1
    elif isinstance(value, Requests):
        numerator, denominator = value.urps * basis.request_bytes, 1_000_000
    else:
        return None, None
    if not basis.capacity_bps:
        return None, None
    numerator *= PPM * (basis.nodes if value.per_node else 1)
    denominator *= basis.capacity_bps
    return numerator // denominator, -(-numerator // denominator) if basis.has_ceilings else None


def _directions(rule: Constraint) -> tuple[str, ...]:
    if rule.attribute not in RESOURCES:
        return ("lower",)
    return {"<": ("upper",), ">": ("lower",), "=": ("lower", "upper")}[rule.op]


def _before(model: Model, coverage: Coverage, facts: Facts) -> dict[tuple[int, int], int]:
    """Pairs of classes ordered by priorities, with the number of the priority.

    Classes on both sides of ``before`` come in between: after the rest of the left, before the rest of the right.
    """
    pairs: dict[tuple[int, int], int] = {}
    for number, rule in enumerate(model.priorities):
        if rule.shadow:
            continue
        for first, then in zip(rule.chain, rule.chain[1:], strict=False):
            earlier = coverage.where_it_holds(rule, first, facts)
            later = coverage.classes(then)
            in_both = set(earlier) & set(later)
            for a in earlier:
                for b in later:
                    if b not in in_both or a not in in_both:
                        pairs.setdefault((a, b), number)
    return pairs
