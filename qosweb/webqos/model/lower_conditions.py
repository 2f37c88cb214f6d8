"""Lowers conditions: turns comparisons into ranges and texts, resolves named conditions, and checks types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos import values
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.scope import Unresolved
from qosweb.webqos.model.subjects import ORDERED, TEXTUAL, OrderedSubject, between, compared, tidy
from qosweb.webqos.syntax import tree
from qosweb.webqos.syntax.diagnostics import Note

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.webqos.model.lower_pages import PageSets
    from qosweb.webqos.model.scope import Scope

DEPTH_MAX = 60  # of conditions made of named conditions
TESTS_MAX = 1_000  # in one condition, with names expanded


class ConditionLowering:
    """Lowers the conditions of one specification; remembers named conditions."""

    def __init__(self, scope: Scope, page_sets: PageSets) -> None:
        self._scope = scope
        self._page_sets = page_sets
        self._opening: list[str] = []
        self._known: dict[str, tuple[c.Condition, int]] = {}
        self._tests = 0  # in the current condition

    def lower(self, node: tree.Condition) -> c.Condition:
        """Lower the condition of a statement. Raises Unresolved after reporting all its errors."""
        self._tests = 0
        return self._lower(node)

    def _lower(self, node: tree.Condition) -> c.Condition:
        self._tests += 1
        if self._tests > TESTS_MAX:
            raise self._too_large(node)
        match node:
            case tree.And(items=items):
                return c.And(self._all(items))
            case tree.Or(items=items):
                return c.Or(self._all(items))
            case tree.Not(item=tree.Not(item=item)):
                return self._lower(item)
            case tree.Not(item=item):
                return c.Not(self._lower(item))
            case tree.Reference():
                return self._reference(node)
            case tree.Accessed(pages=pages, within=within, by_client=by_client):
                within_ms = self._scope.read(values.duration_ms, within)
                subject = "client_accessed" if by_client else "accessed"
                return c.Within(subject, str(self._page_set(pages)), ((0, within_ms),))
            case tree.Has(subject=subject):
                return c.Has(subject.name, self._argument(subject))
            case tree.Like(subject=subject, glob=glob):
                return self._like(subject, glob)
            case tree.Compare():
                return self._compare(node)
            case tree.In():
                return self._in(node)

    def _all(self, items: tuple[tree.Condition, ...]) -> tuple[c.Condition, ...]:
        lowered = []
        failed = False
        for item in items:
            try:
                lowered.append(self._lower(item))
            except Unresolved:
                failed = True
        if failed:
            raise Unresolved
        return tuple(lowered)

    def _page_set(self, pages: tree.Pages) -> int:
        number = self._page_sets.number(pages)
        if self._page_sets.sets[number].kind == "links":
            raise self._scope.fail(pages.span, "accessed() takes pages, not links", "name the pages themselves")
        return number

    def _reference(self, node: tree.Reference) -> c.Condition:
        name = node.name
        if name in self._known:
            known, tests = self._known[name]
            self._tests += tests
            if self._tests > TESTS_MAX:
                raise self._too_large(node)
            return known
        let = self._scope.let(name, node.span, "a condition")
        value = let.value
        if isinstance(value, tree.Literal | tree.Pattern | tree.PageName | tree.LinkedPages | tree.Union):
            kind = "a value" if isinstance(value, tree.Literal) else "a set of pages"
            note = Note(let.name.span, "it is defined here")
            hint = f"accessed({name}) within 10s is a condition" if kind != "a value" else ""
            raise self._scope.fail(node.span, f"'{name}' is {kind}, not a condition", hint, (note,))
        if name in self._opening:
            raise self._scope.fail(let.name.span, f"'{name}' is defined by itself")
        if len(self._opening) >= DEPTH_MAX:
            raise self._scope.fail(let.name.span, f"named conditions are nested more than {DEPTH_MAX} deep")
        self._opening.append(name)
        before = self._tests
        try:
            lowered = self._lower(value)
        finally:
            self._opening.pop()
        self._known[name] = lowered, self._tests - before
        return lowered

    def _too_large(self, node: tree.Condition) -> Unresolved:
        hint = "split it into several statements"
        return self._scope.fail(node.span, f"the condition has more than {TESTS_MAX:,} parts", hint)

    def _argument(self, subject: tree.Subject) -> str:
        if subject.argument is None:
            return ""
        name = self._scope.read(values.field_name, subject.argument)
        return name.lower() if subject.name == "header" else name

    def _like(self, subject: tree.Subject, glob: tree.Literal) -> c.Condition:
        if subject.name not in TEXTUAL:
            raise self._scope.fail(subject.span, f"'{subject.name}' is not a text", "'like' compares texts")
        if "*" not in glob.text:
            hint = f'to match it anywhere: like "*{glob.text}*"'
            self._scope.warn(glob.span, "without '*' this matches only the whole text", hint)
        return c.Like(subject.name, self._argument(subject), glob.text.lower())

    def _compare(self, node: tree.Compare) -> c.Condition:
        name, op = node.subject.name, node.op.text
        if name in ORDERED:
            kind = ORDERED[name]
            if kind.cyclic and op not in ("=", "!=") and name == "weekday":
                raise self._scope.fail(node.op.span, "days of the week have no order", "such as weekday in mon..fri")
            value = self._value(kind, node.value)
            if op in ("=", "!="):
                self._warn_of_single_second(name, node.value)
            return c.Within(name, "", compared(kind, op, value))
        if op not in ("=", "!="):
            hint = f"such as {name} in 10.0.0.0/8" if name == "client" else "use '=', '!=' or 'in'"
            raise self._scope.fail(node.op.span, f"'{name}' has no order", hint)
        same = self._same(node.subject, (node.value,))
        return same if op == "=" else c.Not(same)

    def _in(self, node: tree.In) -> c.Condition:
        kind = ORDERED.get(node.subject.name)
        if kind is None:
            return self._same(node.subject, node.items)
        ranges: list[tuple[int, int]] = []
        for item in node.items:
            if isinstance(item, tree.Literal):
                ranges += compared(kind, "=", self._value(kind, item))
                self._warn_of_single_second(node.subject.name, item)
                continue
            low, high = self._value(kind, item.low), self._value(kind, item.high)
            span = between(kind, low, high)
            if not span:
                raise self._scope.fail(item.span, "the range is empty", "from the lower to the higher value")
            ranges += span
        return c.Within(node.subject.name, "", tidy(ranges))

    def _warn_of_single_second(self, name: str, literal: tree.Literal) -> None:
        if name == "time":
            self._scope.warn(literal.span, "this matches one second only", "write a range: time in 22:00..23:00")

    def _value(self, kind: OrderedSubject, literal: tree.Literal) -> int:
        if literal.quoted:
            raise self._scope.fail(literal.span, "expected a value without quotes", f"write {literal.text}")
        return self._scope.read(kind.read, literal)

    def _same(self, subject: tree.Subject, items: tuple[tree.Literal | tree.Range, ...]) -> c.Condition:
        name = subject.name
        read: Callable[[str], str] = values.network if name == "client" else TEXTUAL[name].read
        texts = []
        for item in items:
            if isinstance(item, tree.Range):
                hint = "write networks: (10.0.0.0/24, 10.0.1.0/24)" if name == "client" else ""
                raise self._scope.fail(item.span, f"'{name}' has no ranges", hint)
            texts.append(self._scope.read(read, item))
        unique = tuple(sorted(set(texts)))
        return c.ClientIn(unique) if name == "client" else c.OneOf(name, self._argument(subject), unique)
