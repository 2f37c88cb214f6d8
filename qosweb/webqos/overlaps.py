"""Enumerates the subsets of globs that one text can match, with an example text for each subset.

The globs form a nondeterministic automaton that reads a text character by character. Its state is the set of positions
reached in the globs, stored as the bits of one integer. A position after a star makes all positions before that star
redundant. All characters that occur in no glob behave alike, so one of them, ``FILLER``, stands for all.

Callers also know literal texts, and stems (texts up to the first dot). A text with FILLER equals no literal; a text
with FILLER before its first dot has none of the stems. So example texts contain FILLER wherever possible. Where it is
impossible, only finitely many texts match that subset, and some of them are given.
"""

from collections import deque
from collections.abc import Collection, Iterable

from qosweb.webqos.globs import FILLER

TEXTS_MAX = 8  # for a subset without an example with FILLER before the dot

_NONE, _AFTER_DOT, _BEFORE_DOT = range(3)  # position of FILLER


class TooManyOverlaps(Exception):
    """The search exceeds its limit."""


class Overlaps:
    """The automaton of several globs. A group counts as matched if one of its globs matches.

    ``exact`` are texts in which a star is an ordinary character, and which are always case-sensitive.
    """

    def __init__(
        self, globs: Iterable[str | Collection[str]], exact: Iterable[str] = (), *, any_case: bool = False
    ) -> None:
        self._places = 0  # number of positions
        self._stars = 0
        self._ends = 0
        self._groups: list[int] = []  # the final positions of each group
        self._named: dict[str, int] = {}  # by character: the positions it advances
        self._before: dict[int, int] = {}  # by star: the positions of the glob before it
        self._endings: dict[tuple[int, int, bool], list[str]] = {}
        self._start = 0
        for glob in globs:
            if isinstance(glob, str):
                self._add(glob, any_case=any_case)
            else:
                self._add_group(sorted(glob), any_case=any_case)
        for text in exact:
            self._add(text, has_stars=False)
        self._start = self._closed(self._start, 0)

    def _add(self, glob: str, *, any_case: bool = False, has_stars: bool = True) -> None:
        first = place = 1 << self._places
        for character in glob:
            if character == "*" and has_stars:
                self._stars |= place
                self._before[place] = place - first
            else:
                for form in {character, character.upper(), character.lower()} if any_case else {character}:
                    if len(form) == 1:
                        self._named[form] = self._named.get(form, 0) | place
            place <<= 1
        self._places += len(glob) + 1
        self._start |= first
        self._ends |= place

    def _add_group(self, globs: list[str], *, any_case: bool) -> None:
        """A final star that is reached decides the group: other positions of the group become redundant."""
        first, ends_before = self._places, self._ends
        last_stars = []
        for glob in globs:
            self._add(glob, any_case=any_case)
            if glob.endswith("*"):
                last_stars.append(1 << (self._places - 2))
        all_places = (1 << self._places) - (1 << first)
        for star in last_stars:
            self._before[star] = all_places & ~(star | star << 1)
        self._groups.append(self._ends & ~ends_before)

    def _matched(self, places: int) -> int:
        """The final positions that are reached; a group is represented by its last one."""
        ends = places & self._ends
        for group in self._groups:
            if ends & group:
                ends = (ends & ~group) | (1 << (group.bit_length() - 1))
        return ends

    def _closed(self, places: int, known: int) -> int:
        """Add positions that stars reach without a character; remove positions that new stars make redundant."""
        stars = places & self._stars
        while stars:
            stars <<= 1
            places |= stars
            stars &= self._stars
        new = places & self._stars & ~known
        while new:
            last = 1 << (new.bit_length() - 1)
            places &= ~self._before[last]
            new &= places & ~last
        return places

    def _step(self, places: int, character: str) -> int:
        known = places & self._stars
        return self._closed((places & self._named.get(character, 0)) << 1 | known, known)

    def texts(self, most: int, beginning: str = "") -> list[str]:
        """Example texts that start with ``beginning``, none empty. Raises TooManyOverlaps beyond ``most`` states."""
        places = self._start
        for character in beginning:
            places = self._step(places, character)
        start = (places, _NONE, "." in beginning)
        if start not in self._endings:
            self._endings[start] = self._search(start, most)
        return [beginning + ending for ending in self._endings[start] if beginning or ending]

    def _search(self, start: tuple[int, int, bool], most: int) -> list[str]:
        """Breadth-first search, which finds the shortest texts."""
        seen = {start}
        waiting = deque([(*start, "")])
        found: dict[int, tuple[list[str], list[str]]] = {}  # by subset: texts without and with the best FILLER
        while waiting:
            places, filler, dotted, text = waiting.popleft()
            lists = found.setdefault(self._matched(places), ([], []))
            known = lists[filler >= (_AFTER_DOT if start[2] else _BEFORE_DOT)]
            if len(known) < TEXTS_MAX:
                known.append(text)
            for character in (FILLER, *(named for named, leading in self._named.items() if leading & places)):
                then_filler = filler
                if character == FILLER:
                    then_filler = max(filler, _AFTER_DOT if dotted else _BEFORE_DOT)
                state = (
                    self._step(places, character),
                    then_filler,
                    dotted or character == "." or then_filler == _BEFORE_DOT,
                )
                if state not in seen:
                    seen.add(state)
                    if len(seen) > most:
                        raise TooManyOverlaps
                    waiting.append((*state, text + character))
        return [text for without, best in found.values() for text in (best[:1] or without)]
