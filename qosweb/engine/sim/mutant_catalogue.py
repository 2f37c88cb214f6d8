"""Mutants of the engine: one-line defects that the judges have to detect."""

from __future__ import annotations

from cluster.sim.mutation import Mutant

MUTANTS: tuple[Mutant, ...] = (
    # ---- the machine
    Mutant(
        "who left still waits", "qosweb.engine.replicated.state_machine",
        "            self._forget(gone)",
        "            pass",
        "entries of a node that is no member any more stay in the queue",
    ),
    Mutant(
        "what ended goes on", "qosweb.engine.replicated.state_machine",
        "            self._free(pipe, origin, number, cost)",
        "            pass",
        "a channel is never given back",
    ),
    Mutant(
        "given up, and still granted", "qosweb.engine.replicated.state_machine",
        "                self._free(other, owner, number, entries.UNUSED)",
        "                pass",
        "a grant that crosses the end of its request keeps the channel",
    ),
    Mutant(
        "nothing is forgotten before it is restated", "qosweb.engine.replicated.state_machine",
        "        self._forget(origin)\n        here",
        "        here",
        "what a node had before it was away stays beside what it has now",
    ),
    Mutant(
        "a channel here and a channel there", "qosweb.engine.replicated.state_machine",
        "                other.give_back(*key)",
        "                pass",
        "what was granted elsewhere to a request that its node decided alone stays granted",
    ),
    Mutant(
        "each replica counts its own", "qosweb.engine.replicated.state_machine",
        "            chosen.came.now += cost\n            self.seq += 1",
        "            chosen.came.now += cost * (owner == self.me)\n            self.seq += 1",
        "the state depends on whose replica it is",
    ),
    # ---- what is saved
    Mutant(
        "virtual time begins anew", "qosweb.engine.replicated.snapshot",
        "    scheduler.virtual, scheduler.spare, scheduler.shares = state.virtual, state.spare, state.shares",
        "    scheduler.virtual, scheduler.spare, scheduler.shares = 0, 0, state.shares",
        "a replica that was restored orders the classes in another way",
    ),
    # ---- the scheduler
    Mutant(
        "the channel is somewhere else", "qosweb.engine.replicated.scheduler",
        "        pipe.take(owner, number, channel)",
        "        self.pipes[owner].take(owner, number, channel)",
        "a request that is sent elsewhere holds the channel of the node that it came from",
    ),
    # ---- the node's side
    Mutant(
        "waits for ever", "qosweb.engine.local.admission",
        "            heappush(self._deadlines, (deadline_ms, request.number))",
        "            pass",
        "a lifetime has no end",
    ),
    Mutant(
        "starts after its lifetime", "qosweb.engine.local.admission",
        "        return request.deadline_ms is not None and request.deadline_ms <= self.now_ms",
        "        return False",
        "a node that stood still starts what had expired meanwhile",
    ),
    Mutant(
        "hears what is void", "qosweb.engine.local.admission",
        "        return self._known != self._restates",
        "        return False",
        "a grant from before a restatement is taken, and given again after it",
    ),
    Mutant(
        "expected for ever", "qosweb.engine.local.admission",
        "            self.outbox.visited(*key, UNUSED)",
        "            pass",
        "a channel is held for a client who does not come",
    ),
    Mutant(
        "its own pipe stays full", "qosweb.engine.local.admission",
        "        self.used_bps -= request.rate_bps",
        "        pass",
        "what ended still counts as running here",
    ),
    Mutant(
        "nobody is told of who gave up", "qosweb.engine.local.outbox",
        "        self._cancelled.append(number)",
        "        pass",
        "the others let it wait, or run, for ever",
    ),
    Mutant(
        "a lost batch was never counted", "qosweb.engine.local.outbox",
        "            self.account(number_of[number]).add(Totals(*counts))",
        "            pass",
        "the totals lack what a batch said that nobody got",
    ),
    # ---- when it is told
    Mutant(
        "who is next is told later", "qosweb.engine.local.batch_timing",
        "            if always[number] or me not in one.queues:",
        "            if always[number]:",
        "a class that nobody knows to wait gets its turn later than it might",
    ),
    Mutant(
        "what may always start is told later", "qosweb.engine.local.batch_timing",
        "        elif always[number] and one.waiting:",
        "        elif False:",
        "a channel is free, and who is always available waits for it elsewhere",
    ),
    Mutant(
        "collects for as long as it can", "qosweb.engine.engine",
        " or self.now_ms >= self._told_at_ms + SUPPLIED_MS",
        "",
        "a node that has enough ready for itself tells nothing",
    ),
    Mutant(
        "every word is a batch", "qosweb.engine.engine",
        "        return can_wait(self.replicated, self.admission, self.outbox)",
        "        return False",
        "in contention each batch holds what there is at the moment, and there are many",
    ),
    # ---- alone and together
    Mutant(
        "back without a word", "qosweb.engine.engine",
        "            self.admission.restate()\n            self.outbox.report",
        "            self.outbox.report",
        "a node that was away goes on as if the others knew what it has",
    ),
    Mutant(
        "what was alone stays alone", "qosweb.engine.engine",
        ".add(one.totals)",
        "",
        "what was served outside the primary view is in nobody's totals",
    ),
    Mutant(
        "every life counts from one", "qosweb.engine.engine",
        "life << NUMBERS_BITS",
        "0",
        "numbers of an earlier life, of which others hold channels, are used again",
    ),
    Mutant(
        "asks and asks", "qosweb.engine.engine",
        "            self._refused_ms = self.now_ms",
        "            pass",
        "a batch that was refused is offered again at once, without end",
    ),
)  # fmt: skip
