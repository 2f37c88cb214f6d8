"""Cache of parsed message heads by their bytes: a head is kept when it comes for the second time."""

from __future__ import annotations

from typing import Generic, TypeVar

HEADS_MAX = 4096
HEAD_LEN_MAX = 1024
SEEN_ONCE_MAX = 2_048  # few enough to stay in the processor's cache

Meaning = TypeVar("Meaning")


class KnownHeads(Generic[Meaning]):
    """Heads that came at least twice. Meanings must be immutable. ``known`` may be read directly."""

    __slots__ = ("_seen_once", "get", "known")

    def __init__(self) -> None:
        self.known: dict[bytes, Meaning] = {}
        self.get = self.known.get
        self._seen_once: set[int] = set()  # hashes only: a head that never comes again costs little memory

    def remember(self, head: bytes, meaning: Meaning) -> None:
        if self.comes_again(head):
            self.keep(head, meaning)

    def comes_again(self, head: bytes) -> bool:
        """Whether ``head`` is worth keeping: it came before, and is not too long."""
        if len(head) > HEAD_LEN_MAX:
            return False
        seen, mark = self._seen_once, hash(head)
        if mark in seen:
            return True
        if len(seen) >= SEEN_ONCE_MAX:
            seen.clear()
        seen.add(mark)
        return False

    def keep(self, head: bytes, meaning: Meaning) -> None:
        if len(self.known) >= HEADS_MAX:
            self.known.clear()
        self.known[head] = meaning

    def forget(self) -> None:
        """Clear the cache: the meaning of heads has changed."""
        self.known.clear()
        self._seen_once.clear()
