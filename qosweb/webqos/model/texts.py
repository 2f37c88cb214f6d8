"""Texts that conditions tell apart: one for every way in which the tests of a header field, a cookie, a host come out.

Likenesses that only count together (``like "*bot*" or like "*crawler*"``) are one test. Where tests still overlap in
more ways than can be written down, a text that passes more than two of them counts as one that passes two.
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
    Test = tuple[TextLeaf, ...]  # it comes out true if one of them does

OVERLAPS_MAX = 4_000
ALWAYS_THERE = ("method", "host")


class _OneText:
    """Facts of which one is known."""

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
    """``pairs`` are items and what they test; likenesses of one text become one test, all other items are returned."""
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
    """One text for every way in which ``tests`` come out; None, too, where there may be no text."""
    try:
        made = _texts(key, tests)
    except TooManyOverlaps:
        made = [text for two in combinations(tests, 2) for text in _texts(key, list(two))]
    told_apart: dict[tuple[bool, ...], str] = {}
    named = sorted({text for test in tests for leaf in test if isinstance(leaf, c.OneOf) for text in leaf.texts})
    for text in (*named, *made, *(() if key[0] in ALWAYS_THERE else ("",))):
        facts = _OneText(text)
        told_apart.setdefault(tuple(any(c.holds(leaf, facts) for leaf in test) for test in tests), text)
    return [*told_apart.values(), *(() if key[0] in ALWAYS_THERE else (None,))]


def are_told_apart(conditions: Iterable[c.Condition]) -> bool:
    """Whether there is a text for every way, or only for those in which two tests pass."""
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
    """With every port that is mentioned, with another, and with none."""
    names = {without_port(host) for host in named}
    ports = {host[len(without_port(host)) :] for host in named} | {"", f":{FILLER}"}
    loose = set()
    for glob in globs:
        name, colon, port = glob.rpartition(":")
        loose.add(name if colon else glob)
        ports.update(f":{port.replace('*', filler)}" for filler in ("", FILLER) if colon)
    found = Overlaps(sorted(loose), sorted(names)).texts(OVERLAPS_MAX)
    return [name + port for name in found for port in sorted(ports)]
