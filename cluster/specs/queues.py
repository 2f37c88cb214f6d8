"""Message queues for specifications: one that drops its beginning, one that allows for losses."""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

T = TypeVar("T")


class Window(Generic[T]):
    """A sequence of which only the end is kept. Indexes count from 0 over the whole sequence."""

    __slots__ = ("_items", "low")

    def __init__(self) -> None:
        self.low = 0  # indexes below are dropped
        self._items: deque[T] = deque()

    @property
    def end(self) -> int:
        return self.low + len(self._items)

    def append(self, item: T) -> None:
        self._items.append(item)

    def __getitem__(self, index: int) -> T:
        if index < self.low:
            raise IndexError(index)
        return self._items[index - self.low]

    def drop_below(self, index: int) -> None:
        while self.low < index and self._items:
            self._items.popleft()
            self.low += 1


class LossyQueue(Generic[T]):
    """A FIFO queue in which suffixes may have been lost at known moments, and single elements taken back.

    A loss shows only when a later element is taken, and equal elements can leave several explanations open. So the
    queue keeps all possible positions of its head (nearly always one) and rejects only what no explanation allows. A
    suffix lost at the moment when k elements had been put in means: the k-th element can follow any element below k. An
    optional element may have been taken back without notice.
    """

    __slots__ = ("_gone", "_heads", "_items", "_loss_points", "_optional")

    def __init__(self) -> None:
        self._items: Window[T] = Window()
        self._heads: set[int] = {0}
        self._loss_points: deque[int] = deque()  # ascending
        self._gone: set[int] = set()
        self._optional: set[int] = set()

    def __len__(self) -> int:
        return self._items.end - min(self._heads)

    def put(self, item: T, *, optional: bool = False) -> None:
        if optional:
            self._optional.add(self._items.end)
        self._items.append(item)

    def lose(self) -> None:
        """Any suffix of the queue may be lost at this moment."""
        if not self._loss_points or self._loss_points[-1] != self._items.end:
            self._loss_points.append(self._items.end)

    def clear(self) -> None:
        """The whole content is lost for certain."""
        self._heads = {self._items.end}
        self._forget()

    def take_back(self, item: T) -> bool:
        """Removes the last element that equals this one and is still in the queue. False: there is none."""
        for index in range(self._items.end - 1, min(self._heads) - 1, -1):
            if index not in self._gone and self._items[index] == item:
                self._gone.add(index)
                return True
        return False

    def candidates(self) -> list[int]:
        """The possible positions of the next element."""
        lowest = min(self._heads)
        heads = {*self._heads, *(point for point in self._loss_points if point >= lowest)}
        found: set[int] = set()
        for start in sorted(heads):
            head = start
            while head in self._gone or head in self._optional:
                if head in self._optional:
                    found.add(head)
                head += 1
            found.add(head)
        found -= self._gone
        return sorted(head for head in found if head < self._items.end)

    def take(self, item: T) -> bool:
        """Takes `item` if it can be next. Returns whether it can."""
        if len(self._heads) == 1 and not (self._loss_points or self._gone or self._optional):
            (head,) = self._heads
            matches = [head] if head < self._items.end and _same(self._items[head], item) else []
        else:
            matches = [index for index in self.candidates() if _same(self._items[index], item)]
        if not matches:
            return False
        self._heads = {index + 1 for index in matches}
        self._forget()
        return True

    def take_anywhere(self, item: T) -> bool:
        """Like `take`, but everything before `item` may be lost; later elements only where `lose` allowed it."""
        matches = [i for i in range(min(self._heads), self._items.end) if _same(self._items[i], item)]
        if not matches:
            return False
        self._heads = {index + 1 for index in matches}
        self._forget()
        return True

    def front(self) -> list[T]:
        """The possible next elements, for messages."""
        return [self._items[index] for index in self.candidates()]

    def _forget(self) -> None:
        low = min(self._heads)
        self._items.drop_below(low)
        while self._loss_points and self._loss_points[0] < low:
            self._loss_points.popleft()
        if self._gone:
            self._gone = {index for index in self._gone if index >= low}
        if self._optional:
            self._optional = {index for index in self._optional if index >= low}


def _same(one: object, other: object) -> bool:
    return one is other or one == other
