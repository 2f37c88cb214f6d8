"""Partitions requests into classes: the coarsest partition in which every rule covers whole classes.

Requests are distinguished by the page sets of constraints and priorities, and by the atoms (request-dependent parts of
conditions) of the rules that cover the page. Shadow statements have no effect, so they divide nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.webqos.match.automaton import PatternAutomaton, TooManyWays
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.domains import TooManySituations, outcomes
from qosweb.webqos.model.model import DEFAULT, AtomCombination, PageSet, Priority, QosClass, Relative, Rule

if TYPE_CHECKING:
    from collections.abc import Iterable

    from qosweb.webqos.model.lower import LoweredParts
    from qosweb.webqos.patterns import PagePattern

STATES_MAX = 40_000
CLASSES_MAX = 12_000
SITUATIONS_MAX = 20_000
NAMED_MAX = 3  # combinations of atoms in the name of a class

Signature = tuple[int, ...]  # the page sets that cover a page


class TooManyClasses(Exception):
    """``page_set`` is the number of a page set that contributes to the excess, or -1."""

    def __init__(self, page_set: int, message: str) -> None:
        super().__init__(message)
        self.page_set = page_set
        self.message = message


def sets_in_force(lowered: LoweredParts) -> set[int]:
    """The page sets of all constraints and priorities, except shadow statements."""
    found: set[int] = set()
    for rule in lowered.rules:
        if not rule.shadow:
            found.update(mentioned(rule))
    return found


def mentioned(rule: Rule) -> tuple[int, ...]:
    """The page sets on both sides of a rule."""
    if isinstance(rule, Priority):
        return rule.chain
    return (rule.pages, rule.value.pages) if isinstance(rule.value, Relative) else (rule.pages,)


def signatures(page_sets: tuple[PageSet, ...], used: Iterable[int]) -> list[Signature]:
    """Every combination of page sets that covers some page. The empty one, ``default``, is last."""
    numbers = [number for number in sorted(used) if page_sets[number].kind == "pages"]
    patterns: dict[PagePattern, list[int]] = {}
    for number in numbers:
        for pattern in page_sets[number].patterns:
            patterns.setdefault(pattern, []).append(number)
    of_pattern = list(patterns.values())
    try:
        covers = PatternAutomaton(patterns).reachable(STATES_MAX)
    except TooManyWays:
        raise TooManyClasses(-1, "the patterns overlap in too many ways") from None
    found = {tuple(sorted({number for at in cover for number in of_pattern[at]})) for cover in covers}
    found.discard(())
    return [*sorted(found), ()]


def partition(lowered: LoweredParts) -> tuple[list[c.Condition], list[QosClass]]:
    """The atoms, including those of links, and the classes."""
    used = sets_in_force(lowered)
    atoms = list(lowered.atoms)
    names = list(lowered.atom_names)
    links: dict[int, int] = {}
    for number in sorted(used):
        if lowered.page_sets[number].kind == "links":
            links[number] = len(atoms)
            atoms.append(c.Linked(number))
            names.append("links")
    found = signatures(lowered.page_sets, used)
    namer = _Namer(lowered, names, _contained(found))
    rules = _DividingRules(lowered, links)
    classes: list[QosClass] = []
    known: dict[tuple[int, ...], list[tuple[bool, ...]]] = {}
    for signature in found:
        mine = rules.atoms_for(signature)
        if mine not in known:
            try:
                known[mine] = sorted(outcomes([atoms[at] for at in mine], SITUATIONS_MAX))
            except TooManySituations:
                raise TooManyClasses(
                    signature[-1] if signature else -1, "too many conditions divide the requests for these pages"
                ) from None
        alike: dict[tuple[c.Condition | bool, ...], list[AtomCombination]] = {}
        for outcome in known[mine]:
            held = tuple(at for at, holds in zip(mine, outcome, strict=True) if holds)
            failed = tuple(at for at, holds in zip(mine, outcome, strict=True) if not holds)
            alike.setdefault(rules.treatment(signature, frozenset(held)), []).append(AtomCombination(held, failed))
        for ways in alike.values():
            ways.sort(key=lambda way: (len(way.held), way.held))
            classes.append(QosClass(namer.name(signature, ways), signature, tuple(ways)))
        if len(classes) > CLASSES_MAX:
            raise TooManyClasses(-1, f"there are more than {CLASSES_MAX:,} classes")
    return atoms, classes


class _DividingRules:
    """The rules whose conditions distinguish requests for the same page, by page set."""

    def __init__(self, lowered: LoweredParts, links: dict[int, int]) -> None:
        self._links = links
        self._wide: list[tuple[str, int, c.Condition | None]] = []
        self._of_set: dict[int, list[c.Condition]] = {}
        for rule in lowered.rules:
            if rule.shadow:
                continue
            # A condition narrows only the left side of a rule.
            for number in rule.chain[:-1] if isinstance(rule, Priority) else (rule.pages,):
                kind = lowered.page_sets[number].kind
                divides = rule.condition is not None and bool(_atoms_of(rule.condition))
                if kind == "links":
                    self._wide.append((kind, number, rule.condition if divides else None))
                elif divides and rule.condition is not None:
                    if kind == "pages":
                        self._of_set.setdefault(number, []).append(rule.condition)
                    else:
                        self._wide.append((kind, number, rule.condition))

    def _about(self, signature: Signature) -> list[tuple[int, c.Condition | None]]:
        """For every rule that can cover such a page: the atom of its links, or -1, and its condition."""
        found: list[tuple[int, c.Condition | None]] = [
            (-1, condition) for number in signature for condition in self._of_set.get(number, ())
        ]
        for kind, number, condition in self._wide:
            if kind == "all" or kind == "links" or not signature:
                found.append((self._links.get(number, -1), condition))
        return found

    def atoms_for(self, signature: Signature) -> tuple[int, ...]:
        atoms: set[int] = set(self._links.values())
        for _, condition in self._about(signature):
            if condition is not None:
                atoms |= _atoms_of(condition)
        return tuple(sorted(atoms))

    def treatment(self, signature: Signature, held: frozenset[int]) -> tuple[c.Condition | bool, ...]:
        """The rest of each rule's condition when the atoms are decided. Requests with equal rests form one class."""
        left: list[c.Condition | bool] = [at in held for at in self._links.values()]
        for link, condition in self._about(signature):
            if link >= 0 and link not in held:
                left.append(False)
            else:
                left.append(True if condition is None else c.residual(condition, held))
        return tuple(left)


