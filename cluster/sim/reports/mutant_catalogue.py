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
        "            peer.confirmed = 0\n", "",
        "a process that lost its memory counts as a holder",
    ),
    Mutant(
        "a greeting counts as an acknowledgement", BROADCAST,
        "        peer.positions = {self.me: PeerPosition(number)}\n",
        "        peer.positions = {self.me: PeerPosition(number)}\n        peer.confirmed = number\n",
        "a holder that does not know the base keeps the successor of a purged report to itself",
    ),
    Mutant(
        "a newcomer takes reports one by one", BROADCAST,
        "            return Greeting(self.view.id, self.me.life, self.base, numbers)",
        "            return Greeting(self.view.id, self.me.life, 0, numbers)",
        "a newcomer delivers a report, and the origin crashes with the successor of one before it",
        shown_by=63,
    ),
    Mutant(
        "members that move together take reports one by one", BROADCAST,
        "        self.base = self.O[self.me].safe\n",
        "        self.base = self.O[self.me].safe if len(transitional) < len(view.members) else self.base\n",
        "the same for a member that was there before",
        equivalent="a base of an earlier view in which all members were holds for all of them",
    ),
    Mutant(
        "a part of forwarded reports is taken", BROADCAST,
        "            self._on_window(member, peer, frame.origin, frame, frame.whole)",
        "            self._on_window(member, peer, frame.origin, frame, 0)",
        "a member delivers a part of a log, and who forwarded it crashes",
    ),
    Mutant(
        "a number that was not purged is skipped", BROADCAST,
        "        numbers = [number for number in log.after(after)",
        "        numbers = [number for number in log.after(after + 1)",
        "the receiver takes a report for purged",
    ),
    Mutant(
        "a full window ends the log", BROADCAST,
        "            position.sent = reports[-1].number", "            position.sent = log.held",
        "reports beyond the window count as purged",
    ),
    Mutant(
        "nobody forwards", BROADCAST,
        "            if number < log.held:", "            if False:",
        "a report that only some members got before its origin crashed stays with them",
        shown_by=19,
    ),
    Mutant(
        "everybody gets forwarded reports", BROADCAST,
        "            if member not in log.companions or self", "            if self",
        "a process that never met an origin gets its reports",
    ),
    Mutant(
        "only members that know an origin get forwarded reports", BROADCAST,
        "            if member not in log.companions or self", "            if origin not in numbers or self",
        "a member that missed everything from an origin that crashed never gets what the others delivered",
    ),
    Mutant(
        "companions stay when they move elsewhere", BROADCAST,
        "            log.companions.intersection_update(transitional)", "            pass",
        "a process that was elsewhere gets a part of the reports of an origin",
    ),
    Mutant(
        "forwarded reports are not forwarded again", BROADCAST,
        "            log.companions |= others - {self.me.process, origin.process}", "            pass",
        "a member that got reports from another one keeps them to itself when that one crashes",
    ),
    Mutant(
        "a newcomer starts at the end", BROADCAST,
        "        peer.positions = {self.me: PeerPosition(number)}",
        "        peer.positions = {self.me: PeerPosition(self.B)}",
        "a newcomer gets no current values, and a broken stream loses reports",
    ),
    Mutant(
        "current values are not kept", "cluster.reports.report_log",
        "            self._settled[item] = number", "            del self.kept[number]",
        "a newcomer misses every item that did not change since",
    ),
    Mutant(
        "a broken stream goes on where it was", BROADCAST,
        "        peer.positions = {self.me: PeerPosition(number)}",
        "        peer.positions.setdefault(self.me, PeerPosition(number))",
        "what was in flight when the stream broke is lost",
        equivalent="a stream and a view begin without positions: `restart`",
    ),
    Mutant(
        "greetings of any view count", BROADCAST,
        "        peer.greeted = greeting.view_id == self.view.id and member in self.view.members",
        "        peer.greeted = member in self.view.members",
        "windows pass between processes that do not agree on a view",
    ),
    Mutant(
        "an early greeting is dropped", BROADCAST,
        "        peer.greeting = greeting  #",
        "        peer.greeting = greeting if greeting.view_id == self.view.id else None  #",
        "a member that is late into a view never sends to the others",
    ),
    Mutant(
        "a view change is not announced", BROADCAST,
        "            peer.restart(owes_greeting=peer.connected and member in view.members)",
        "            peer.restart(owes_greeting=False)",
        "members do not learn what a newcomer lacks",
    ),
    Mutant(
        "duplicates are delivered", BROADCAST,
        "                if report.number > log.held:\n                    self._take(",
        "                if True:\n                    self._take(",
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
    ),
    Mutant(
        "a forgotten origin stays in the queue", BROADCAST,
        "            self.Q.forget(origin)", "            pass",
        "reports of an origin that comes back are delivered after later ones",
    ),
    Mutant(
        "reports that waited are lost", "cluster.reports.publisher",
        "            self._broadcast.broadcast(item, value, born)", "            pass",
        "a report that found no room is never broadcast",
        equivalent="a report is broadcast when it gets a number; the runtime tests show that it does",
    ),
)  # fmt: skip
