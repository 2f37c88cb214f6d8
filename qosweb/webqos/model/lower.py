"""Compiles parsed statements into constraints and priorities. `attributes` lists the kinds of guarantee."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, cast

from qosweb.webqos import values
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.atoms import Atoms
from qosweb.webqos.model.attributes import ATTRIBUTES, BOUNDED, OPERATORS, WORDS, WORDS_ONLY
from qosweb.webqos.model.lower_conditions import ConditionLowering
from qosweb.webqos.model.lower_pages import PageSets
from qosweb.webqos.model.model import (
    Bytes,
    ChannelSize,
    Constraint,
    Duration,
    HeaderNumber,
    PageSet,
    Priority,
    Relative,
    Requests,
    Rule,
    Share,
    SpecSettings,
    Value,
    Word,
)
from qosweb.webqos.model.scope import PAGES, Scope, Unresolved
from qosweb.webqos.syntax import printer, tree
from qosweb.webqos.syntax.diagnostics import Diagnostic, Note, did_you_mean, has_errors
from qosweb.webqos.syntax.reserved_words import RESERVED

if TYPE_CHECKING:
    from qosweb.webqos.patterns import PagePattern
    from qosweb.webqos.syntax.positions import Span


@dataclass(slots=True)
class LoweredParts:
    """The parts of a model before requests are divided into classes."""

    settings: SpecSettings
    page_sets: tuple[PageSet, ...] = ()
    places: list[Span] = field(default_factory=list)  # of the page sets
    pattern_places: dict[PagePattern, Span] = field(default_factory=dict)
    atoms: list[c.Condition] = field(default_factory=list)
    atom_names: list[str] = field(default_factory=list)
    atom_texts: list[str] = field(default_factory=list)
    constraints: list[Constraint] = field(default_factory=list)
    constraint_rules: list[tree.Rule] = field(default_factory=list)
    priorities: list[Priority] = field(default_factory=list)
    priority_rules: list[tree.Rule] = field(default_factory=list)
    aliases: dict[tuple[int, c.Condition], str] = field(default_factory=dict)  # as NAME, by pages and condition
    found: list[Diagnostic] = field(default_factory=list)

    @property
    def rules(self) -> list[Rule]:
        return [*self.constraints, *self.priorities]


def lower(parsed: tree.Tree, *, bind_shadows: bool = False) -> LoweredParts:
    """Lower all statements. ``bind_shadows`` treats ``shadow`` statements as binding."""
    return _Lowering(parsed, bind_shadows).result()


class _Lowering:
    def __init__(self, parsed: tree.Tree, bind_shadows: bool) -> None:
        self._scope = Scope(parsed)
        self._page_sets = PageSets(self._scope)
        self._conditions = ConditionLowering(self._scope, self._page_sets)
        self._atoms = Atoms(self._scope)
        self._bind_shadows = bind_shadows
        self._out = LoweredParts(self._scope.settings)
        self._aliases: dict[str, tuple[tree.Name, tuple[int, c.Condition | None]]] = {}
        for statement in parsed.statements:
            if isinstance(statement, tree.Rule):
                self._rule(statement)
        self._check_alias_names()
        self._check_unused_lets()
        if not has_errors(self._scope.found):
            self._scope.warn_unused()

    def result(self) -> LoweredParts:
        self._out.page_sets = self._page_sets.sets
        self._out.atoms, self._out.atom_names, self._out.atom_texts = (
            self._atoms.atoms,
            self._atoms.names,
            self._atoms.texts,
        )
        self._out.places = self._page_sets.places
        self._out.pattern_places = self._page_sets.pattern_places
        self._out.found = self._scope.found
        return self._out

    def _check_alias_names(self) -> None:
        """Report ``as NAME`` with the name of other pages."""
        for text, (alias, (pages, condition)) in self._aliases.items():
            let = self._scope.lets.get(text)
            if let is None or text not in self._scope.used or not isinstance(let.value, PAGES):
                continue
            if condition is not None or self._page_sets.number(tree.PageName(alias.span, text)) != pages:
                note = Note(let.name.span, "it is defined here")
                self._scope.fail(alias.span, f"'{text}' is the name of other pages", "choose another name", (note,))

    def _check_unused_lets(self) -> None:
        """Report errors in ``let`` statements that nothing uses."""
        for name, let in list(self._scope.lets.items()):
            if name in self._scope.used:
                continue
            used = set(self._scope.used)
            scratch = PageSets(self._scope)
            try:
                value = let.value
                if isinstance(value, tree.Pattern | tree.PageName | tree.LinkedPages | tree.Union):
                    scratch.number(value)
                elif isinstance(value, tree.Reference) and value.name in self._scope.lets:
                    pass
                elif not isinstance(value, tree.Literal):
                    ConditionLowering(self._scope, scratch).lower(value)
            except Unresolved:
                pass
            self._scope.used = used | (self._scope.used - {name})

    def _rule(self, rule: tree.Rule) -> None:
        shadow = rule.shadow is not None and not self._bind_shadows
        condition: c.Condition | None = None
        failed = False
        try:
            if rule.condition is not None:
                condition = self._conditions.lower(rule.condition)
                if not shadow:
                    condition = self._atoms.factor(condition, rule.condition)
        except Unresolved:
            failed = True
        try:
            if isinstance(rule.constraint, tree.Before):
                self._before(rule, rule.constraint, condition, shadow=shadow, failed=failed)
            else:
                self._bound(rule, rule.constraint, condition, shadow=shadow, failed=failed)
        except Unresolved:
            return

    def _before(
        self, rule: tree.Rule, before: tree.Before, condition: c.Condition | None, *, shadow: bool, failed: bool
    ) -> None:
        if rule.alias is not None:
            raise self._scope.fail(rule.alias.span, "'before' orders several classes; it cannot name one")
        chain = tuple(self._page_sets.number(member) for member in before.members)
        divides = condition is not None and any(isinstance(leaf, c.Atom) for leaf in c.leaves(condition))
        for at, member in enumerate(chain):
            # With a condition, some requests for the pages come before the others. Without, this is a cycle.
            if member in chain[:at] and not (divides and chain == (member, member)):
                raise self._scope.fail(before.members[at].span, "pages cannot come before themselves")
        if not failed:
            self._out.priorities.append(Priority(chain, printer.print_statement(rule), condition, shadow))
            self._out.priority_rules.append(rule)

    def _bound(
        self, rule: tree.Rule, bound: tree.Bound, condition: c.Condition | None, *, shadow: bool, failed: bool
    ) -> None:
        attribute = bound.term.attribute
        try:
            pages = self._page_sets.number(bound.term.pages)
        except Unresolved:
            pages = -1
        if attribute.text not in ATTRIBUTES:
            hint = did_you_mean(attribute.text, ATTRIBUTES) or f"attributes are {', '.join(ATTRIBUTES)}"
            raise self._scope.fail(attribute.span, f"unknown attribute '{attribute.text}'", hint)
        op = {">=": ">", "<=": "<"}.get(bound.op.text, bound.op.text)
        required = OPERATORS.get(attribute.text)
        if required is not None and op != required:
            raise self._scope.fail(bound.op.span, f"'{attribute.text}' takes '{required}', not '{bound.op.text}'")
        value = self._value(attribute.text, bound.value)
        if isinstance(value, Word) and value.word in ("equal", "rest") and op != "=":
            raise self._scope.fail(bound.op.span, f"'{value.word}' takes '=', not '{bound.op.text}'")
        if bound.hard is not None and (op == ">" or attribute.text not in BOUNDED or isinstance(value, Word)):
            raise self._scope.fail(bound.hard.span, "only an upper bound can be hard", "remove 'hard'")
        if bound.hard is not None and isinstance(value, Relative):
            raise self._scope.fail(bound.hard.span, "a bound relative to other pages cannot be hard", "remove 'hard'")
        if isinstance(value, Relative) and value.pages == pages:
            raise self._scope.fail(bound.value.span, "pages cannot be bounded relative to themselves")
        if pages < 0 or failed:
            return
        if rule.alias is not None:
            self._alias(rule.alias, pages, condition, shadow=shadow)
        hard = bound.hard is not None or isinstance(value, Requests | Bytes)
        self._out.constraints.append(
            Constraint(
                pages,
                attribute.text,
                cast("Literal['<', '>', '=']", op),
                value,
                printer.print_statement(rule),
                condition,
                hard and op != ">",
                shadow,
            )
        )
        self._out.constraint_rules.append(rule)

    def _value(self, attribute: str, node: tree.Value) -> Value:
        scope = self._scope
        if isinstance(node, tree.Relative):
            return self._relative(attribute, node)
        if isinstance(node, tree.Channel):
            if attribute != "channel":
                raise scope.fail(node.span, f"'{attribute}' takes one value", "only 'channel' is a size in a time")
            size = scope.read(values.positive_size_bytes, node.size)
            return ChannelSize(size, scope.read(values.duration_ms, node.time))
        if isinstance(node, tree.ResponseHeader):
            if attribute != "cost":
                raise scope.fail(node.span, f"'{attribute}' takes one value", "only 'cost' is given by a response")
            return HeaderNumber(scope.read(values.field_name, node.name).lower())
        if attribute == "channel":
            raise scope.fail(node.span, "a channel is a size and a time", "such as 16KB in 50ms")
        literal = self._literal(attribute, node)
        if isinstance(literal, Word):
            return literal
        return self._amount(attribute, literal, node.scale)

    def _literal(self, attribute: str, node: tree.Amount) -> tree.Literal | Word:
        words = WORDS.get(attribute, ())
        value = node.value
        if isinstance(value, tree.Literal):
            if attribute in WORDS_ONLY:
                raise self._scope.fail(value.span, f"'{attribute}' takes {_either(words)}, not '{value.text}'")
            return value
        if value.text in words:
            if node.scale is not None:
                raise self._scope.fail(node.scale.span, f"'{value.text}' cannot be scaled")
            return Word(value.text)
        if value.text in self._scope.lets:
            literal = self._scope.named_value(value.text, value.span)
            if attribute not in WORDS_ONLY:
                return literal
        if any(value.text in other for other in WORDS.values()) and not words:
            raise self._scope.fail(value.span, f"'{attribute}' cannot be '{value.text}'")
        if value.text == "nodes":
            raise self._scope.fail(value.span, "expected a value, found 'nodes'", "such as 100 * nodes")
        known = [*words, *self._scope.lets]
        hint = did_you_mean(value.text, known) or (f"'{attribute}' takes {_either(words)}" if words else "")
        if not words:
            raise self._scope.fail(
                value.span, f"unknown name '{value.text}'", hint or "write a value, or a name defined by 'let'"
            )
        raise self._scope.fail(value.span, f"'{attribute}' cannot be '{value.text}'", hint)

    def _amount(self, attribute: str, literal: tree.Literal, scale: tree.Name | None) -> Value:
        scope = self._scope
        if scale is not None and scale.text == "capacity":
            if attribute not in ("num_requests", "num_bytes"):
                hint = "a share is of the capacity already" if attribute == "server_resource" else ""
                raise scope.fail(scale.span, f"'{attribute}' does not take 'of capacity'", hint)
            return Share(scope.read(values.share_ppm, literal))
        if scale is not None and attribute not in ("num_requests", "num_bytes"):
            hint = "a share grows with the cluster by itself" if attribute == "server_resource" else ""
            raise scope.fail(scale.span, f"'{attribute}' does not grow with the number of nodes", hint)
        per_node = scale is not None
        match attribute:
            case "server_resource":
                return Share(scope.read(values.share_ppm, literal))
            case "num_requests":
                return Requests(scope.read(values.rate_urps, literal), per_node)
            case "num_bytes":
                return Bytes(scope.read(values.rate_bps, literal), per_node)
            case _:
                return Duration(scope.read(values.duration_ms, literal))

    def _relative(self, attribute: str, node: tree.Relative) -> Relative:
        other = node.term.attribute
        if attribute not in BOUNDED:
            raise self._scope.fail(node.span, f"'{attribute}' cannot be relative to other pages")
        if other.text != attribute:
            raise self._scope.fail(other.span, f"'{attribute}' can only be compared with '{attribute}'")
        pages = self._page_sets.number(node.term.pages)
        if node.factor is None:
            return Relative(pages, 1, 1)
        factor = self._scope.read(values.factor, node.factor)
        return Relative(pages, factor.numerator, factor.denominator)

    def _alias(self, alias: tree.Name, pages: int, condition: c.Condition | None, *, shadow: bool) -> None:
        if alias.text in RESERVED:
            raise self._scope.fail(alias.span, f"'{alias.text}' is a word of the language", "choose another name")
        if shadow:
            self._scope.warn(alias.span, "a shadow statement makes no class; the name is ignored")
            return
        divides = condition is not None and any(isinstance(leaf, c.Atom) for leaf in c.leaves(condition))
        key = (pages, condition if divides else None)
        first_name, first_key = self._aliases.setdefault(alias.text, (alias, key))
        if first_key != key:
            note = Note(first_name.span, "first used here")
            raise self._scope.fail(alias.span, f"two classes have the name '{alias.text}'", "", (note,))
        if not divides or condition is None:
            self._page_sets.name(pages, alias)
        elif self._out.aliases.setdefault((pages, condition), alias.text) != alias.text:
            raise self._scope.fail(alias.span, "this class already has another name", "one is enough")


def _either(words: tuple[str, ...]) -> str:
    *most, last = (f"'{word}'" for word in words)
    return f"{', '.join(most)} or {last}" if most else last
