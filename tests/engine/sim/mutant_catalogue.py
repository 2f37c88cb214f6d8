"""Mutants of the engine: one-line defects that the judges have to detect."""

from __future__ import annotations

from cluster.sim.mutation import Mutant

MUTANTS: tuple[Mutant, ...] = (
    # ---- state machine
    Mutant(
        "requests of a departed node stay queued", "qosweb.engine.replicated.state_machine",
        "            self._forget(gone)",
        "            pass",
        "entries of a node that left the view stay in the queue",
    ),
    Mutant(
        "finished requests keep their channel", "qosweb.engine.replicated.state_machine",
        "            self._free(pipe, origin, number, cost)",
        "            pass",
        "a channel is never released",
    ),
    Mutant(
        "cancelled requests keep their grant", "qosweb.engine.replicated.state_machine",
        "                self._free(other, owner, number, entries.UNUSED)",
        "                pass",
        "a grant that crosses the cancellation of its request keeps the channel", shown_by=6,
    ),
    Mutant(
        "restatement does not replace old state", "qosweb.engine.replicated.state_machine",
        "        charged = self._forget(origin)\n        self.servers.end_reservation(origin)\n        here",
        "        charged = {}\n        here",
        "what a node had before it was away stays beside its restatement",
    ),
    Mutant(
        "restated requests keep channels elsewhere", "qosweb.engine.replicated.state_machine",
        "                other.give_back(*key)",
        "                pass",
        "a channel granted elsewhere to a request that its node decided alone stays granted",
    ),
    Mutant(
        "state depends on the replica", "qosweb.engine.replicated.state_machine",
        "            chosen.came.now += cost\n            self.seq += 1",
        "            chosen.came.now += cost * (owner == self.me)\n            self.seq += 1",
        "each replica counts only its own node's arrivals",
    ),
    # ---- snapshot
    Mutant(
        "snapshot loses virtual time", "qosweb.engine.replicated.snapshot",
        "    scheduler.virtual, scheduler.spare = state.virtual, state.spare",
        "    scheduler.virtual, scheduler.spare = 0, 0",
        "a restored replica orders the classes differently", shown_by=1,
    ),
    Mutant(
        "snapshot loses votes on upstream servers", "qosweb.engine.replicated.snapshot",
        "saved.url, saved.language, saved.upstreams",
        "saved.url, saved.language, ()",
        "a restored replica believes that every upstream server is healthy",
    ),
    # ---- demand
    Mutant(
        "waiting classes demand everything", "qosweb.engine.replicated.demand",
        "    asks_bps = came_bps + one.waiting_cost * 1000 // HORIZON_MS",
        "    asks_bps = capacity_bps if one.waiting else came_bps",
        "classes hold shares that they do not use",
    ),
    # ---- scheduler
    Mutant(
        "virtual time is forgotten at once", "qosweb.engine.replicated.fair_queueing",
        "            chosen.virtual = max(chosen.virtual, self._virtual_min)",
        "            chosen.virtual = max(chosen.virtual, self.virtual)",
        "a class does not make up for the gaps in its queue",
    ),
    Mutant(
        "a pause changes the weights at once", "qosweb.engine.replicated.fair_queueing",
        "            PPM if one.short_ms > since_ms and not first else ask",
        "            ask",
        "a class keeps what it uses beyond its upper bound while another class pauses",
    ),
    Mutant(
        "a class that exceeds the pipe is away", "qosweb.engine.replicated.state_machine",
        "                    self.classes[number_of[class_number]].backlog_ms = self.time_ms",
        "                    pass",
        "a class whose requests start at once because it is behind does not make up for its gaps",
    ),
    Mutant(
        "always-available classes give credit", "qosweb.engine.replicated.fair_queueing",
        "            if one is not chosen and not always and one.has_waited_since(since_ms)",
        "            if one is not chosen and one.has_waited_since(since_ms)",
        "a class that was away is preferred because an always-available class waited",
    ),
    Mutant(
        "credit is unbounded", "qosweb.engine.replicated.fair_queueing",
        "            chosen.virtual = max(chosen.virtual, self._virtual_min)",
        "            pass",
        "a class that makes up for gaps holds the others back for as long as it takes",
    ),
    Mutant(
        "weights are shares", "qosweb.engine.replicated.fair_queueing",
        "[share and max(share, least) for",
        "[share for",
        "a class that demands little waits as long as at a server as small as its demand",
    ),
    Mutant(
        "grants run ahead in gaps", "qosweb.engine.replicated.fair_queueing",
        "        awaited = self._awaited_virtual(since_ms)",
        "        awaited = None",
        "in a momentary gap of its queue a class loses the channels that become free later",
    ),
    Mutant(
        "grants run ahead of the last request of a class", "qosweb.engine.replicated.fair_queueing",
        "                    awaited = chosen.virtual",
        "                    pass",
        "a class that is behind loses the channels that become free after its last request has started",
    ),
    Mutant(
        "redirect takes the owner's channel", "qosweb.engine.replicated.pipe_scheduler",
        "        place.take(owner, number, channel)",
        "        self.pipes[owner].take(owner, number, channel)",
        "a redirected request holds a channel of the node that it came from", shown_by=3,
    ),
    # ---- wait estimate
    Mutant(
        "waits are estimated by weights", "qosweb.engine.local.wait_estimate",
        "        rate_bps = max(machine.capacity_bps * weight // PPM, chosen.got.per_s)",
        "        rate_bps = machine.capacity_bps * weight // PPM",
        "a class that gets more than its share is denied requests that it could serve",
    ),
    # ---- pipe queue
    Mutant(
        "no deadline", "qosweb.engine.local.request_queue",
        "            heappush(self._deadlines, (deadline_ms, request.number))",
        "            pass",
        "a lifetime is never enforced", shown_by=6,
    ),
    Mutant(
        "expired requests start", "qosweb.engine.local.request_queue",
        "        return request.deadline_ms is not None and request.deadline_ms <= self.now_ms",
        "        return False",
        "a node that was paused starts requests that expired meanwhile",
    ),
    Mutant(
        "void grants are accepted", "qosweb.engine.local.pipe_queue",
        "        return self._known != self._restates",
        "        return False",
        "a grant from before a restatement is taken, and given again after it",
    ),
    Mutant(
        "no-shows keep their channel", "qosweb.engine.local.pipe_queue",
        "            self.outbox.visited(*key, UNUSED)",
        "            pass",
        "a channel is held for a redirected client that never arrives", shown_by=1,
    ),
    Mutant(
        "used rate is never released", "qosweb.engine.local.pipe_queue",
        "        self.used_bps -= request.rate_bps",
        "        pass",
        "a finished request still counts as running at its node",
    ),
    Mutant(
        "cancellations are not sent", "qosweb.engine.local.outbox",
        "        self._cancelled.append(number)",
        "        pass",
        "the other replicas let the request wait, or run, for ever", shown_by=5,
    ),
    Mutant(
        "counts of lost batches are dropped", "qosweb.engine.local.outbox",
        "            self.account(number_of[number]).add(Totals(*counts))",
        "            pass",
        "the totals lack the counts of a batch that was never delivered",
    ),
    # ---- batch timing
    Mutant(
        "first request of a class is delayed", "qosweb.engine.local.batch_timing",
        "            if always[number] or me not in one.queues:",
        "            if always[number]:",
        "a class that is not known to wait gets its turn later than possible",
    ),
    Mutant(
        "always-available requests are delayed", "qosweb.engine.local.batch_timing",
        "        elif always[number] and one.waiting:",
        "        elif False:",
        "a channel is free while an always-available request waits for it at another node",
    ),
    Mutant(
        "batches wait without limit", "qosweb.engine.engine",
        " or self.now_ms >= self._sent_at_ms + SUPPLIED_MS",
        "",
        "a node with enough ready requests sends no batches",
    ),
    Mutant(
        "batches never wait", "qosweb.engine.engine",
        "        return can_wait(self.replicated, self.pipe_queue, self.outbox)",
        "        return False",
        "under contention there are many small batches",
    ),
    # ---- engine
    Mutant(
        "votes are not repeated on return", "qosweb.engine.engine",
        "            self.outbox.upstreams = self.upstreams",
        "            pass",
        "the cluster knows nothing of the upstream servers of a node that was away",
    ),
    Mutant(
        "no restatement on return", "qosweb.engine.engine",
        "            self._restate()\n            self._report_again()",
        "            self._report_again()",
        "a node that was away goes on as if the other replicas knew its requests",
    ),
    Mutant(
        "counts outside the primary view are lost", "qosweb.engine.engine",
        ".add(one.totals)",
        "",
        "requests served outside the primary view are missing in the totals",
    ),
    Mutant(
        "request numbers restart at one", "qosweb.engine.engine",
        "        numbers = life << NUMBERS_BITS",
        "        numbers = 0",
        "numbers of an earlier life are used again while other nodes hold channels for them",
    ),
    Mutant(
        "refused batches are resent at once", "qosweb.engine.engine",
        "            self._refused_ms = self.now_ms",
        "            pass",
        "a refused batch is offered again at once, without end",
    ),
)  # fmt: skip
