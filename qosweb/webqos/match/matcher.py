"""Matcher: finds the class of a request. The automaton finds the page sets; conditions are evaluated only if needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from qosweb.webqos.match.automaton import AutomatonState, PatternAutomaton
from qosweb.webqos.match.predicates import as_test
from qosweb.webqos.model import conditions as c
from qosweb.webqos.model.model import Constraint
from qosweb.webqos.model.partition import mentioned
from qosweb.webqos.patterns import PagePattern, path_segments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from qosweb.webqos.model.model import AtomCombination, Model


RECENT_MASK = 4_095
RECENT_PATH_MAX = 200


@dataclass(frozen=True, slots=True)
class Branch:
    """A decision node that distinguishes requests for the same page by a condition."""

    atom: int
    test: Callable[[c.Facts], bool]
    yes: Decision
    no: Decision


Decision = int | Branch  # a class, or a decision tree


class PageSetMatcher:
    """Finds which of the given page sets cover a page."""

    def __init__(self, model: Model, numbers: Iterable[int]) -> None:
        patterns: dict[PagePattern, list[int]] = {}
        self._everywhere: list[int] = []
        self._default: list[int] = []
        for number in sorted(set(numbers)):
            page_set = model.page_sets[number]
            if page_set.kind == "all":
                self._everywhere.append(number)
            elif page_set.kind == "default":
                self._default.append(number)
            for pattern in page_set.patterns:
                patterns.setdefault(pattern, []).append(number)
        self._sets_of = list(patterns.values())
        self._automaton = PatternAutomaton(patterns)
        self._known: dict[frozenset[int], tuple[int, ...]] = {}

    def state(self, host: str, path: str) -> AutomatonState:
        """The automaton state of ``path`` (canonical and decoded); equal for pages that the same patterns cover."""
        return self._automaton.cover(host, path_segments(path))

    def signature(self, host: str, path: str) -> tuple[int, ...]:
        """The page sets with patterns that cover ``path``."""
        return self.signature_of(self.state(host, path))

    def signature_of(self, state: AutomatonState) -> tuple[int, ...]:
        known = self._known.get(state.accepts)
        if known is None:
            known = tuple(sorted({number for at in state.accepts for number in self._sets_of[at]}))
            self._known[state.accepts] = known
        return known

    def all_sets(self, host: str, path: str, *, is_default: bool) -> frozenset[int]:
        return frozenset((*self.signature(host, path), *self._everywhere, *(self._default if is_default else ())))


class Matcher:
    """Classifies requests under one model. Requests change nothing but its caches."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self._cover = PageSetMatcher(model, in_force(model))
        by_signature: dict[tuple[int, ...], list[tuple[int, AtomCombination]]] = {}
        for number, one in enumerate(model.classes):
            by_signature.setdefault(one.pages, []).extend((number, way) for way in one.ways)
        tests = [as_test(atom) for atom in model.atoms]
        self._decisions = {signature: self._decision(ways, tests, ()) for signature, ways in by_signature.items()}
        # A direct-mapped cache of recently requested pages.
        self._recent: list[tuple[str, str, Decision] | None] = [None] * (RECENT_MASK + 1)
        self._watched = watched(model)
        self._watch = PageSetMatcher(model, self._watched)
        # By rule number, constraints before priorities. A priority covers all pages of its chain.
        self._shadow_pages = {
            number: {rule.pages} if isinstance(rule, Constraint) else {*rule.chain}
            for number, rule in enumerate(model.rules)
            if rule.shadow
        }
        self._shadows = PageSetMatcher(model, (pages for about in self._shadow_pages.values() for pages in about))

    def decide(self, host: str, path: str) -> Decision:
        """The decision for a page: ``host`` in lower case, ``path`` canonical and decoded."""
        place = hash(path) & RECENT_MASK
        recent = self._recent[place]
        if recent is not None and recent[0] == path and recent[1] == host:
            return recent[2]
        state = self._cover.state(host, path)
        decision: Decision | None = state.meaning
        if decision is None:
            decision = state.meaning = self._decisions[self._cover.signature_of(state)]
        if len(path) <= RECENT_PATH_MAX:
            self._recent[place] = path, host, decision
        return decision

    def classify(self, host: str, path: str, facts: c.Facts) -> int:
        """The number of the class of a request."""
        decision = self.decide(host, path)
        while isinstance(decision, Branch):
            decision = decision.yes if decision.test(facts) else decision.no
        return decision

    def watched_sets(self, host: str, path: str) -> frozenset[int]:
        """The page sets of ``accessed(...)`` and ``links(...)`` that contain the page."""
        if not self._watched:
            return frozenset()
        is_default = not self._cover.signature(host, path)
        return self._watch.all_sets(host, path, is_default=is_default)

    def shadows(self, host: str, path: str) -> list[int]:
        """The shadow statements whose pages include this page, as numbers in ``model.rules``."""
        if not self._shadow_pages:
            return []
        is_default = not self._cover.signature(host, path)
        sets = self._shadows.all_sets(host, path, is_default=is_default)
        return [number for number, about in self._shadow_pages.items() if not sets.isdisjoint(about)]

    def _decision(
        self, ways: list[tuple[int, AtomCombination]], tests: list[Callable[[c.Facts], bool]], decided: tuple[int, ...]
    ) -> Decision:
        """A decision tree over the atoms that distinguish ``ways``. Atoms of links come first: they often decide."""
        if len({number for number, _ in ways}) == 1:
            return ways[0][0]
        atoms = {at for _, way in ways for at in (*way.held, *way.failed)}.difference(decided)
        atom = min(atoms, key=lambda at: (not isinstance(self.model.atoms[at], c.Linked), at))
        now = (*decided, atom)
        yes = [(number, way) for number, way in ways if atom in way.held]
        no = [(number, way) for number, way in ways if atom in way.failed]
        if not yes or not no:
            return self._decision(ways, tests, now)
        then, otherwise = self._decision(yes, tests, now), self._decision(no, tests, now)
        return then if then == otherwise else Branch(atom, tests[atom], then, otherwise)


def in_force(model: Model) -> set[int]:
    """The page sets that divide requests into classes."""
    return {number for rule in model.rules if not rule.shadow for number in mentioned(rule)}


def watched(model: Model) -> set[int]:
    """The page sets whose requests must be recorded: those of ``accessed`` and the sources of ``links``."""
    found = {page_set.of for page_set in model.page_sets if page_set.kind == "links"}
    conditions = [*model.atoms, *(rule.condition for rule in model.rules if rule.condition)]
    for condition in conditions:
        for leaf in c.leaves(condition):
            if isinstance(leaf, c.Within) and leaf.subject in ("accessed", "client_accessed"):
                found.add(int(leaf.argument))
    return found
