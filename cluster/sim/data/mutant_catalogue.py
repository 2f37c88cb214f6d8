"""Mutants of the data service that the specifications must catch. They need runs with the service (`--data`)."""

from __future__ import annotations

from cluster.sim.mutation import Mutant

REPLICA, FORK = "cluster.data.replica", "cluster.data.order_fork"

DATA_MUTANTS: tuple[Mutant, ...] = (
    # ---- which state a client may see
    Mutant(
        "a query does not wait for the state that its client has seen", REPLICA,
        "        elif query.last <= self.last_update:",
        "        elif True:",
        "a query is answered from a state older than its client has seen",
    ),
    Mutant(
        "queries wait for one entry too few", REPLICA,
        "each for each in self.later if each[1].last <= last_update)",
        "each for each in self.later if each[1].last <= last_update + 1)",
        "a query is answered one entry before the state that its client has seen",
    ),
    Mutant(
        "what the client has seen is not sent", REPLICA,
        "            batch.append(Query(client, request.last, request.to, request.body))",
        "            batch.append(Query(client, 0, request.to, request.body))",
        "another member answers from an older state",
    ),
    Mutant(
        "all members count as able", REPLICA,
        "            if known[member].is_current or known[member].last_update >= last",
        "            if True",
        "outside a primary view, a query waits at a member that is behind",
    ),
    Mutant(
        "a member that is behind counts as able", REPLICA,
        "            if known[member].is_current or known[member].last_update >= last",
        "            if known[member].is_current or known[member].last_update >= last - 1",
        "outside a primary view, a query waits at a member that lacks the last entry",
    ),
    Mutant(
        "every member says that it is current", REPLICA,
        "        is_current = self.replica.primary is not None and self.replica.primary == self.view",
        "        is_current = True",
        "a member is trusted to apply further entries although the view is not primary",
    ),
    Mutant(
        "the answer names a later state", REPLICA,
        '        answer, error, index = b"", "", self.last_update',
        '        answer, error, index = b"", "", self.total_order.next_confirm',
        "the client believes to have seen entries that the answer does not reflect",
    ),
    # ---- the member that answers
    Mutant(
        "the rank is off by one after a view change", REPLICA,
        "        self.query_counter = 0\n        self.pending.clear()",
        "        self.query_counter = view.id.epoch % 2 * self.replica.ticket % 2\n        self.pending.clear()",
        "members that begin to count at different numbers disagree who has to answer",
    ),
    Mutant(
        "the count of queries goes on in the next view", REPLICA,
        "        self.query_counter = 0\n        self.pending.clear()",
        "        self.pending.clear()",
        "members that come from different views disagree who has to answer",
    ),
    Mutant(
        "own queries are not counted", REPLICA,
        "            self.query_counter += 1\n",
        "            self.query_counter += sender != self.context.me\n",
        "the sender of a query and the others disagree who has to answer the next one",
    ),
    Mutant(
        "the sender also answers", REPLICA,
        "        if self.view.members[rank] == self.context.me:",
        "        if self.context.me in (self.view.members[rank], sender):",
        "two members execute one query",
    ),
    Mutant(
        "the first member answers all", REPLICA,
        "            rank = able[self.query_counter % len(able)]",
        "            rank = able[0]",
        "the work is not shared",
    ),
    Mutant(
        "members that are not able are skipped only by the sender", REPLICA,
        "            rank = able[self.query_counter % len(able)]",
        "            rank = self.query_counter % len(self.view.members)",
        "outside a primary view, a query goes to a member that cannot answer it",
    ),
    Mutant(
        "the named member is not asked", REPLICA,
        "        if query.to in able:",
        "        if False:",
        "a query for the least loaded member goes to another one",
    ),
    # ---- the change of view
    Mutant(
        "a query is lost at a view change", REPLICA,
        "        self._unsent = deque(self.map)",
        "        self._unsent = deque(list(self.map)[1:])",
        "a query that was sent in the view before is not issued again",
    ),
    Mutant(
        "all queries are lost at a view change", REPLICA,
        "        self.map = {client: request for client, request in self.map.items() if request.is_wanted}",
        "        self.map = {}",
        "clients wait for ever",
    ),
    Mutant(
        "queries of others survive a view change", REPLICA,
        "        self.queries.clear()",
        "        pass",
        "a query is answered by two members, in two views",
    ),
    Mutant(
        "answers of earlier views count", REPLICA,
        "        if self.view is None or message.view_id != self.view.id or sender not in self.load:",
        "        if self.view is None or sender not in self.load:",
        "a query that was issued again gets two answers",
    ),
    Mutant(
        "queries before the expertise of all", REPLICA,
        "        while self._unsent and self.mode is NORMAL and self._may_send:",
        "        while self._unsent and len(self.expertise) > 1 and self._may_send:",
        "a query is shared before it is known who is able to answer",
    ),
    Mutant(
        "progress is not announced", REPLICA,
        "        if is_current or (self.last_update > known.last_update and not self.total_order.is_behind):",
        "        if False:",
        "a query that has seen a recent state is never sent",
    ),
    # ---- requests and replies
    Mutant(
        "a reply twice", REPLICA,
        "        if request.is_wanted:\n            self.context.outbox",
        "        if request.is_wanted:\n"
        "            self.context.outbox.append(QueryAnswered(client, answer, index, error))\n"
        "            self.context.outbox",
        "the client gets two replies",
    ),
    Mutant(
        "the answer goes to the next query", REPLICA,
        "            batch.append(Query(client, request.last, request.to, request.body))",
        "            batch.append(Query(client, request.last, request.to, self.map[max(self.map)].body))",
        "a client gets the answer to the query of another one",
    ),
    Mutant(
        "the window never opens again", REPLICA,
        "            self._in_flight -= 1\n",
        "            pass\n",
        "after some messages no query is sent in this view",
    ),
    Mutant(
        "withdrawn queries are answered", REPLICA,
        "        request.is_wanted = False\n",
        "        pass\n",
        "a client that left gets an answer",
    ),
    # ---- the shared view order
    Mutant(
        "queries count as messages of the primary views", FORK,
        "            self.data.receive(sender, body)\n            self._tell_processed()",
        "            self.data.receive(sender, body)\n            self._passed += 1\n"
        "            self._tell_processed()",
        "entries are acknowledged before they are processed, or never",
    ),
    Mutant(
        "a query acknowledges what was not processed", FORK,
        "self._places[0] - 1 if self._places else self._received)",
        "self._received)",
        "an entry is safe although a member does not have it on disk",
    ),
    Mutant(
        "queries are not acknowledged", FORK,
        "            self.data.receive(sender, body)\n            self._tell_processed()",
        "            self.data.receive(sender, body)",
        "the window of the view order stays full until the next entry",
    ),
    Mutant(
        "the primary views get no room", FORK,
        "        self.primary.roomy()\n",
        "        pass\n",
        "entries wait although the window has room",
    ),
    # ---- updates: the total order below the service
    Mutant(
        "an update in a minority", "cluster.primary",
        "    return 2 * common > len(view.members) or (2 * common == len(view.members) and view.members[0] in present)",
        "    return common > 0",
        "both sides of a partition apply updates",
    ),
    Mutant(
        "an update is reported one entry early", "cluster.total_order",
        "            self.next_report = end\n            self.reported_highest",
        "            self.next_report = end + (self.context.me.name == 'c')\n            self.reported_highest",
        "a member believes to be further than its state machine",
    ),
)  # fmt: skip
