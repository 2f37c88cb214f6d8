"""Questions that are asked beside the main work, because nobody has to wait for their answers yet.

Spark plans a query on one processor, and verdicts are reached on the driver: both leave the others idle. One thread, so
that questions are asked in their order and never more than two at a time.
Neighbours: ``analysis`` begins them as soon as the lines are added up, ``findings`` takes the answers.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")


class BackgroundQueries:
    """A with block: when it is left, nothing is under way any more, and what was not begun never will be."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="beside")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)

    def begin(self, ask: Callable[[], T]) -> Callable[[], T]:
        """Gives who waits for the answer, and raises what went wrong with it."""
        return self._pool.submit(ask).result
