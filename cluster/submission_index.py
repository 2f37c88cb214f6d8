"""Maps delivered entries of this process to their submissions.

Labels of one view are numbered from 1 without gaps, and own labels are delivered in increasing order. So the tickets of
a view form a queue. Tickets are added and, with rare exceptions, removed in runs.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cluster.names import Label, ViewId
    from cluster.run_log import Run

NO_TICKET = 0  # the ticket of an entry without a waiting submitter


class SubmissionIndex:
    __slots__ = ("_open", "count")

    def __init__(self) -> None:
        self._open: dict[ViewId, tuple[int, deque[list[int]]]] = {}  # number of the first ticket, and the runs
        self.count = 0  # number of submissions with a waiting submitter

    def put(self, view_id: ViewId, seqno: int, tickets: list[int]) -> None:
        """Records that labels seqno, seqno + 1, ... of this view were given to these tickets."""
        known = self._open.get(view_id)
        if known is None:
            self._open[view_id] = (seqno, deque((tickets,)))
        else:
            known[1].append(tickets)
        self.count += len(tickets) - tickets.count(NO_TICKET)

    def take(self, run: Run) -> list[int]:
        """Removes and returns the tickets of an own delivered run; none if it belongs to an earlier life."""
        return self._take(run.view_id, run.seqno + run.pack.count)

    def take_up_to(self, label: Label) -> list[int]:
        """Removes and returns the tickets of all own labels up to this one."""
        taken: list[int] = []
        for view_id in sorted(self._open):
            if view_id <= label.view_id:
                end = label.seqno + 1 if view_id == label.view_id else 1 << 62
                taken += self._take(view_id, end)
        return taken

    def _take(self, view_id: ViewId, end: int) -> list[int]:
        known = self._open.get(view_id)
        if known is None:
            return []
        first, runs = known
        taken: list[int] = []
        while runs and first < end:
            run = runs.popleft()
            if first + len(run) > end:
                runs.appendleft(run[end - first :])
                run = run[: end - first]
            first += len(run)
            taken = taken + run if taken else run
        if runs:
            self._open[view_id] = (first, runs)
        else:
            del self._open[view_id]
        self.count -= len(taken) - taken.count(NO_TICKET)
        return taken
