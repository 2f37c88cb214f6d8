"""Tracks which views have ended for all their members, so that their history can be dropped."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.names import ProcessId, View, ViewId


class PastViews:
    """Views in use, and the last view of each process. Ids given to a process only increase, in all its lives."""

    __slots__ = ("_views", "greatest", "lost")

    def __init__(self) -> None:
        self._views: dict[ViewId, View] = {}
        self.greatest: dict[ProcessId, ViewId] = {}
        self.lost: set[ProcessId] = set()  # processes that never come back

    def know(self, view: View) -> None:
        self._views[view.id] = view

    def enter(self, p: ProcessId, view: View) -> None:
        self._views[view.id] = view
        self.greatest[p] = view.id

    def is_past(self, p: ProcessId, view_id: ViewId) -> bool:
        """Whether p will never be in that view again."""
        return p in self.lost or self.greatest.get(p, view_id) > view_id

    def take_ended(self) -> list[ViewId]:
        """Returns the views that ended since the last call."""
        over = [v.id for v in self._views.values() if all(self.is_past(q, v.id) for q in v.members)]
        for view_id in over:
            del self._views[view_id]
        return over