def _atoms_of(condition: c.Condition) -> set[int]:
    return {leaf.index for leaf in c.leaves(condition) if isinstance(leaf, c.Atom)}


def _contained(found: list[Signature]) -> dict[tuple[int, int], bool]:
    """For sets (a, b) that have a page in common: whether every page of ``a`` is a page of ``b``."""
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
    """Names classes by page sets and conditions, without duplicates."""

    def __init__(self, lowered: LoweredParts, atom_names: list[str], smaller: dict[tuple[int, int], bool]) -> None:
        self._lowered = lowered
        self._atom_names = [name or str(at + 1) for at, name in enumerate(atom_names)]
        self._smaller = smaller
        self._taken: dict[str, int] = {}
        kinds = {page_set.kind: number for number, page_set in enumerate(lowered.page_sets)}
        self._wide = [kinds[kind] for kind in ("all", "default") if kind in kinds]

    def name(self, signature: Signature, ways: list[AtomCombination]) -> str:
        held = ways[0].held
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
        chosen = [
            (name, condition)
            for (number, condition), name in self._lowered.aliases.items()
            if number in (smallest or self._wide) and c.residual(condition, frozenset(held)) is not False
        ]
        named = {atom for _, condition in chosen for atom in _atoms_of(condition)}
        if chosen:
            base = "+".join(dict.fromkeys(name for name, _ in chosen))
        more = [
            "+".join(dict.fromkeys(self._atom_names[at] for at in way.held if at not in named))
            for way in ways
            if not any(set(other.held) < set(way.held) for other in ways)
        ]
        if all(more):
            base += "#" + "|".join(dict.fromkeys(more[:NAMED_MAX])) + ("|..." if len(more) > NAMED_MAX else "")
        number = self._taken.get(base, 0)
        self._taken[base] = number + 1
        return base if not number else f"{base}~{number + 1}"
