"""Glob matching with ``*`` for any text, also the empty text. Takes linear time, so clients cannot slow it down."""

from typing import NamedTuple

FILLER = "\x01"  # "any other character" in example texts; no specification contains it


class Glob(NamedTuple):
    """A glob, split at its stars."""

    head: str
    middle: tuple[str, ...]
    tail: str

    @classmethod
    def parse(cls, text: str) -> "Glob":
        """``text`` has at least one star."""
        head, *middle, tail = text.split("*")
        return cls(head, tuple(part for part in middle if part), tail)

    def matches(self, text: str) -> bool:
        start, end = len(self.head), len(text) - len(self.tail)
        if end < start or not text.startswith(self.head) or not text.endswith(self.tail):
            return False
        for part in self.middle:
            at = text.find(part, start, end)
            if at < 0:
                return False
            start = at + len(part)
        return True


def matches(glob: str, text: str) -> bool:
    """Match ``text`` against ``glob``, which may have no star."""
    return Glob.parse(glob).matches(text) if "*" in glob else glob == text
