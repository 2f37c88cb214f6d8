"""Coverage: the classes that belong to a page set, and those for which a rule's condition holds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.model import conditions as c

if TYPE_CHECKING:
    from qosweb.webqos.model.model import Model, Rule


class Coverage:
    """An index from page sets to classes."""

    def __init__(self, model: Model) -> None:
        self._held = [frozenset(one.held) for one in model.classes]
        self._of: list[tuple[int, ...]] = []
        by_set: dict[int, list[int]] = {}
        for number, one in enumerate(model.classes):
            for covering in one.pages:
                by_set.setdefault(covering, []).append(number)
        atom_of = {atom.pages: at for at, atom in enumerate(model.atoms) if isinstance(atom, c.Linked)}
        for number, page_set in enumerate(model.page_sets):
            match page_set.kind:
                case "pages":
                    self._of.append(tuple(by_set.get(number, ())))
                case "all":
                    self._of.append(tuple(range(len(model.classes))))
                case "default":
                    self._of.append(tuple(at for at, one in enumerate(model.classes) if not one.pages))
                case "links":
                    atom = atom_of.get(number, -1)
                    self._of.append(tuple(at for at, held in enumerate(self._held) if atom in held))

    def classes(self, page_set: int) -> tuple[int, ...]:
        return self._of[page_set]

    def where_it_holds(self, rule: Rule, page_set: int, facts: c.Facts) -> tuple[int, ...]:
        """The classes of ``page_set`` for which the condition of ``rule`` holds."""
        classes = self._of[page_set]
        condition = rule.condition
        if condition is None:
            return classes
        if not any(isinstance(leaf, c.Atom) for leaf in c.leaves(condition)):
            return classes if c.holds(condition, facts) else ()
        return tuple(at for at in classes if c.holds(condition, facts, self._held[at]))
