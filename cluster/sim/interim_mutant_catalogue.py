"""Mutants of the interim service that the specifications must catch. They need runs with the service (`--interim`)."""

from __future__ import annotations

from cluster.sim.mutation import Mutant

REPLICA, FORK, TRANSFER = "cluster.interim.replica", "cluster.interim.endpoint_fork", "cluster.interim.state_transfer"
SYNCED = "transitional if self.mode == NORMAL else tuple(p for p in self.synced if p in transitional)"

INTERIM_MUTANTS: tuple[Mutant, ...] = (
    # ---- order by logical time
    Mutant(
        "no time is awaited", REPLICA,
        "        if any(time < ts for time in self.lt.values()):",
        "        if False:",
        "an operation is applied before earlier ones of other members can have arrived",
    ),
    Mutant(
        "the time of one member is not awaited", REPLICA,
        "        if any(time < ts for time in self.lt.values()):",
        "        if sum(time < ts for time in self.lt.values()) > 1:",
        "an operation is applied before an earlier one of the last member can have arrived",
    ),
    Mutant(
        "own operations come first", REPLICA,
        "        return self.ops[sender][0][0], sender",
        "        return self.ops[sender][0][0], sender != self.context.me, sender",
        "operations of the same time are in another order at every member",
    ),
    Mutant(
        "the own time does not follow the others", REPLICA,
        "        self.lt[self.context.me] = max(self.lt[self.context.me], body.ts) + 1",
        "        self.lt[self.context.me] += 1",
        "a member never passes the time of an operation that is ahead of its own",
    ),
    Mutant(
        "the own time is not sent", REPLICA,
        "        if (self._answer_due or self._announced < self._waited_ts) and self._may_send:",
        "        if self._answer_due and self._may_send:",
        "others wait for the time of a member that has no operations of its own",
    ),
    Mutant(
        "a time is sent that was not reached", REPLICA,
        "            self._announced = self.lt[self.context.me]",
        "            self._announced = self.lt[self.context.me] + 2",
        "an operation follows at a time that others believe to have passed",
    ),
    Mutant(
        "responses in another order", REPLICA,
        "            ticket = self.tickets.popleft()",
        "            ticket = self.tickets.pop()",
        "a request gets the result of a later one",
    ),
    # ---- the end of a view
    Mutant(
        "waiting operations are dropped with the view", REPLICA,
        "        while (sender := self._first()) is not None:",
        "        while (sender := self._first()) is not None and self.mode == NORMAL:",
        "operations that arrived during an interrupted state transfer are lost",
    ),
    Mutant(
        "only own operations are applied at the end of a view", REPLICA,
        "            self._apply(sender, at_view_end=True)",
        "            if sender == self.context.me:\n                self._apply(sender, at_view_end=True)\n"
        "            else:\n                self.ops[sender].popleft()",
        "members that move together have different states",
    ),
    Mutant(
        "sends after block_ok", REPLICA,
        "        self.blocked = True\n\n    def deliver",
        "        pass\n\n    def deliver",
        "an operation is sent while the end-point agrees on what was sent",
    ),
    # ---- synchronised replicas
    Mutant(
        "an interrupted transfer synchronises", REPLICA,
        SYNCED,
        "transitional",
        "members that moved together count as equal although their merge was interrupted",
    ),
    Mutant(
        "members that moved elsewhere stay synchronised", REPLICA,
        SYNCED,
        "transitional if self.mode == NORMAL else self.synced",
        "a member counts as synchronised that comes from another view",
    ),
    Mutant(
        "equal size counts as the same view", REPLICA,
        "        if len(self.synced) == len(view.members):",
        "        if len(self.synced) >= len(view.members) - 1:",
        "mode normal begins although the state of one member is missing",
    ),
    # ---- state transfer
    Mutant(
        "one state is not awaited", TRANSFER,
        "        return not self.awaited",
        "        return len(self.awaited) < 2",
        "the merge leaves out the state of one member",
    ),
    Mutant(
        "the merge takes the first state", REPLICA,
        "            self.obj.merge(self.states.in_order())",
        "            self.obj.merge(self.states.in_order()[:1])",
        "operations of the other side are lost",
    ),
    Mutant(
        "operations during the transfer", REPLICA,
        "        sender = self._first() if self.mode == NORMAL else None",
        "        sender = self._first()",
        "an operation is applied to a state that is about to be replaced",
    ),
    Mutant(
        "nobody sends the state", REPLICA,
        "            if self.context.me == min(self.synced):",
        "            if self.context.me == min(view.members):",
        "only one of the sets that have to be merged sends its state",
    ),
    Mutant(
        "the last chunk is missing", TRANSFER,
        "        return self._next == self._chunks",
        "        return self._next >= max(1, self._chunks - 1)",
        "a state of several chunks never arrives completely",
    ),
    Mutant(
        "an acknowledged chunk stays in flight", TRANSFER,
        "        while self.in_flight and self.in_flight[0] <= count:",
        "        while self.in_flight and self.in_flight[0] < count:",
        "the sender waits for the acknowledgement of a chunk for ever",
    ),
    Mutant(
        "chunks are not acknowledged", REPLICA,
        "            self._answer_due = True  # the sender waits for it before it sends more",
        "            pass",
        "the sender of a long state waits for ever",
    ),
    # ---- the disk
    Mutant(
        "operations are not on disk", REPLICA,
        "        context.outbox.append(Persist(InterimOperation(sender, body, self.wall_clock())))",
        "        pass",
        "a restarted process has forgotten what it answered",
    ),
    Mutant(
        "a merge is not on disk", REPLICA,
        "        if not is_same_state:\n            self._write_state()",
        "        pass",
        "a restarted process has the state before its last merge",
    ),
    Mutant(
        "the response before the disk", REPLICA,
        "        result = self.obj.apply(sender, body, 0.0)\n        context = self.context\n",
        "        result = self.obj.apply(sender, body, 0.0)\n        context = self.context\n"
        "        if sender == context.me and context.trace is not None:\n"
        "            context.trace(InterimApplied(sender, body, at_view_end))\n"
        "            context.trace(InterimResponse(self.tickets[0], repr(result)))\n"
        "            context.outbox.append(Persist(InterimOperation(sender, body, 0.0)))\n"
        "            context.outbox.append(InterimAnswered(self.tickets.popleft(), result))\n            return\n",
        "a crash forgets an operation whose response the client has",
    ),
    # ---- the shared end-point
    Mutant(
        "messages are dropped that a member lacks", REPLICA,
        "        if len(self._acked) == len(self.myview.members) - 1:",
        "        if self._acked:",
        "a message that one member has not received yet can no longer be forwarded to it",
    ),
    Mutant(
        "more messages of the view order are dropped", FORK,
        "            if place > index:\n                break",
        "            pass",
        "messages after the last one that all members have are dropped",
    ),
    Mutant(
        "the view order gets no block", FORK,
        "        self.interim.block()\n        self.order.block()",
        "        self.interim.block()\n        self.block_ok()",
        "the view order goes on sending during a change of view",
    ),
)  # fmt: skip
