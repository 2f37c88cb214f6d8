"""``*`` in texts: anything, also nothing. Matching is linear: no client can make it slow."""

from typing import NamedTuple

FILLER = "\x01"  # stands for "anything" in witnesses; no text of a specification holds it


class Glob(NamedTuple):
    head: str
    middle: tuple[str, ...]
    tail: str

    @classmethod
    def parse(cls, text: str) -> "Glob":
        """``text`` holds at least one star."""
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
    return Glob.parse(glob).matches(text) if "*" in glob else glob == text
