"""Lowers page expressions (patterns, names, unions) to numbered page sets; equal sets get the same number."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.model.model import PageSet
from qosweb.webqos.model.scope import PAGES, Unresolved
from qosweb.webqos.patterns import PagePattern, never_served, parse_pattern
from qosweb.webqos.syntax import printer, tree
from qosweb.webqos.syntax.diagnostics import Note
from qosweb.webqos.values import BadValue

if TYPE_CHECKING:
    from qosweb.webqos.model.scope import Scope
    from qosweb.webqos.syntax.positions import Span

_Key = tuple[str, frozenset[PagePattern], int]


class PageSets:
    """The page sets of one specification."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._numbers: dict[_Key, int] = {}
        self._sets: list[PageSet] = []
        self._aliases: dict[int, tree.Name] = {}
        self.places: list[Span] = []  # first use of each set
        self.pattern_places: dict[PagePattern, Span] = {}  # last occurrence of each pattern
        self._opening: list[str] = []

    @property
    def sets(self) -> tuple[PageSet, ...]:
        return tuple(self._sets)

    def number(self, node: tree.Pages) -> int:
        """The number of the page set that ``node`` describes. Raises Unresolved after reporting its errors."""
        name = node.name if isinstance(node, tree.PageName) else _bare(node)
        kind, patterns, of = key = self._key(node)
        if key not in self._numbers:
            self._numbers[key] = len(self._sets)
            self._sets.append(PageSet(name, kind, tuple(sorted(patterns, key=_order)), of))  # type: ignore[arg-type]
            self.places.append(node.span)
        elif isinstance(node, tree.PageName):  # a name from ``let`` is better than a pattern
            at = self._numbers[key]
            if at not in self._aliases:
                old = self._sets[at]
                self._sets[at] = PageSet(name, old.kind, old.patterns, old.of)
        return self._numbers[key]

    def name(self, number: int, alias: tree.Name) -> None:
        """Apply ``as NAME`` of a statement without a condition on requests."""
        first = self._aliases.get(number)
        if first is not None and first.text != alias.text:
            note = Note(first.span, f"named '{first.text}' here")
            self._scope.fail(alias.span, f"these pages have two names: '{alias.text}'", "one is enough", (note,))
            return
        self._aliases[number] = alias
        old = self._sets[number]
        self._sets[number] = PageSet(alias.text, old.kind, old.patterns, old.of)

    def _key(self, node: tree.Pages) -> _Key:
        match node:
            case tree.Pattern():
                return "pages", frozenset([self._pattern(node)]), -1
            case tree.LinkedPages(pages=linking):
                number = self.number(linking)
                if self._sets[number].kind == "links":
                    raise self._scope.fail(linking.span, "links() takes pages, not links", "name the pages themselves")
                return "links", frozenset(), number
            case tree.PageName(name="default" | "all" as name):
                return name, frozenset(), -1
            case tree.PageName():
                return self._named(node)
            case tree.Union(members=members):
                return self._union(members)

    def _pattern(self, node: tree.Pattern) -> PagePattern:
        try:
            pattern = parse_pattern(node.text, self._scope.settings.site)
        except BadValue as bad:
            raise self._scope.fail(node.span, bad.message, bad.hint) from None
        self.pattern_places[pattern] = node.span
        if reason := never_served(pattern):
            self._scope.warn(node.span, f"no request can reach this page: {reason}")
        return pattern

    def _named(self, node: tree.PageName) -> _Key:
        let = self._scope.let(node.name, node.span, "pages")
        value = let.value
        if isinstance(value, tree.Reference):
            value = tree.PageName(value.span, value.name)
        if not isinstance(value, PAGES):
            kind = "a value" if isinstance(value, tree.Literal) else "a condition"
            note = Note(let.name.span, "it is defined here")
            hint = "a condition stands before '=>'" if kind == "a condition" else ""
            raise self._scope.fail(node.span, f"'{node.name}' is {kind}, not pages", hint, (note,))
        if node.name in self._opening:
            raise self._scope.fail(let.name.span, f"'{node.name}' is defined by itself")
        self._opening.append(node.name)
        try:
            return self._key(value)
        finally:
            self._opening.pop()

    def _union(self, members: tuple[tree.Pages, ...]) -> _Key:
        patterns: set[PagePattern] = set()
        failed = False
        for member in members:
            try:
                kind, more, _ = self._key(member)
            except Unresolved:
                failed = True
                continue
            if kind != "pages":
                self._scope.fail(member.span, f"'{_bare(member)}' cannot be united with other pages")
                failed = True
            patterns |= more
        if failed:
            raise Unresolved
        return "pages", frozenset(patterns), -1


def _order(pattern: PagePattern) -> tuple[str, tuple[str, ...]]:
    return pattern.host or "", pattern.segments


def _bare(node: tree.Pages) -> str:
    """The name of a page set in logs: the pattern without brackets, with a leading slash if it is a path."""
    match node:
        case tree.Pattern(text=text):
            return text if "/" in text else f"/{text}"
        case tree.Union(members=members):
            return "|".join(_bare(member) for member in members)
        case _:
            return printer.pages(node).replace("<", "").replace(">", "")
