"""The situations of the cluster that a specification tells apart: times between the ends it mentions, and so on."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING

from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.domains import Situation, TooManySituations, situations
from qosweb.webqos.values import PPM, WEEKDAYS

if TYPE_CHECKING:
    from qosweb.webqos.model.model import Model, Rule

TESTS_MAX = 2_000_000  # in all situations together
SITUATIONS_MAX = 20_000
DISTINCT_MAX = 400


def distinct(rules: list[Rule]) -> tuple[list[Situation], bool]:
    """One situation for each way in which the conditions of ``rules`` on the cluster come out; True: not all of them.

    If there are too many, those in which one rule's condition holds, rule by rule.
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
        return _tell_apart(leaves)
    except TooManySituations:
        found: dict[tuple[bool, ...], Situation] = {}
        for rule in rules[:DISTINCT_MAX]:
            if rule.condition is not None:
                mine = [leaf for leaf in leaves if leaf in set(c.leaves(rule.condition))]
                try:
                    for situation in _tell_apart(mine)[0]:
                        found.setdefault(_outcome(leaves, situation), situation)
                except TooManySituations:
                    continue
        return list(found.values())[:DISTINCT_MAX] or [Situation()], True


def _tell_apart(leaves: list[c.Within]) -> tuple[list[Situation], bool]:
    found: dict[tuple[bool, ...], Situation] = {}
    for situation in situations(leaves, min(SITUATIONS_MAX, TESTS_MAX // max(1, len(leaves)))):
        found.setdefault(_outcome(leaves, situation), situation)
    return list(found.values())[:DISTINCT_MAX], len(found) > DISTINCT_MAX


def _outcome(leaves: list[c.Within], situation: Situation) -> tuple[bool, ...]:
    return tuple(c.holds(leaf, situation) for leaf in leaves)


def describe(model: Model, situation: Situation, rules: list[Rule]) -> str:
    """When it is, as far as ``rules`` care: ``at 22:00 on sat``."""
    wanted = {
        (leaf.subject, leaf.argument)
        for rule in rules
        if rule.condition is not None
        for leaf in c.leaves(rule.condition)
        if isinstance(leaf, c.Within) and leaf.subject in c.OF_CLUSTER
    }
    words = []
    for (subject, argument), value in sorted(situation.chosen.items()):
        if (subject, argument) not in wanted:
            continue
        if subject == "accessed":
            name = model.page_sets[int(argument)].name
            words.append(f"{name} accessed" if value is not None and _recent(rules, argument, value) else "")
        elif isinstance(value, int):
            words.append(_said(subject, value))
    return ", ".join(word for word in words if word)


def _recent(rules: list[Rule], argument: str, value: int | str) -> bool:
    return any(
        low <= int(value) <= high
        for rule in rules
        if rule.condition is not None
        for leaf in c.leaves(rule.condition)
        if isinstance(leaf, c.Within) and leaf.subject == "accessed" and leaf.argument == argument
        for low, high in leaf.ranges
    )


def _said(subject: str, value: int) -> str:
    match subject:
        case "time":
            return f"at {value // 3600:02}:{value // 60 % 60:02}"
        case "weekday":
            return f"on {WEEKDAYS[value]}"
        case "date":
            return f"on {date.fromordinal(value)}"
        case "load":
            return f"at a load of {value * 100 / PPM:.4g}%"
        case _:
            return f"with {value} nodes"
