"""Mutants of the pools of upstream servers: one-line defects that the judges have to detect."""

from __future__ import annotations

from cluster.sim.mutation import Mutant

_REPLICATED = "qosweb.engine.replicated"

SLOT_MUTANTS: tuple[Mutant, ...] = (
    # ---- state machine
    Mutant(
        "a slot is granted twice", f"{_REPLICATED}.slot_scheduler",
        "        place.take(owner, number, use)",
        "        pass",
        "a granted slot still counts as free",
    ),
    Mutant(
        "the limit is ignored", f"{_REPLICATED}.servers",
        "        return self.free > self.kept",
        "        return True",
        "a full server has room",
    ),
    Mutant(
        "slots are lost at a view change", f"{_REPLICATED}.server_table",
        "                server.give_back(*key)",
        "                pass",
        "slots of a node that left stay in use",
    ),
    Mutant(
        "limits differ between replicas", f"{_REPLICATED}.server_table",
        "server.decider = limit, level, epoch, origin",
        "server.decider = limit + (origin == self._machine.me), level, epoch, origin",
        "the member that decides a limit uses another one",
    ),
    Mutant(
        "anybody decides", f"{_REPLICATED}.server_table",
        " and origin == self.decider_of(name)",
        " and origin == self._machine.me",
        "each replica takes only its own node's decisions",
    ),
    Mutant(
        "reservations never end", f"{_REPLICATED}.server_table",
        "in server.reserved.items() if until_ms > now_ms",
        "in server.reserved.items()",
        "the part of a node that left for ever is never used again",
        shown_by=1,
    ),
    Mutant(
        "a returned node's part is used before it tells what it has in service", f"{_REPLICATED}.state_machine",
        "        self.servers.update()\n        self.view = view",
        "        for member in view.members:\n            self.servers.end_reservation(member)\n"
        "        self.servers.update()\n        self.view = view",
        "slots of a member that returns are granted to others",
    ),
    Mutant(
        "no part is reserved", f"{_REPLICATED}.server_table",
        "                        server.reserved[pid] = part, until_ms",
        "                        pass",
        "both sides of a partition use the same slots",
        shown_by=1,
    ),
    Mutant(
        "a minority uses the whole limit", f"{_REPLICATED}.server_table",
        "one.part_of(members))",
        "one.bound)",
        "a node outside the primary view uses all slots of a shared server",
    ),
    Mutant(
        "servers that are out are used", f"{_REPLICATED}.server_pool",
        " if not one.is_out} or servers",
        "} or servers",
        "requests go to a server that the nodes voted out",
        shown_by=2,
    ),
    Mutant(
        "finished requests keep their slot", f"{_REPLICATED}.server_pool",
        "            self._finish(origin, number, cost, amount if is_current else ())",
        "            pass",
        "a slot is never released",
    ),
    Mutant(
        "cancelled requests keep their slot", f"{_REPLICATED}.server_pool",
        "        for number in batch.cancelled:\n            self._cancel(origin, number)",
        "        for number in batch.cancelled:\n            self.waiting.get((origin, number))",
        "a request that was cancelled waits, and gets a slot",
    ),
    Mutant(
        "always-available requests wait", f"{_REPLICATED}.slot_scheduler",
        "        always = [number for number in waiting if self.bound.always[number]]",
        "        always: list[int] = []",
        "always-available requests wait for a slot of a full server",
    ),
    Mutant(
        "requests are charged, not slot time", f"{_REPLICATED}.server_pool",
        "        cost = self._settled_cost(use.number, 1, min(max(1, cost), COST_MAX), amount)",
        "        cost = MEAN_US",
        "every request costs the same, whatever slot time it takes",
    ),
    Mutant(
        "other costs than time are ignored", f"{_REPLICATED}.server_pool",
        "        return used_us if scale is None or not amount else scale.slot_us(amount[0])",
        "        return used_us",
        "shares are measured in slot time whatever the policy says",
    ),
    Mutant(
        "restated requests are not charged", f"{_REPLICATED}.server_pool",
        "charged.get(number) or self._charge(number_of[class_then], cost), name)",
        "charged.get(number) or SlotUse(number_of[class_then], cost, 0, -1, False), name)",
        "what a node has in service when it returns costs its class nothing",
    ),
    Mutant(
        "slots that nodes may have taken are granted", f"{_REPLICATED}.servers",
        "        self.kept = members * max(0, self.free // members - 1) if members > 1 else 0",
        "        self.kept = 0",
        "a burst at several nodes takes each free slot twice",
    ),
    # ---- snapshot
    Mutant(
        "reservations are forgotten", f"{_REPLICATED}.snapshot",
        "    server.reserved = {pid: (slots, until_ms) for pid, slots, until_ms in saved.reserved}",
        "    server.reserved = {}",
        "a restored replica knows of no reservations",
        shown_by=1,
    ),
    Mutant(
        "slots in use are forgotten", f"{_REPLICATED}.snapshot",
        "        server.take(owner, number, use)",
        "        pass",
        "a restored replica believes that all slots are free",
        shown_by=1,
    ),
    # ---- the node
    Mutant(
        "late batches are counted", "qosweb.engine.engine",
        "            if batch is self.in_flight:\n                self._on_batch_applied(batch)",
        "            self._on_batch_applied(batch)",
        "a batch that is older than a restatement counts beside it",
        shown_by=1,
    ),
    Mutant(
        "parts are unknown after a restart", "qosweb.engine.engine",
        "            solo.servers.take_parts(parts)",
        "            pass",
        "a node outside the primary view uses a part of earlier times",
    ),
    Mutant(
        "a newcomer uses all slots", "qosweb.engine.engine",
        "        self.solo.servers.limit_of_unknown = int(self._is_member)",
        "        self.solo.servers.limit_of_unknown = 0",
        "a member that knows nothing of a shared server uses it as if it were alone",
    ),
    Mutant(
        "decisions of a refused batch are lost", "qosweb.engine.engine",
        "                    self._limits.setdefault(decision[0], decision)",
        "                    pass",
        "the limit of a server stays as it was",
    ),
    Mutant(
        "running requests are not restated", "qosweb.engine.local.slot_queue",
        "one.server) for one in own if one.phase is RUNNING]\n        batch",
        "one.server) for one in own if one.phase is OVER]\n        batch",
        "a node that returns forgets what it has in service",
        shown_by=3,
    ),
    Mutant(
        "untold requests do not count", "qosweb.engine.local.slot_queue",
        "        return name, most, free, len(server.uses), server.epoch",
        "        return name, WAITING_MAX if free else 0, free, len(server.uses), server.epoch",
        "a node starts at a free slot as many requests as come before its next batch",
    ),
    Mutant(
        "restatement numbers restart", "qosweb.engine.local.pipe_queue",
        "        self._restates = numbers",
        "        self._restates = 0",
        "a restatement of an earlier life counts as that of this one",
        shown_by=4,
    ),
)  # fmt: skip
