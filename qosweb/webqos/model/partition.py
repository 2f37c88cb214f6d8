"""Classes: the coarsest division of requests such that every constraint covers whole classes.

What tells requests apart are the page sets of constraints and priorities, and the atoms (the parts of conditions that
speak of the request) of those that cover a page. Shadows divide nothing: they change nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.match.automaton import Automaton, TooManyWays
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.domains import TooManySituations, outcomes
from qosweb.webqos.model.model import DEFAULT, PageSet, Priority, QosClass, Relative, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qosweb.webqos.model.lower import Lowered
    from qosweb.webqos.patterns import PagePattern

STATES_MAX = 40_000
CLASSES_MAX = 12_000
SITUATIONS_MAX = 20_000

Signature = tuple[int, ...]  # the page sets that cover a page


class TooManyClasses(Exception):
    """With the number of a page set, or -1, that has to do with it."""

    def __init__(self, page_set: int, message: str) -> None:
        super().__init__(message)
        self.page_set = page_set
        self.message = message


def sets_in_force(lowered: Lowered) -> set[int]:
    """The page sets that constraints and priorities speak of, shadows aside."""
    found: set[int] = set()
    for rule in lowered.rules:
        if not rule.shadow:
            found.update(mentioned(rule))
    return found


def mentioned(rule: Rule) -> tuple[int, ...]:
    if isinstance(rule, Priority):
        return rule.chain
    return (rule.pages, rule.value.pages) if isinstance(rule.value, Relative) else (rule.pages,)


def signatures(page_sets: tuple[PageSet, ...], used: Iterable[int]) -> list[Signature]:
    """Every combination of page sets that some page has; the empty one, ``default``, is last."""
    wanted = [number for number in sorted(used) if page_sets[number].kind == "pages"]
    patterns: dict[PagePattern, list[int]] = {}
    for number in wanted:
        for pattern in page_sets[number].patterns:
            patterns.setdefault(pattern, []).append(number)
    of_pattern = list(patterns.values())
    try:
        covers = Automaton(patterns).reachable(STATES_MAX)
    except TooManyWays:
        raise TooManyClasses(-1, "the patterns overlap in too many ways") from None
    found = {tuple(sorted({number for at in cover for number in of_pattern[at]})) for cover in covers}
    found.discard(())
    return [*sorted(found), ()]


def partition(lowered: Lowered) -> tuple[list[c.Condition], list[QosClass]]:
    """The atoms, those of links added, and the classes."""
    used = sets_in_force(lowered)
    atoms = list(lowered.atoms)
    names = list(lowered.atom_names)
    for number in sorted(used):
        if lowered.page_sets[number].kind == "links":
            atoms.append(c.Linked(number))
            names.append("links")
    links = {at: atom.pages for at, atom in enumerate(atoms) if isinstance(atom, c.Linked)}
    asked = _asked(lowered)
    wide = {number: found for number, found in asked.items() if lowered.page_sets[number].kind != "pages"}
    found = signatures(lowered.page_sets, used)
    smaller = _contained(found)
    namer = _Namer(lowered, names, smaller)
    classes: list[QosClass] = []
    known: dict[tuple[int, ...], list[tuple[bool, ...]]] = {}
    for signature in found:
        always = {atom for number in signature for atom in asked.get(number, ())}
        for number, more in wide.items():
            kind = lowered.page_sets[number].kind
            if kind == "all" or (kind == "default" and not signature):
                always |= more
        when_linked = {at: asked.get(number, set()) - always for at, number in links.items()}
        mine = tuple(sorted(always.union(links, *when_linked.values())))
        if mine not in known:
            try:
                known[mine] = sorted(outcomes([atoms[at] for at in mine], SITUATIONS_MAX))
            except TooManySituations:
                raise TooManyClasses(
                    signature[-1] if signature else -1, "too many conditions divide the requests for these pages"
                ) from None
        divided: dict[tuple[tuple[int, ...], tuple[int, ...]], None] = {}
        for outcome in known[mine]:
            held_all = {at for at, holds in zip(mine, outcome, strict=True) if holds}
            matters = always.union(links, *(when_linked[at] for at in links if at in held_all))
            held = tuple(at for at in mine if at in matters and at in held_all)
            failed = tuple(at for at in mine if at in matters and at not in held_all)
            divided[held, failed] = None
        classes += [QosClass(namer.name(signature, held), signature, held, failed) for held, failed in divided]
        if len(classes) > CLASSES_MAX:
            raise TooManyClasses(-1, f"there are more than {CLASSES_MAX:,} classes")
    return atoms, classes


def _asked(lowered: Lowered) -> dict[int, set[int]]:
    """The atoms that decide about each page set."""
    asked: dict[int, set[int]] = {}
    for rule in lowered.rules:
        if rule.condition is not None and not rule.shadow:
            found = {leaf.index for leaf in c.leaves(rule.condition) if isinstance(leaf, c.Atom)}
            # A condition narrows the left side: what is compared with, or comes after, stays whole.
            narrowed = rule.chain[:-1] if isinstance(rule, Priority) else (rule.pages,)
            for number in narrowed:
                asked.setdefault(number, set()).update(found)
    return asked


def _contained(found: list[Signature]) -> dict[tuple[int, int], bool]:
    """(a, b): every page of ``a`` is a page of ``b``, for sets that have a page in common."""
    contained: dict[tuple[int, int], bool] = {}
    for signature in found:
        for one in signature:
            for other in signature:
                if one != other:
                    contained.setdefault((one, other), True)
    having: dict[int, list[set[int]]] = {}
    for signature in found:
        for one in signature:
            having.setdefault(one, []).append(set(signature))
    for one, other in contained:
        contained[one, other] = all(other in signature for signature in having[one])
    return contained


class _Namer:
    def __init__(self, lowered: Lowered, atom_names: list[str], smaller: dict[tuple[int, int], bool]) -> None:
        self._lowered = lowered
        self._atom_names = [name or str(at + 1) for at, name in enumerate(atom_names)]
        self._smaller = smaller
        self._taken: dict[str, int] = {}
        kinds = {page_set.kind: number for number, page_set in enumerate(lowered.page_sets)}
        self._wide = [kinds[kind] for kind in ("all", "default") if kind in kinds]

    def name(self, signature: Signature, held: tuple[int, ...]) -> str:
        smallest = [
            one
            for one in signature
            if not any(
                self._smaller.get((other, one)) and not (self._smaller.get((one, other)) and other > one)
                for other in signature
                if other != one
            )
        ]
        base = "+".join(self._lowered.page_sets[one].name for one in smallest) or DEFAULT
        chosen = self._chosen(smallest, held)
        if chosen:
            base = chosen
        elif held:
            base += "#" + "+".join(dict.fromkeys(self._atom_names[at] for at in held))
        number = self._taken.get(base, 0)
        self._taken[base] = number + 1
        return base if not number else f"{base}~{number + 1}"

    def _chosen(self, smallest: list[int], held: tuple[int, ...]) -> str:
        """``as NAME`` of the statement that made this class."""
        names = self._lowered.class_names
        if len(held) == 1:
            for number in smallest or self._wide:
                if (number, held[0]) in names:
                    return names[number, held[0]].text
        return ""
