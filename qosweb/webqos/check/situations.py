"""Situations of the cluster that a specification distinguishes, and their description in words."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.domains import Situation, TooManySituations, situations
from qosweb.webqos.model.model import Bytes, Constraint, Requests
from qosweb.webqos.model.subjects import DATE_MAX
from qosweb.webqos.values import PPM, WEEKDAYS

if TYPE_CHECKING:
    from qosweb.webqos.model.domains import Key
    from qosweb.webqos.model.model import Model, Rule

TESTS_MAX = 2_000_000  # in all situations together
SITUATIONS_MAX = 20_000
DISTINCT_MAX = 400


def distinct_situations(rules: list[Rule], implied_accesses: list[tuple[Key, Key]]) -> tuple[list[Situation], bool]:
    """One situation for each combination of outcomes of the conditions on the cluster; True if some are missing.

    If there are too many, the situations of each rule alone. ``implied_accesses``: see ``domains.situations``.
    """
    leaves = sorted(
        {
            leaf
            for rule in rules
            if rule.condition is not None
            for leaf in c.leaves(rule.condition)
            if isinstance(leaf, c.Within) and leaf.subject in c.OF_CLUSTER
        },
        key=repr,
    )
    if not leaves:
        return [Situation()], False
    try:
        return _distinct_outcomes(leaves, implied_accesses)
    except TooManySituations:
        found: dict[tuple[bool, ...], Situation] = {}
        for rule in rules[:DISTINCT_MAX]:
            if rule.condition is not None:
                mine = [leaf for leaf in leaves if leaf in set(c.leaves(rule.condition))]
                try:
                    for situation in _distinct_outcomes(mine, implied_accesses)[0]:
                        found.setdefault(_outcome(leaves, situation), situation)
                except TooManySituations:
                    continue
        return list(found.values())[:DISTINCT_MAX] or [Situation()], True


def _distinct_outcomes(leaves: list[c.Within], implied_accesses: list[tuple[Key, Key]]) -> tuple[list[Situation], bool]:
    found: dict[tuple[bool, ...], Situation] = {}
    for situation in situations(leaves, min(SITUATIONS_MAX, TESTS_MAX // max(1, len(leaves))), implied_accesses):
        found.setdefault(_outcome(leaves, situation), situation)
    return list(found.values())[:DISTINCT_MAX], len(found) > DISTINCT_MAX


def _outcome(leaves: list[c.Within], situation: Situation) -> tuple[bool, ...]:
    return tuple(c.holds(leaf, situation) for leaf in leaves)


def describe_situation(model: Model, situation: Situation, rules: list[Rule]) -> str:
    """The situation in words, limited to the subjects of ``rules``: ``at 22:00, on sat``."""
    subjects = {
        (leaf.subject, leaf.argument)
        for rule in rules
        if rule.condition is not None
        for leaf in c.leaves(rule.condition)
        if isinstance(leaf, c.Within) and leaf.subject in c.OF_CLUSTER
    }
    if any(grows_with_nodes(rule) for rule in rules):
        subjects.add(("nodes", ""))
    words = []
    for (subject, argument), value in sorted(situation.chosen.items()):
        if (subject, argument) not in subjects:
            continue
        if subject == "accessed":
            name = model.page_sets[int(argument)].name
            words.append(f"{name} accessed" if value is not None and _recent(rules, argument, value) else "")
        elif subject == "date" and value == 1:
            first = _first_day(rules)
            words.append("" if first is None else f"before {date.fromordinal(first)}")
        elif isinstance(value, int):
            words.append(_describe_value(subject, value))
    return ", ".join(word for word in words if word)


def grows_with_nodes(rule: Rule) -> bool:
    return isinstance(rule, Constraint) and isinstance(rule.value, Bytes | Requests) and rule.value.per_node


def _first_day(rules: list[Rule]) -> int | None:
    """The first day on which the outcome of a condition changes."""
    days = (
        end
        for rule in rules
        if rule.condition is not None
        for leaf in c.leaves(rule.condition)
        if isinstance(leaf, c.Within) and leaf.subject == "date"
        for low, high in leaf.ranges
        for end in (low, high + 1)
        if 1 < end <= DATE_MAX
    )
    return min(days, default=None)


def _recent(rules: list[Rule], argument: str, value: int | str) -> bool:
    return any(
        low <= int(value) <= high
        for rule in rules
        if rule.condition is not None
        for leaf in c.leaves(rule.condition)
        if isinstance(leaf, c.Within) and leaf.subject == "accessed" and leaf.argument == argument
        for low, high in leaf.ranges
    )


def _describe_value(subject: str, value: int) -> str:
    match subject:
        case "time":
            second = f":{value % 60:02}" if value % 60 else ""
            return f"at {value // 3600:02}:{value // 60 % 60:02}{second}"
        case "weekday":
            return f"on {WEEKDAYS[value]}"
        case "date":
            return f"on {date.fromordinal(value)}"
        case "load":
            return f"at a load of {value * 100 / PPM:.4g}%"
        case _:
            return "with 1 node" if value == 1 else f"with {value} nodes"
