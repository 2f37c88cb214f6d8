"""Example texts for conditions on headers, cookies and hosts: one for every combination of outcomes of their tests.

Globs that only occur together in one ``or`` (``like "*bot*" or like "*crawler*"``) are a single test. If the tests
still overlap in too many ways, the analysis is approximate: a text passes at most two tests.
"""

from __future__ import annotations

from itertools import combinations
from typing import TYPE_CHECKING

from qosweb.webqos.globs import FILLER
from qosweb.webqos.model import conditions as c
from qosweb.webqos.overlaps import Overlaps, TooManyOverlaps
from qosweb.webqos.patterns import without_port

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    Key = tuple[str, str]
    TextLeaf = c.OneOf | c.Like | c.Has
    Test = tuple[TextLeaf, ...]  # true if one of them is

OVERLAPS_MAX = 4_000
ALWAYS_THERE = ("method", "host")


class _OneText:
    """Facts in which every text has the same value."""

    def __init__(self, text: str) -> None:
        self._text = text

    def number(self, subject: str, argument: str) -> int | None:  # noqa: ARG002
        return None

    def text(self, subject: str, argument: str) -> str | None:  # noqa: ARG002
        return self._text

    def linked(self, pages: int) -> bool:  # noqa: ARG002
        return False


def text_tests(conditions: Iterable[c.Condition]) -> dict[Key, list[Test]]:
    """The tests of each text, by subject and argument."""
    found: dict[Key, dict[Test, None]] = {}
    waiting = list(conditions)
    while waiting:
        condition = waiting.pop()
        match condition:
            case c.Or(items):
                waiting += _without_groups(items, [(item, item) for item in items], found)
            case c.And(items):
                negated = [(item, item.item) for item in items if isinstance(item, c.Not)]
                waiting += _without_groups(items, negated, found)
            case c.Not(item):
                waiting.append(item)
            case c.OneOf(subject, argument) | c.Like(subject, argument) | c.Has(subject, argument):
                found.setdefault((subject, argument), {})[(condition,)] = None
    return {key: sorted(tests, key=repr) for key, tests in found.items()}


def _without_groups(
    items: tuple[c.Condition, ...],
    pairs: Sequence[tuple[c.Condition, c.Condition]],
    found: dict[Key, dict[Test, None]],
) -> list[c.Condition]:
    """Add globs on the same text to ``found`` as one test; return all other items. ``pairs``: (item, its test)."""
    likes: dict[Key, list[tuple[c.Condition, c.Like]]] = {}
    for item, inner in pairs:
        if isinstance(inner, c.Like):
            likes.setdefault((inner.subject, inner.argument), []).append((item, inner))
    taken: list[c.Condition] = []
    for key, several in likes.items():
        if len(several) > 1:
            found.setdefault(key, {})[tuple(sorted({like for _, like in several}, key=repr))] = None
            taken += [item for item, _ in several]
    return [item for item in items if item not in taken]


def text_choices(key: Key, tests: list[Test]) -> list[int | str | None]:
    """One text for every combination of outcomes of ``tests``, and None if the text may be absent."""
    try:
        made = _texts(key, tests)
    except TooManyOverlaps:
        made = [text for two in combinations(tests, 2) for text in _texts(key, list(two))]
    by_outcome: dict[tuple[bool, ...], str] = {}
    named = sorted({text for test in tests for leaf in test if isinstance(leaf, c.OneOf) for text in leaf.texts})
    for text in (*named, *made, *(() if key[0] in ALWAYS_THERE else ("",))):
        facts = _OneText(text)
        by_outcome.setdefault(tuple(any(c.holds(leaf, facts) for leaf in test) for test in tests), text)
    return [*by_outcome.values(), *(() if key[0] in ALWAYS_THERE else (None,))]


def are_distinguishable(conditions: Iterable[c.Condition]) -> bool:
    """Whether the example texts are complete, rather than limited to two passing tests."""
    try:
        for key, tests in text_tests(conditions).items():
            _texts(key, tests)
    except TooManyOverlaps:
        return False
    return True


def _texts(key: Key, tests: list[Test]) -> list[str]:
    named = {text for test in tests for leaf in test if isinstance(leaf, c.OneOf) for text in leaf.texts}
    globs = [globs for test in tests if (globs := [leaf.glob for leaf in test if isinstance(leaf, c.Like)])]
    if key[0] == "host":
        return _hosts(named, {glob for group in globs for glob in group})
    return sorted(Overlaps(globs, sorted(named), any_case=True).texts(OVERLAPS_MAX))


def _hosts(named: set[str], globs: set[str]) -> list[str]:
    """Example hosts, each with every port in the tests, with another port, and without a port."""
    names = {without_port(host) for host in named}
    ports = {host[len(without_port(host)) :] for host in named} | {"", f":{FILLER}"}
    loose = set()
    for glob in globs:
        name, colon, port = glob.rpartition(":")
        loose.add(name if colon else glob)
        ports.update(f":{port.replace('*', filler)}" for filler in ("", FILLER) if colon)
    found = Overlaps(sorted(loose), sorted(names)).texts(OVERLAPS_MAX)
    return [name + port for name in found for port in sorted(ports)]
