"""History variables of DVS: which processes attempted and registered which primary views of a run.

Paper: De Prisco et al., PODC 1998, section 4 (created, attempted, registered, Att, TotAtt, TotReg).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from cluster.names import ProcessId, View, ViewId


class PrimaryHistory:
    def __init__(self, v0: View | None) -> None:
        self.views: dict[ViewId, View] = {}  # created; a view is created when first attempted, so this is Att too
        self.attempted: dict[ViewId, set[ProcessId]] = {}
        self.registered: dict[ViewId, set[ProcessId]] = {}
        self._ids: list[ViewId] = []  # of views, ascending
        self._tot_reg: list[ViewId] = []  # ids of TotReg, ascending
        if v0 is not None:
            self.create(v0)
            for p in v0.members:
                self.attempt(v0, p)
                self.register(v0.id, p)

    def create(self, v: View) -> None:
        self.views[v.id] = v
        self.attempted[v.id] = set()
        self.registered[v.id] = set()
        insort(self._ids, v.id)

    def attempt(self, v: View, p: ProcessId) -> None:
        if v.id not in self.views:
            self.create(v)
        self.attempted[v.id].add(p)

    def register(self, view_id: ViewId, p: ProcessId) -> bool:
        """Records the registration. Returns whether it made the view totally registered."""
        registered = self.registered[view_id]
        registered.add(p)
        if not self.is_tot_reg(view_id) and registered.issuperset(self.views[view_id].members):
            insort(self._tot_reg, view_id)
            return True
        return False

    def is_tot_att(self, view_id: ViewId) -> bool:
        return self.attempted[view_id].issuperset(self.views[view_id].members)

    def is_tot_reg(self, view_id: ViewId) -> bool:
        i = bisect_left(self._tot_reg, view_id)
        return i < len(self._tot_reg) and self._tot_reg[i] == view_id

    def latest(self, count: int) -> list[View]:
        """The created views with the greatest ids, lowest first."""
        return [self.views[view_id] for view_id in self._ids[-count:]]

    def below(self, view_id: ViewId) -> Iterator[View]:
        """Created views w below, with no x in TotReg such that w.id < x.id < view_id. Greatest first."""
        for i in range(bisect_left(self._ids, view_id) - 1, -1, -1):
            yield self.views[self._ids[i]]
            if self.is_tot_reg(self._ids[i]):
                return

    def above(self, view_id: ViewId) -> Iterator[View]:
        """Created views w above, with no x in TotReg such that view_id < x.id < w.id. Lowest first."""
        start = bisect_left(self._ids, view_id)
        for i in range(start + (start < len(self._ids) and self._ids[start] == view_id), len(self._ids)):
            yield self.views[self._ids[i]]
            if self.is_tot_reg(self._ids[i]):
                return

    def latest_tot_reg_below(self, view_id: ViewId) -> View | None:
        i = bisect_left(self._tot_reg, view_id)
        return self.views[self._tot_reg[i - 1]] if i else None


def intersect(v: View, w: View) -> bool:
    return any(p in w.members for p in v.members)


def is_quorum(present: Iterable[ProcessId], w: View) -> bool:
    """Replaces |present ∩ w.set| > |w.set| / 2: this majority, or half of w with its lowest-ranked member."""
    common = set(present).intersection(w.members)
    return 2 * len(common) > len(w.members) or (2 * len(common) == len(w.members) and min(w.members) in common)
