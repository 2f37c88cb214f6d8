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


def compatible(one: Glob, other: Glob) -> bool:
    """Whether some text matches both: their heads agree as far as both reach, and so do their tails."""
    heads = one.head.startswith(other.head) or other.head.startswith(one.head)
    return heads and (one.tail.endswith(other.tail) or other.tail.endswith(one.tail))


def witness(globs: tuple[Glob, ...]) -> str:
    """A text that matches all of ``globs``, which are compatible with each other, and no more than that."""
    head = max((glob.head for glob in globs), key=len, default="")
    tail = max((glob.tail for glob in globs), key=len, default="")
    middle = [part for glob in globs for part in glob.middle]
    return FILLER.join((head, *middle, tail)) if middle else f"{head}{FILLER}{tail}"
