"""The check for contradictions against a brute-force oracle that tries every hour, number of nodes and access age.

The oracle does not use classes, atoms or situations: it has four kinds of pages, rules as Python functions of time, and
a linear program over the four shares.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import combinations
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from qosweb.webqos import compile_policy

if TYPE_CHECKING:
    from collections.abc import Callable

PAGES = {
    "</a>": (0, 1), "</a/x>": (1,), "</b>": (2,), "(</a/x> | </b>)": (1, 2), "default": (3,), "all": (0, 1, 2, 3),
}  # fmt: skip


@dataclass(frozen=True)
class Moment:
    hour: int
    nodes: int
    age_s: int | None  # since </p> was asked for


TESTS: dict[str, Callable[[Moment], bool]] = {
    "time in 22:00..06:00": lambda at: at.hour >= 22 or at.hour < 6,
    "time in 5:00..12:00": lambda at: 5 <= at.hour < 12,
    "time >= 20:00": lambda at: at.hour >= 20,
    "nodes < 3": lambda at: at.nodes < 3,
    "nodes in (2, 4)": lambda at: at.nodes in (2, 4),
    "accessed(</p>) within 10s": lambda at: at.age_s is not None and at.age_s <= 10,
    "accessed(</p>) within 30s": lambda at: at.age_s is not None and at.age_s <= 30,
}
MOMENTS = [Moment(hour, nodes, age) for hour in range(24) for nodes in range(1, 6) for age in (5, 20, 50, None)]


@dataclass(frozen=True)
class Condition:
    text: str
    holds: Callable[[Moment], bool]


@dataclass(frozen=True)
class Rule:
    condition: Condition | None
    pages: str
    op: str
    percent: int
    other: str | None  # percent of the share of other pages

    @property
    def text(self) -> str:
        right = f"{self.percent}%" if self.other is None else f"{self.percent / 100} * {self.other}.server_resource"
        left = f"{self.condition.text} => " if self.condition else ""
        return f"{left}{self.pages}.server_resource {self.op} {right}"


def both(one: Condition, other: Condition) -> Condition:
    return Condition(f"({one.text}) and ({other.text})", lambda at: one.holds(at) and other.holds(at))


def either(one: Condition, other: Condition) -> Condition:
    return Condition(f"({one.text}) or ({other.text})", lambda at: one.holds(at) or other.holds(at))


CONDITIONS = st.recursive(
    st.sampled_from([Condition(text, holds) for text, holds in TESTS.items()]),
    lambda inner: st.one_of(
        inner.map(lambda one: Condition(f"not ({one.text})", lambda at: not one.holds(at))),
        st.builds(both, inner, inner),
        st.builds(either, inner, inner),
    ),
    max_leaves=3,
)
RULES = st.builds(
    Rule,
    st.none() | CONDITIONS,
    st.sampled_from(list(PAGES)),
    st.sampled_from("<>="),
    st.sampled_from([5, 10, 30, 45, 60, 80]),
    st.none() | st.none() | st.sampled_from(list(PAGES)),
).filter(lambda rule: rule.pages != rule.other)


def in_force(rules: list[Rule], at: Moment) -> frozenset[tuple[int, str]]:
    """Rules in force, with their directions: a condition that holds overrides the same rule without a condition."""
    holding = [number for number, rule in enumerate(rules) if rule.condition is None or rule.condition.holds(at)]

    def directions(rule: Rule) -> str:
        return "<>" if rule.op == "=" else rule.op

    return frozenset(
        (number, direction)
        for number in holding
        for direction in directions(rules[number])
        if rules[number].condition is not None
        or not any(
            rules[by].condition is not None
            and rules[by].pages == rules[number].pages
            and direction in directions(rules[by])
            for by in holding
        )
    )


def can_be_kept(rules: list[Rule], binding: frozenset[tuple[int, str]]) -> bool:
    rows, limits = [[1.0] * 4], [1.0]
    for number, direction in sorted(binding):
        rule = rules[number]
        sign = 1 if direction == "<" else -1
        row = [float(sign * (at in PAGES[rule.pages])) for at in range(4)]
        if rule.other is not None:
            row = [one - sign * rule.percent / 100 * (at in PAGES[rule.other]) for at, one in enumerate(row)]
        rows.append(row)
        limits.append(sign * rule.percent / 100 if rule.other is None else 0.0)
    return bool(linprog([0.0] * 4, A_ub=rows, b_ub=limits, bounds=(0, 1), method="highs").status == 0)


@settings(max_examples=60)
@given(st.lists(RULES, min_size=1, max_size=6, unique_by=lambda rule: rule.text))
def test_a_contradiction_is_found_exactly_if_there_is_one_and_is_a_smallest(rules: list[Rule]) -> None:
    # So that every kind of page has a class of its own, whatever the rules name.
    text = "".join(f"{rule.text}\n" for rule in rules) + "".join(
        f"{pages}.lifetime = 1s\n" for pages in ("</a>", "</b>")
    )
    policy = compile_policy(f"{text}</a/x>.lifetime = 1s\n")
    source, found = policy.source, policy.diagnostics
    if any("can never hold" in one.message for one in found):
        return
    cores = [
        {source.line_of(span.start) - 1 for span in (one.span, *(note.span for note in one.notes))}
        for one in found
        if "contradict each other" in one.message or "cannot be kept" in one.message
    ]
    kept = cache(lambda binding: can_be_kept(rules, binding))
    bindings = {in_force(rules, at) for at in MOMENTS}
    assert all(map(kept, bindings)) == (not cores), source.text

    def only(binding: frozenset[tuple[int, str]], numbers: set[int]) -> frozenset[tuple[int, str]]:
        return frozenset(pair for pair in binding if pair[0] in numbers)

    for core in cores:
        contradicting = [binding for binding in bindings if not kept(only(binding, core))]
        assert contradicting, "the rules that are named can be kept"
        assert any(
            all(
                kept(only(binding, set(fewer)))
                for fewer in combinations(sorted({number for number, _ in binding}), len(core) - 1)
            )
            for binding in contradicting
        ), f"{core} is not a smallest contradiction: {source.text}"
