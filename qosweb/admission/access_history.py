"""Access history: when pages were last requested, for the conditions ``accessed(...)`` and ``last_access``.

The history is bounded, because clients choose its keys. A forgotten access counts as never made. If it is shared with
other nodes, it also collects the accesses here since they were last told.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable

K = TypeVar("K")

REMEMBERED_MAX = 65_536
NEWS_MAX = 4_096


class AccessHistory:
    __slots__ = ("_by_client", "_by_path", "_client_news", "_path_news", "is_shared")

    def __init__(self) -> None:
        self.is_shared = False
        self._client_news: dict[tuple[int, str], float] = {}
        self._path_news: dict[str, float] = {}
        self._by_client: dict[tuple[int, str], float] = {}
        self._by_path: dict[str, float] = {}

    def note(self, page_sets: Iterable[int], client: str, now: float) -> None:
        for number in page_sets:
            _remember(self._by_client, (number, client), now)
            if self.is_shared:
                _remember(self._client_news, (number, client), now, NEWS_MAX)

    def note_path(self, path: str, now: float) -> None:
        _remember(self._by_path, path, now)
        if self.is_shared:
            _remember(self._path_news, path, now, NEWS_MAX)

    def take_news(self) -> tuple[dict[tuple[int, str], float], dict[str, float]]:
        """The accesses by client and by path since the last call, the newest last."""
        news = self._client_news, self._path_news
        if news[0] or news[1]:
            self._client_news, self._path_news = {}, {}
        return news

    def learn(self, number: int, client: str, at: float) -> None:
        """Another node had this access."""
        if at > self._by_client.get((number, client), -inf):
            _remember(self._by_client, (number, client), at)

    def learn_path(self, path: str, at: float) -> None:
        if at > self._by_path.get(path, -inf):
            _remember(self._by_path, path, at)

    def of_client_ms(self, number: int, client: str, now: float) -> int | None:
        return _age_ms(self._by_client.get((number, client)), now)

    def of_path_ms(self, path: str, now: float) -> int | None:
        return _age_ms(self._by_path.get(path), now)


def _remember(known: dict[K, float], key: K, now: float, len_max: int = REMEMBERED_MAX) -> None:
    known.pop(key, None)  # keeps the newest entry last
    known[key] = now
    if len(known) > len_max:
        del known[next(iter(known))]


def _age_ms(at: float | None, now: float) -> int | None:
    return None if at is None else int(max(0.0, now - at) * 1000)
