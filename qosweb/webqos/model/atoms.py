"""Atoms: numbered parts of conditions that depend only on the request. A class fixes which of its atoms hold."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from qosweb.webqos.model import conditions as c
from qosweb.webqos.syntax import printer, tree

if TYPE_CHECKING:
    from qosweb.webqos.model.scope import Scope


class Atoms:
    """The atoms of a specification. ``names`` are from ``let``, or empty; ``texts`` are in canonical form."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self.atoms: list[c.Condition] = []
        self.names: list[str] = []
        self.texts: list[str] = []

    def factor(self, condition: c.Condition, node: tree.Condition) -> c.Condition:
        """Replace parts that depend only on the request by atoms: named conditions, and the largest unnamed parts."""
        while isinstance(node, tree.Not) and isinstance(node.item, tree.Not):
            node = node.item.item
        if isinstance(node, tree.Not) and isinstance(condition, c.Not):
            return c.Not(self.factor(condition.item, node.item))
        if isinstance(node, tree.Reference):
            inner = self._scope.lets[node.name].value
            if c.is_of_request(condition) and not isinstance(inner, tree.Reference):
                return c.Atom(self._atom(condition, node.name, node.name))
            return self.factor(condition, cast("tree.Condition", inner))
        if c.is_of_request(condition) and not _has_names(node):
            return c.Atom(self._atom(condition, "", printer.condition(node)))
        match condition, node:
            case c.And(items), tree.And(items=nodes):
                return c.And(self._factor_all(items, nodes, c.And))
            case c.Or(items), tree.Or(items=nodes):
                return c.Or(self._factor_all(items, nodes, c.Or))
            case _:
                return condition

    def _factor_all(
        self, items: tuple[c.Condition, ...], nodes: tuple[tree.Condition, ...], kind: type[c.And] | type[c.Or]
    ) -> tuple[c.Condition, ...]:
        """Factor the parts of ``and`` or ``or``. Several unnamed parts become one atom."""
        pairs = list(zip(items, nodes, strict=True))
        nameless = [pair for pair in pairs if c.is_of_request(pair[0]) and not _has_names(pair[1])]
        if len(nameless) < 2:
            return tuple(self.factor(item, node) for item, node in pairs)
        text = (" and " if kind is c.And else " or ").join(printer.condition(node) for _, node in nameless)
        joined = c.Atom(self._atom(kind(tuple(item for item, _ in nameless)), "", text))
        return (joined, *(self.factor(*pair) for pair in pairs if pair not in nameless))

    def _atom(self, condition: c.Condition, name: str, text: str) -> int:
        if condition in self.atoms:
            at = self.atoms.index(condition)
            self.names[at] = self.names[at] or name
            return at
        self.atoms.append(condition)
        self.names.append(name)
        self.texts.append(text)
        return len(self.atoms) - 1


def _has_names(node: tree.Condition) -> bool:
    match node:
        case tree.Reference():
            return True
        case tree.Not(item=item):
            return _has_names(item)
        case tree.And(items=items) | tree.Or(items=items):
            return any(_has_names(item) for item in items)
        case _:
            return False
