"""Symbol table: definitions by ``let`` and ``set``, which may be used before they are written, and the diagnostics."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from qosweb.webqos import values, zones
from qosweb.webqos.model.model import SpecSettings
from qosweb.webqos.syntax import tree
from qosweb.webqos.syntax.diagnostics import Diagnostic, Note, did_you_mean, error, warning
from qosweb.webqos.syntax.reserved_words import RESERVED
from qosweb.webqos.values import BadValue

if TYPE_CHECKING:
    from collections.abc import Callable

    from qosweb.webqos.syntax.positions import Span

T = TypeVar("T")

SETTINGS = ("site", "lifetime", "channel", "timezone", "redirect")
PAGES = (tree.Pattern, tree.PageName, tree.LinkedPages, tree.Union)


class Unresolved(Exception):
    """This part has an error, which has been reported."""


class Scope:
    """The names and settings of one specification."""

    def __init__(self, parsed: tree.Tree) -> None:
        self.found: list[Diagnostic] = []
        self.lets: dict[str, tree.Let] = {}
        self.used: set[str] = set()
        self._unread = parsed.unread
        sets: dict[str, tree.Set] = {}
        for statement in parsed.statements:
            if isinstance(statement, tree.Let):
                self._add_let(statement)
            elif isinstance(statement, tree.Set):
                self._add_set(statement, sets)
        self.settings = self._settings(sets)

    def fail(self, span: Span, message: str, hint: str = "", notes: tuple[Note, ...] = ()) -> Unresolved:
        """Report an error. Returns the exception, for the caller to raise if it cannot continue."""
        self.found.append(error(span, message, hint, notes))
        return Unresolved()

    def warn(self, span: Span, message: str, hint: str = "") -> None:
        self.found.append(warning(span, message, hint))

    def read(self, read: Callable[[str], T], literal: tree.Literal) -> T:
        """Parse ``literal``, which may be a name of a value. Raises Unresolved after reporting its error."""
        if not literal.quoted and literal.text in self.lets:
            literal = self.named_value(literal.text, literal.span)
        try:
            return read(literal.text)
        except BadValue as bad:
            raise self.fail(literal.span, bad.message, bad.hint) from None

    def named_value(self, name: str, span: Span) -> tree.Literal:
        """The value of a name in ``lets``, which may be defined by other names."""
        let = self.lets[name]
        passed = {name}
        self.used.add(name)
        while isinstance(let.value, tree.Reference) and let.value.name in self.lets and let.value.name not in passed:
            passed.add(let.value.name)
            let = self.lets[let.value.name]
        if not isinstance(let.value, tree.Literal):
            note = Note(let.name.span, "it is defined here")
            raise self.fail(span, f"'{name}' is not a value", "", (note,))
        self.used |= passed
        return tree.Literal(span, let.value.text, let.value.quoted)

    def let(self, name: str, span: Span, what: str) -> tree.Let:
        """The definition of a name. Raises Unresolved after reporting that there is none."""
        found = self.lets.get(name)
        if found is None and name in self._unread:
            raise Unresolved
        if found is None:
            hint = did_you_mean(name, [*self.lets, "default", "all"])
            if not hint:
                hint = f"write 'let {name} = ...' to define it" + (
                    f", or <{name}> for the page of that name" if what == "pages" else ""
                )
            raise self.fail(span, f"unknown name '{name}'", hint)
        self.used.add(name)
        return found

    def warn_unused(self) -> None:
        """Warn about names that nothing uses."""
        for name, let in self.lets.items():
            if name not in self.used:
                self.warn(let.name.span, f"'{name}' is never used", "")

    def _add_let(self, let: tree.Let) -> None:
        name = let.name.text
        if name in RESERVED:
            self.fail(let.name.span, f"'{name}' is a word of the language", "choose another name")
        elif name in self.lets:
            first = Note(self.lets[name].name.span, "it is first defined here")
            self.fail(let.name.span, f"'{name}' is defined twice", "choose another name", (first,))
        else:
            self.lets[name] = let

    def _add_set(self, statement: tree.Set, sets: dict[str, tree.Set]) -> None:
        name = statement.name.text
        if name not in SETTINGS:
            hint = did_you_mean(name, SETTINGS) or f"settings are {', '.join(SETTINGS)}"
            self.fail(statement.name.span, f"unknown setting '{name}'", hint)
        elif name in sets:
            first = Note(sets[name].name.span, "it is first set here")
            self.fail(statement.name.span, f"'{name}' is set twice", "remove one of the two", (first,))
        else:
            sets[name] = statement

    def _settings(self, sets: dict[str, tree.Set]) -> SpecSettings:
        site = lifetime_ms = channel_bytes = channel_ms = None
        timezone, redirect = zones.DEFAULT, "client"
        for name, statement in sets.items():
            value = statement.value
            try:
                if name == "channel":
                    if not isinstance(value, tree.Channel):
                        raise self.fail(value.span, "a channel is a size and a time", "such as 128KB in 250ms")
                    channel_bytes = self.read(values.positive_size_bytes, value.size)
                    channel_ms = self.read(values.duration_ms, value.time)
                elif isinstance(value, tree.Channel):
                    raise self.fail(value.time.span, f"'{name}' takes one value", "only 'channel' is a size in a time")
                elif name == "site":
                    site = self.read(values.host, value)
                elif name == "timezone":
                    timezone = self.read(zones.zone_name, value)
                elif name == "redirect":
                    redirect = self.read(values.redirect, value)
                else:
                    lifetime_ms = self.read(values.duration_ms, value)
            except Unresolved:
                continue
        offsets = zones.zone_offsets(timezone)
        return SpecSettings(site, lifetime_ms, channel_bytes, channel_ms, timezone, offsets, redirect)
