"""Seeded random numbers, equal on every machine and Python version.

Splitmix64 (Steele, Lea, Flood, OOPSLA 2014): a counter and a bit mixer. Named forks give every link and every node its
own stream, so that removing a step from a schedule leaves the other streams unchanged.
"""

from __future__ import annotations

from hashlib import blake2b
from math import log
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

Item = TypeVar("Item")

_BITS = 0xFFFFFFFFFFFFFFFF
_STEP = 0x9E3779B97F4A7C15
_UNIT = 2.0**-53


class SeededRandom:
    """A random stream."""

    __slots__ = ("_seed", "_state")

    def __init__(self, seed: int) -> None:
        self._seed = self._state = seed & _BITS

    def random(self) -> float:
        """Uniform in [0, 1)."""
        self._state = z = (self._state + _STEP) & _BITS
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _BITS
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _BITS
        return ((z ^ (z >> 31)) >> 11) * _UNIT

    def below(self, limit: int) -> int:
        """Uniform in 0 .. limit - 1, for limits far below 2^53."""
        return int(self.random() * limit)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.random()

    def hits(self, probability: float) -> bool:
        return self.random() < probability

    def exponential(self, mean: float) -> float:
        return -mean * log(1.0 - self.random())

    def choice(self, items: Sequence[Item]) -> Item:
        return items[int(self.random() * len(items))]

    def shuffle(self, items: list[Item]) -> None:
        for i in range(len(items) - 1, 0, -1):
            j = self.below(i + 1)
            items[i], items[j] = items[j], items[i]

    def sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """`count` distinct items in random order."""
        pool = list(items)
        self.shuffle(pool)
        return pool[:count]

    def fork(self, name: str) -> SeededRandom:
        """An independent stream, determined by seed and name, whatever was drawn before."""
        digest = blake2b(f"{self._seed}/{name}".encode(), digest_size=8).digest()
        return SeededRandom(int.from_bytes(digest, "big"))
