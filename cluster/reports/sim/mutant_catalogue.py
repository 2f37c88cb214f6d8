"""Mutants of semantically reliable broadcast that FIFO_SRB and the liveness of a run must catch."""

from __future__ import annotations

from cluster.sim.mutation import Mutant

BROADCAST = "cluster.reports.broadcast"
REPORT_MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "purge before the successor is safe", BROADCAST,
        "        safe = held[self.f]", "        safe = held[0]",
        "the origin alone holds the successor of a purged report",
    ),
    Mutant(
        "f holders are enough", BROADCAST,
        "        safe = held[self.f]", "        safe = held[max(0, self.f - 1)]",
        "all holders of the successor may crash",
    ),
    Mutant(
        "a receiver purges what it received", BROADCAST,
        "log.advance_safe(window.safe, partial", "log.advance_safe(window.upto, partial",
        "a receiver takes every successor for safe",
    ),
    Mutant(
        "acknowledgements of an earlier view count", BROADCAST,
        "                peer.positions.clear()\n", "                pass\n",
        "a process that lost its memory counts as a holder",
        shown_by=69,
    ),
    Mutant(
        "a number that was not purged is skipped", BROADCAST,
        "        numbers = log.after(after)", "        numbers = log.after(after + 1)",
        "the receiver takes a report for purged",
    ),
    Mutant(
        "a full window ends the log", BROADCAST,
        "            position.sent = reports[-1].number", "            position.sent = log.held",
        "reports beyond the window count as purged",
    ),
    Mutant(
        "nobody forwards", BROADCAST,
        "                if numbers.get(other, 0) < log.held:", "                if False:",
        "a report that only some members got before its origin crashed stays with them",
        shown_by=19,
    ),
    Mutant(
        "everybody gets forwarded reports", BROADCAST,
        "                if unaware is None or not (other in numbers or member in unaware):",
        "                if unaware is None:",
        "a process that never met an origin gets a part of its reports",
        shown_by=1,
    ),
    Mutant(
        "only members that know an origin get forwarded reports", BROADCAST,
        "not (other in numbers or member in unaware):", "other not in numbers:",
        "a member that missed everything from an origin that crashed never gets what the others delivered",
        shown_by=38,
    ),
    Mutant(
        "a newcomer starts at the end", BROADCAST,
        "peer.positions = {self.me: PeerPosition(number)}",
        "peer.positions = {self.me: PeerPosition(self.B)}",
        "a newcomer gets no current values, and a broken stream loses reports",
    ),
    Mutant(
        "current values are not kept", "cluster.reports.report_log",
        "            self._settled[item] = number", "            del self.kept[number]",
        "a newcomer misses every item that did not change since",
    ),
    Mutant(
        "a broken stream goes on where it was", BROADCAST,
        "peer.positions = {self.me: PeerPosition(number)}",
        "peer.positions.setdefault(self.me, PeerPosition(number))",
        "what was in flight when the stream broke is lost",
        shown_by=8,
    ),
    Mutant(
        "HeldNumbers frames of any view count", BROADCAST,
        "        if held.view_id != self.view.id:", "        if False:",
        "windows pass between processes that do not agree on a view",
    ),
    Mutant(
        "an early HeldNumbers frame is dropped", BROADCAST,
        "            peer.early = held if held.view_id > self.view.id else None", "            peer.early = None",
        "a member that is late into a view never sends to the others",
    ),
    Mutant(
        "a view change is not announced", BROADCAST,
        "            peer.owes_held = peer.connected and member in view.members", "            peer.owes_held = False",
        "members do not learn what a newcomer lacks",
    ),
    Mutant(
        "all members moved together", BROADCAST,
        "        self.together = frozenset(transitional) -", "        self.together = frozenset(view.members) -",
        "a process that was elsewhere counts as if it had received everything",
    ),
    Mutant(
        "duplicates are delivered", BROADCAST,
        "                if report.number > log.held:", "                if True:",
        "a report that was forwarded and sent again is delivered twice",
    ),
    Mutant(
        "a successor takes the place of a report in the queue", "cluster.reports.delivery_queue",
        "        if self._reports.pop(key, None) is not None:", "        if key in self._reports:",
        "a report overtakes those between the two",
    ),
    Mutant(
        "a full queue is not resumed", BROADCAST,
        "        if len(self.Q) == self.settings.queue_len_max - 1:", "        if False:",
        "a receiver that was slow once never takes a report again",
        shown_by=5,
    ),
    Mutant(
        "a forgotten origin stays in the queue", BROADCAST,
        "            self.Q.forget(origin)", "            pass",
        "reports of an origin that comes back are delivered after later ones",
        shown_by=70,
    ),
    Mutant(
        "reports that waited are lost", BROADCAST,
        "            self._broadcast(item, value, born)", "            pass",
        "a report that found no room is never broadcast",
        equivalent="a report is broadcast when it gets a number; the runtime tests show that it does",
    ),
)  # fmt: skip
