"""Summarises a run on one page: the faults, the primary views, and what became of the entries.

Below: the world, as one of its listeners.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cluster import actions

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.actions import Action
    from cluster.messages import Frame
    from cluster.names import ProcessId, View

LINES_MAX = 40  # of events; then a line says how many are left out


class SummaryNarrator:
    """Collects the events of a run. `write_to` prints them."""

    def __init__(self) -> None:
        self.muted = False
        self._events: list[tuple[float, str]] = []
        self._primary: View | None = None
        self._established: set[tuple[View, ProcessId]] = set()
        self._begin: float | None = None
        self._end = 0.0
        self._frames = 0
        self._counts: dict[str, Counter[str]] = {}

    def remark(self, time: float, text: str) -> None:
        if self._sees(time):
            self._events.append((time, text))

    def frame(self, time: float, sender: ProcessId, to: tuple[ProcessId, ...], frame: Frame) -> None:  # noqa: ARG002
        if self._sees(time):
            self._frames += len(to)

    def action(self, time: float, process: ProcessId, action: Action) -> None:
        if not self._sees(time):
            return
        counts = self._counts.setdefault(str(process), Counter())
        match action:
            case actions.Established(view=view):
                self._established.add((view, process))
                if len([member for member in view.members if (view, member) in self._established]) == len(view.members):
                    members = " ".join(map(str, view.members))
                    self._events.append((time, f"primary view {view.id}: {members}"))
                counts["views"] += 1
            case actions.Submitted():
                counts["submitted"] += 1
            case actions.Deliver(entry=entry) if entry.kind not in ("v", "c"):
                counts["delivered"] += 1
            case actions.Resolved(delivered=delivered):
                counts["confirmed" if delivered else "refused"] += 1
            case actions.Crashed():
                counts["crashes"] += 1
            case actions.CatchUp():
                counts["snapshots"] += 1

    def write_to(self, write: Callable[[str], None]) -> None:
        for line in self._lines():
            write(line)

    def _lines(self) -> Iterator[str]:
        begin = self._begin or 0.0
        yield f"{self._end - begin:.1f} virtual seconds, {self._frames:,} frames"
        yield ""
        for time, text in self._events[:LINES_MAX]:
            yield f"{time:9.4f}  {text}"
        if len(self._events) > LINES_MAX:
            yield f"           and {len(self._events) - LINES_MAX} more; --narrate views shows all of them"
        yield ""
        columns = ("submitted", "confirmed", "refused", "delivered", "views", "snapshots", "crashes")
        yield "process  " + "  ".join(f"{column:>9}" for column in columns)
        for name, counts in sorted(self._counts.items()):
            yield f"{name:<9}" + "  ".join(f"{counts[column]:>9}" for column in columns)

    def _sees(self, time: float) -> bool:
        if self.muted:
            return False
        self._begin = time if self._begin is None else self._begin
        self._end = max(self._end, time)
        return True
