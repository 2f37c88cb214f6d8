"""Every way in which one text can match some of many globs and not the others, each with a text that does.

The globs together are a machine that reads a text character by character. Its state is the set of places that the text
read so far has reached in the globs, kept as the bits of one integer; a place behind a star makes all places before
that star needless. Characters that no glob names all do the same, so one of them, ``FILLER``, stands for all.

Besides the globs there are texts that others name: literal ones, and stems, which end at the first dot. A text with
FILLER is none of the former, one with FILLER before its first dot none of the latter. So for every way such texts are
given, if there are any. Where there are none, only finitely many texts go that way, and some of them are given.
"""

from collections import deque
from collections.abc import Collection, Iterable

from qosweb.webqos.globs import FILLER

TEXTS_MAX = 8  # for a way without FILLER before a dot

_NONE, _AFTER_DOT, _BEFORE_DOT = range(3)  # where FILLER stands


class TooManyOverlaps(Exception):
    """There are more ways than can be written down."""


class Overlaps:
    """Of each group of ``globs`` it matters whether a text matches one of them, not which.

    ``exact`` are texts in which a star is a star, and case matters even if it does not in ``globs``.
    """

    def __init__(
        self, globs: Iterable[str | Collection[str]], exact: Iterable[str] = (), *, any_case: bool = False
    ) -> None:
        self._places = 0  # how many there are
        self._stars = 0
        self._ends = 0
        self._groups: list[int] = []  # the ends of each group of several
        self._named: dict[str, int] = {}  # the places that a character leads on from
        self._before: dict[int, int] = {}  # the places of a glob before one of its stars
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
        """A text that has matched to a star at the end of one need not be followed in the others."""
        first, ends_before = self._places, self._ends
        last_stars = []
        for glob in globs:
            self._add(glob, any_case=any_case)
            if glob.endswith("*"):
                last_stars.append(1 << (self._places - 2))
        whole = (1 << self._places) - (1 << first)
        for star in last_stars:
            self._before[star] = whole & ~(star | star << 1)
        self._groups.append(self._ends & ~ends_before)

    def _way(self, places: int) -> int:
        """What is matched; of a group its last."""
        ends = places & self._ends
        for group in self._groups:
            if ends & group:
                ends = (ends & ~group) | (1 << (group.bit_length() - 1))
        return ends

    def _closed(self, places: int, known: int) -> int:
        """With those that stars lead to without a character, and without those that new stars make needless."""
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
        """Texts, none of them empty, that begin with ``beginning``; raises TooManyOverlaps if it takes too many."""
        places = self._start
        for character in beginning:
            places = self._step(places, character)
        start = (places, _NONE, "." in beginning)
        if start not in self._endings:
            self._endings[start] = self._search(start, most)
        return [beginning + ending for ending in self._endings[start] if beginning or ending]

    def _search(self, start: tuple[int, int, bool], most: int) -> list[str]:
        """Breadth first: the shortest texts."""
        seen = {start}
        waiting = deque([(*start, "")])
        found: dict[int, tuple[list[str], list[str]]] = {}  # per way, without and with the best of FILLERs
        while waiting:
            places, filler, dotted, text = waiting.popleft()
            lists = found.setdefault(self._way(places), ([], []))
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
