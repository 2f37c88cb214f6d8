"""Load-balancing data service: one member, which shares the queries of its clients with the other members of its view.

Updates are entries of the total order, so only primary views apply them. A query needs no primary view. All members of
a view get its queries in one order, and each query is answered by one of them, which sends the answer to the member of
the client. When the view changes, queries without an answer are issued again. No client sees a state older than one it
has seen: a client presents the index of that state, and only a member that has reached it answers.

Paper: Khazan, Fekete and Lynch, DISC 1998, figs. 6 and 7 (VStoD_p). State variables keep its names.
Departs:
- The update half of VStoD is the total order: `updates` is its log, `safe_to_update` its next_confirm, `last_update`
  its next_report, and the exchange of expertise in primary views its exchange of summaries. Indices count all entries
  of the order. Primary views are dynamic (the future work of the paper).
- Without a primary view there is no exchange of updates, so members may be behind each other. Each tells how far it is
  (`Expertise`), when the view begins and when it has advanced. A query that has seen index l goes to the members that
  have told to be at l, or that are current in a primary view: the i-th query of the view to the one at i modulo their
  number. If all are able, that is the rule of the paper. If none is, or the index is one that does not exist yet, the
  query waits where it came from.
- last(c) is kept by the client, which may go to another member with it. c is the number of a request.
- One message carries several queries, or several answers.
- A query may name the member that has to answer it: the one that its sender believes to be least loaded. Members that
  share queries so report their loads by semantically reliable broadcast (`cluster.reports`): a lost report is obsolete.
- A view with a member that does not have this service: queries are answered where they come from.
Above: the client.  Below: the view order, shared with the primary views by `order_fork`; the links carry answers.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Protocol

from cluster.actions import DataQuery
from cluster.data.member_load import LoadReports, MemberLoad, ServiceTime
from cluster.layer import Ejected, LoadChanged, QueryAnswered
from cluster.messages import Answers, Expertise, Queries, Query, QueryAnswer

if TYPE_CHECKING:
    from cluster.data.order_fork import OrderFork
    from cluster.layer import Context
    from cluster.links import Links
    from cluster.names import ProcessId, View
    from cluster.replica import ReplicaLayer
    from cluster.settings import Settings
    from cluster.total_order import TotalOrder

NORMAL, COLLECTION = "normal", "expertise_collection"
LEAST_LOADED = "least loaded"
BY_TURNS = -1  # Query.to of a query that is answered by round robin
ANSWERS_HELD_S = 0.005  # how long a busy member collects answers, to send them together
ANSWER_BYTES_MAX = 4 * 1024 * 1024
QUERIES_LEN_MAX = 100_000  # queries that wait here; a member that sends more violates the protocol


class Queryable(Protocol):
    """The part of a state machine that answers queries."""

    def query(self, body: bytes) -> bytes:
        """Answer a query from the current state, which it must not change."""


class OwnQuery:
    """A query of an own client: map(c)."""

    __slots__ = ("body", "is_wanted", "last", "to")

    def __init__(self, body: bytes, last: int) -> None:
        self.body = body
        self.last = last  # last(c)
        self.to = BY_TURNS  # rank of the member that has to answer it, if it was chosen here
        self.is_wanted = True  # the client waits for the answer


class DataReplica:
    """VStoD_p without its update half. Inputs: `request`, `withdraw`, and those of the fork and the links."""

    __slots__ = (
        "_announced",
        "_answers",
        "_held_since",
        "_in_flight",
        "_reports",
        "_service",
        "_ticket",
        "_unsent",
        "context",
        "executed",
        "expertise",
        "fork",
        "incapable",
        "later",
        "links",
        "load",
        "machine",
        "map",
        "mode",
        "pending",
        "queries",
        "query_counter",
        "replica",
        "settings",
        "total_order",
        "view",
    )

    fork: OrderFork

    def __init__(
        self,
        context: Context,
        settings: Settings,
        machine: Queryable,
        links: Links,
        total_order: TotalOrder,
        replica: ReplicaLayer,
    ) -> None:
        self.context = context
        self.settings = settings
        self.machine = machine
        self.links = links
        self.total_order = total_order
        self.replica = replica
        self.view: View | None = None
        self.mode = COLLECTION
        self.map: dict[int, OwnQuery] = {}
        self.pending: set[int] = set()  # clients whose queries were sent in this view
        self.queries: deque[tuple[ProcessId, Query]] = deque()  # to execute here, in order
        self.query_counter = 0
        self.expertise: dict[ProcessId, Expertise] = {}  # the last of each member
        self.load: dict[ProcessId, MemberLoad] = {}
        self.incapable: set[ProcessId] = set()  # processes known not to have this service
        self.executed = 0  # queries executed here
        self.later: list[tuple[ProcessId, Query]] = []  # to execute here when last_update has reached their index
        self._answers: dict[ProcessId, list[QueryAnswer]] = {}  # to send, by the member of the client
        self._held_since = 0.0  # when the first of them was made
        self._service = ServiceTime()
        self._reports = LoadReports()
        self._unsent: deque[int] = deque()  # clients whose queries have to be sent
        self._in_flight = 0  # own messages with queries that are not known to be safe
        self._announced: Expertise | None = None  # the own expertise that was sent last
        self._ticket = 0

    @property
    def last_update(self) -> int:
        """The index of the state here: the number of entries of the total order that are applied."""
        return self.total_order.next_report

    # ---- inputs from the client

    # input request(q)_c
    def request(self, body: bytes, seen: int) -> int:
        """A client that has seen the state at index `seen` asks. Returns c; `QueryAnswered` has the same number."""
        self._ticket += 1
        self.map[self._ticket] = OwnQuery(body, seen)
        self._unsent.append(self._ticket)
        self._send_queries()
        return self._ticket

    def withdraw(self, client: int) -> bool:
        """The client does not wait for the answer any more. Returns False if it has been answered already."""
        request = self.map.get(client)
        if request is None or not request.is_wanted:
            return False
        request.is_wanted = False
        if client not in self.pending:
            del self.map[client]
        return True

    # ---- inputs from the view order

    # input newview(v)_p
    def new_view(self, view: View) -> None:
        self.view = view
        self.queries.clear()
        self.later.clear()
        self._answers.clear()
        self.query_counter = 0
        self.pending.clear()
        self.expertise.clear()
        self.load = {member: self.load.get(member) or MemberLoad() for member in view.members}
        for load in self.load.values():
            load.own = 0
        self._in_flight = 0
        self.map = {client: request for client, request in self.map.items() if request.is_wanted}
        self._unsent = deque(self.map)
        self._announced = None
        self.mode = COLLECTION
        if not self._is_alone:
            self._announce(Expertise(self.last_update, False))  # gpsnd(x)_p

    @property
    def _is_alone(self) -> bool:
        """Whether a member of the view does not have this service."""
        return self.view is not None and bool(self.incapable) and not self.incapable.isdisjoint(self.view.members)

    # input gprcv(m)_{p',p}
    def receive(self, sender: ProcessId, body: Expertise | Queries) -> None:
        assert self.view is not None
        if type(body) is Expertise:
            known = self.expertise.get(sender)
            if known is not None and (known.is_current or body.last_update < known.last_update):
                self._eject(sender, f"expertise {body.last_update} after {known.last_update}")
                return
            self.expertise[sender] = body
            if len(self.expertise) == len(self.view.members):
                self.mode = NORMAL
                self._send_queries()
        else:
            assert type(body) is Queries
            if len(self.expertise) < len(self.view.members):
                self._eject(sender, "queries before the expertise of all members")
                return
            for query in body.queries:
                self._receive_query(sender, query)

    def _receive_query(self, sender: ProcessId, query: Query) -> None:
        """gprcv(c, q, l)_{p',p}"""
        able = self._able(query.last)
        if not able:
            self._eject(sender, f"a query at index {query.last}, which no member has reached")
            return
        if query.to in able:
            rank = query.to
        else:
            self.query_counter += 1
            rank = able[self.query_counter % len(able)]
        assert self.view is not None
        if self.view.members[rank] == self.context.me:
            self._assign(sender, query)

    def _able(self, last: int) -> list[int]:
        """The ranks of the members that have reached this index, or certainly will."""
        assert self.view is not None
        known = self.expertise
        return [
            rank
            for rank, member in enumerate(self.view.members)
            if known[member].is_current or known[member].last_update >= last
        ]

    def _assign(self, origin: ProcessId, query: Query) -> None:
        if len(self.queries) + len(self.later) >= QUERIES_LEN_MAX:
            self._eject(origin, f"more than {QUERIES_LEN_MAX} queries")
        elif query.last <= self.last_update:
            self.queries.append((origin, query))
        else:
            self.later.append((origin, query))

    def load_reported(self, name: str, at: float, waiting: int, service_us: int) -> None:
        """The load of the member of this name was so at `at`, by the clock of this process."""
        for member, load in self.load.items():
            if member.name == name:
                load.report(at, waiting, service_us)

    def safe(self, sender: ProcessId, body: Expertise | Queries) -> None:
        if sender == self.context.me and type(body) is Queries:
            self._in_flight -= 1
            self._send_queries()

    def roomy(self) -> None:
        self._send_queries()

    # input ptprcv(c, a, l, g)_{p',p}, for several c
    def answers_received(self, sender: ProcessId, message: Answers) -> None:
        if self.view is None or message.view_id != self.view.id or sender not in self.load:
            return  # of an earlier view: the queries were issued again
        for answer in message.answers:
            if answer.client not in self.pending:
                self._eject(sender, f"an answer to query {answer.client}, which is not open")
            elif answer.last_update < self.map[answer.client].last:
                self._eject(sender, f"an answer from the state at {answer.last_update}, which its client has passed")
            else:
                self._reply(answer.client, answer.body, answer.last_update, answer.error)

    # ---- local actions

    def settle(self) -> None:
        """The process has handled its input: the state may have advanced."""
        if self.later:
            last_update = self.last_update
            self.queries.extend(each for each in self.later if each[1].last <= last_update)
            self.later = [each for each in self.later if each[1].last > last_update]
        if self._answers:
            self._send_answers()
        if self.view is not None and not self._is_alone:
            self._announce_progress()
        if self._unsent:
            self._send_queries()
        if self.settings.query_sharing == LEAST_LOADED and len(self.load) > 1:
            waiting, service_us = len(self.queries), self._service.mean_us
            if self._reports.is_due(self.context.now, waiting, service_us):
                self.context.outbox.append(LoadChanged(waiting, service_us))

    def _announce_progress(self) -> None:
        known = self._announced
        if known is None or known.is_current or not self.fork.has_room:
            return
        is_current = self.replica.primary is not None and self.replica.primary == self.view
        if is_current or (self.last_update > known.last_update and not self.total_order.is_behind):
            self._announce(Expertise(self.last_update, is_current))

    def _announce(self, expertise: Expertise) -> None:
        self._announced = expertise
        self.fork.send(expertise)

    # output gpsnd(c, q, l)_p, for several c
    def _send_queries(self) -> None:
        if self._unsent and self._is_alone:
            self._keep_queries()
        while self._unsent and self.mode is NORMAL and self._may_send:
            batch = self._next_batch()
            if not batch:
                return
            self._in_flight += 1
            self.fork.send(Queries(batch))

    @property
    def _may_send(self) -> bool:
        return self._in_flight < self.settings.query_window and self.fork.has_room

    def _next_batch(self) -> tuple[Query, ...]:
        """The next queries to send. Those that no member can answer stay."""
        batch: list[Query] = []
        kept: list[int] = []
        while self._unsent and len(batch) < self.settings.query_batch_max:
            client = self._unsent.popleft()
            request = self.map.get(client)
            if request is None:
                continue
            able = self._able(request.last)
            if not able or not self._exists(request.last):
                kept.append(client)
                continue
            request.to = self._least_loaded(able) if self.settings.query_sharing == LEAST_LOADED else BY_TURNS
            self.pending.add(client)
            batch.append(Query(client, request.last, request.to, request.body))
        self._unsent.extendleft(reversed(kept))
        return tuple(batch)

    def _exists(self, last: int) -> bool:
        """Whether there is a state of this index, as far as is known here.

        No member of a primary view has confirmed an entry that another one has not received. So a client that has seen
        more comes from a later primary view, or is wrong.
        """
        return last <= self.total_order.length or any(x.last_update >= last for x in self.expertise.values())

    def _least_loaded(self, able: list[int]) -> int:
        """The rank of the member that will answer first, as far as is known here. By turns among equals."""
        assert self.view is not None
        now, members, turn = self.context.now, self.view.members, self._ticket
        rank = min(able, key=lambda each: (self.load[members[each]].wait_s(now), (each - turn) % len(members)))
        self.load[members[rank]].own += 1
        return rank

    def _keep_queries(self) -> None:
        """Queries of own clients stay here: not all members of the view have this service."""
        for client in list(self._unsent):
            request = self.map.get(client)
            if request is None or request.last <= self.last_update:
                self._unsent.remove(client)
            if request is not None and request.last <= self.last_update:
                self.pending.add(client)
                self.queries.append((self.context.me, Query(client, request.last, BY_TURNS, request.body)))

    # internal query(c, q, l)_p
    def tick(self) -> None:
        """Executes one query, if any waits."""
        if not self.queries:
            return
        assert self.view is not None
        origin, query = self.queries.popleft()
        self._service.on_executed(self.context.now, more=bool(self.queries))
        self.executed += 1
        answer, error, index = b"", "", self.last_update
        try:
            answer = self.machine.query(query.body)
            if len(answer) > ANSWER_BYTES_MAX:
                answer, error = b"", f"the answer has {len(answer)} bytes; at most {ANSWER_BYTES_MAX} are allowed"
        except Exception as failure:  # of the query, not of this member
            error = f"{type(failure).__name__}: {failure}"
        if self.context.trace is not None:
            self.context.trace(DataQuery(origin, query.client, query.body, answer, index))
        if origin == self.context.me:
            self._reply(query.client, answer, index, error)
        else:
            if not self._answers:
                self._held_since = self.context.now
            self._answers.setdefault(origin, []).append(QueryAnswer(query.client, index, answer, error))

    def _send_answers(self) -> None:
        """output ptpsnd(c, a, l, g)_{p,p'}, for several c. While more queries wait, answers wait for each other."""
        if self.queries and self.context.now - self._held_since < ANSWERS_HELD_S:
            return
        assert self.view is not None
        for origin, answers in self._answers.items():
            self.links.send((origin,), Answers(self.view.id, tuple(answers)))
        self._answers.clear()

    # output reply(a)_c
    def _reply(self, client: int, answer: bytes, index: int, error: str) -> None:
        request = self.map.pop(client)
        self.pending.discard(client)
        if request.to != BY_TURNS:
            assert self.view is not None
            self.load[self.view.members[request.to]].own -= 1
        if request.is_wanted:
            self.context.outbox.append(QueryAnswered(client, answer, index, error))

    def next_deadline(self) -> float:
        return self.context.now if self.queries else inf

    def _eject(self, peer: ProcessId, reason: str) -> None:
        self.context.outbox.append(Ejected(peer, f"data service: {reason}"))
