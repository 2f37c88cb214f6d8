"""Access history: when pages were last requested, for the conditions ``accessed(...)`` and ``last_access``.

The history is bounded, because clients choose its keys. A forgotten access counts as never made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

K = TypeVar("K")

REMEMBERED_MAX = 65_536


class AccessHistory:
    __slots__ = ("_by_client", "_by_path")

    def __init__(self) -> None:
        self._by_client: dict[tuple[int, str], float] = {}
        self._by_path: dict[str, float] = {}

    def note(self, page_sets: Iterable[int], client: str, now: float) -> None:
        for number in page_sets:
            _remember(self._by_client, (number, client), now)

    def note_path(self, path: str, now: float) -> None:
        _remember(self._by_path, path, now)

    def of_client_ms(self, number: int, client: str, now: float) -> int | None:
        return _age_ms(self._by_client.get((number, client)), now)

    def of_path_ms(self, path: str, now: float) -> int | None:
        return _age_ms(self._by_path.get(path), now)


def _remember(known: dict[K, float], key: K, now: float) -> None:
    known.pop(key, None)  # keeps the newest entry last
    known[key] = now
    if len(known) > REMEMBERED_MAX:
        del known[next(iter(known))]


def _age_ms(at: float | None, now: float) -> int | None:
    return None if at is None else int(max(0.0, now - at) * 1000)
