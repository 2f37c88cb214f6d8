"""Records messages, views and deliveries of a run, for a space-time diagram.

Below: the world, as one of its listeners.  Neighbour: `drawing` draws the record.
"""

from __future__ import annotations

from collections import defaultdict, deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cluster import actions
from cluster.messages import Ack, AppMsg, Batch, Data, FwdMsg, Slot, Summary, Supply, SyncMsg, ViewMsg
from cluster.sim.narrate import describe_entry

if TYPE_CHECKING:
    from cluster.actions import Action
    from cluster.messages import Frame, Payload
    from cluster.names import ProcessId, View

ARROWS_MAX = 4_000


@dataclass(slots=True)
class Arrow:
    kind: str
    label: str
    sender: str
    sent_at: float
    receiver: str
    received_at: float | None = None  # None: lost, or still under way


@dataclass(frozen=True, slots=True)
class LifelineSpan:
    """A part of a lifeline. ``view`` is the established primary view, or None outside one."""

    process: str
    begin: float
    end: float
    view: View | None


class SpaceTimeRecorder:
    """A listener of the world. Nothing is recorded while it is muted, except the state of the processes."""

    def __init__(self) -> None:
        self.muted = False
        self.arrows: list[Arrow] = []
        self._under_way: defaultdict[tuple[str, str, Payload], deque[Arrow]] = defaultdict(deque)
        self.deliveries: list[tuple[float, str, str]] = []
        self.views: list[tuple[float, str, View]] = []
        self.remarks: list[tuple[float, str]] = []
        self.crashes: list[tuple[float, str]] = []
        self.spans: list[LifelineSpan] = []
        self._state: dict[str, tuple[float, View | None]] = {}  # running processes: since when, and the primary view
        self.begin: float | None = None
        self.end = 0.0
        self.omitted = 0

    def remark(self, time: float, text: str) -> None:
        if self._sees(time):
            self.remarks.append((time, text))

    def frame(self, time: float, sender: ProcessId, to: tuple[ProcessId, ...], frame: Frame) -> None:
        if not isinstance(frame, Data) or not self._sees(time):
            return
        kind, label = _classify(frame.body)
        for peer in to:
            if len(self.arrows) >= ARROWS_MAX:
                self.omitted += 1
                continue
            arrow = Arrow(kind, label, str(sender), time, str(peer))
            self.arrows.append(arrow)
            self._under_way[str(sender), str(peer), frame.body].append(arrow)

    def action(self, time: float, process: ProcessId, action: Action) -> None:
        name, sees = str(process), self._sees(time)
        self._state.setdefault(name, (time, None))
        match action:
            case actions.LinkDeliver(sender=sender, body=body):
                waiting = self._under_way.get((str(sender), name, body))
                if waiting:
                    waiting.popleft().received_at = time
            case actions.GcsView():
                self._turn(time, name, None)
            case actions.Established(view=view):
                self._turn(time, name, view)
                if sees:
                    self.views.append((time, name, view))
            case actions.Deliver(entry=entry) if sees and entry.kind not in ("v", "c"):
                self.deliveries.append((time, name, describe_entry(entry)))
            case actions.Crashed():
                self._turn(time, name, None)
                del self._state[name]
                if sees:
                    self.crashes.append((time, name))

    def finish(self) -> None:
        """Close all lifelines, at the end of the run."""
        for name in list(self._state):
            self._turn(self.end, name, None)

    def _sees(self, time: float) -> bool:
        if self.muted:
            return False
        self.begin = time if self.begin is None else self.begin
        self.end = max(self.end, time)
        return True

    def _turn(self, time: float, name: str, view: View | None) -> None:
        since, before = self._state[name]
        if since < time or before is not None:
            self.spans.append(LifelineSpan(name, since, time, before))
        self._state[name] = (time, view)

    def times(self) -> list[float]:
        """All times at which something happened."""
        times = {self.begin or 0.0, self.end}
        times.update(arrow.sent_at for arrow in self.arrows)
        times.update(arrow.received_at for arrow in self.arrows if arrow.received_at is not None)
        for found in (self.deliveries, self.views, self.crashes):
            times.update(time for time, *_ in found)
        times.update(time for time, _ in self.remarks)
        return sorted(times)


def _classify(body: Payload) -> tuple[str, str]:
    """The kind of an arrow, and its label."""
    match body:
        case Ack():
            return "ack", ""
        case SyncMsg() | ViewMsg():
            return "sync", ""
        case AppMsg(body=Slot(body=None)):
            return "null", ""
        case AppMsg(body=Slot(body=Batch(pack=pack))) | FwdMsg(body=Slot(body=Batch(pack=pack))):
            shown = [describe_entry(entry) for entry in pack.entries()]
            return "entry", " ".join(shown[:3]) + (" ..." if len(shown) > 3 else "")
        case AppMsg(body=Slot(body=Summary())):
            return "state", "summary"
        case Supply():
            return "supply", ""
    return "state", ""
