"""DATA-S: specification of a replicated data service: updates are atomic, queries never go back for any client.

Paper: Khazan, Fekete and Lynch, DISC 1998, figs. 2 and 3 (S and its blocking clients). State variables keep its names.
Departs:
- Indices count all entries of the total order, also those that are no updates of clients: dbs[l] is the state after the
  first l entries. An update has a result, where the paper has only "ok".
- A client may give up, or lose its request with the process where it made it, and go on elsewhere with its last(c). Its
  update may then still take place, and its query has no effect.
- The member of a client may get the client's update as part of a snapshot. The client has then seen the state of that
  snapshot, and the result is not known.

Internal choices. update(c, u): takes place when the first state machine applies the entry. Its place among the updates
is visible there; an earlier guess could only have allowed less. query(c, q, l): at the reply, which names l.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import msgspec

from cluster.data.replica import Queryable
from cluster.entries import APPLICATION, VIEW
from cluster.names import ProcessId
from cluster.replica import StateMachine
from cluster.specs.spec import Spec
from cluster.state_exchange import view_of_entry

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Applied, Crashed, DataGone, DataQuery, DataReply, DataRequest, Restored


class ReferenceMachine(StateMachine, Queryable, Protocol):
    """A state machine with small snapshots, from which the states of dbs are made."""


class OpenRequest(msgspec.Struct):
    """map(c), for a client that waits."""

    at: ProcessId  # c.proc
    ticket: int
    is_update: bool
    body: bytes


class Executed(msgspec.Struct):
    """An update that took place."""

    index: int  # of the state after it
    result: bytes


class DataSpec(Spec):
    NAME = "DATA-S"

    def __init__(self, make_machine: Callable[[], ReferenceMachine]) -> None:
        super().__init__()
        self.machine = make_machine()  # dbs[|dbs| - 1]
        self.past = make_machine()  # an earlier state, on demand
        self.dbs: list[bytes] = [self.machine.snapshot()]
        self.map: dict[str, OpenRequest] = {}
        self.last: dict[str, int] = {}
        self.updates: dict[bytes, str] = {}  # updates of clients that have not taken place, also of clients that left
        self.executed: dict[bytes, Executed] = {}

    def answer_at(self, query: bytes, index: int) -> bytes:
        """q(dbs[l])"""
        self.past.restore(self.dbs[index])
        return self.past.query(query)

    # input request(r)_c
    def data_request_pre(self, act: DataRequest, _at: ProcessId) -> None:
        self.require(act.client not in self.map, "request: busy = false", act.client)
        self.require(act.seen == self.last.get(act.client, 0), "request: with last(c)", self.last.get(act.client))

    def data_request_eff(self, act: DataRequest, at: ProcessId) -> None:
        self.map[act.client] = OpenRequest(at, act.ticket, act.is_update, act.body)
        if act.is_update:
            self.updates[act.body] = act.client

    # internal update(c, u): the first process that applies it
    def applied_pre(self, act: Applied, _at: ProcessId) -> None:
        body = act.entry.body
        if act.position == len(self.dbs) - 1 and (body in self.updates or body in self.executed):
            self.require(body in self.updates, "update: u = map(c), once", act.label)

    def applied_eff(self, act: Applied, _at: ProcessId) -> None:
        if act.position != len(self.dbs) - 1:
            return
        result: object = None
        if act.entry.kind == APPLICATION:
            result = self.machine.apply(act.position, act.label.origin, act.entry.body)
        elif act.entry.kind == VIEW:
            self.machine.view_changed(act.position, view_of_entry(act.entry))
        self.dbs.append(self.machine.snapshot())
        client = self.updates.pop(act.entry.body, None)
        if client is not None:
            self.executed[act.entry.body] = Executed(act.position + 1, repr(result).encode())
            waits = self.map.get(client)
            if waits is None or waits.body != act.entry.body:
                self.branch("update: its client has left")
            else:
                self.branch("update: its client waits")

    # internal query(c, q, l), as it is executed at a member
    def data_query_pre(self, act: DataQuery, _at: ProcessId) -> None:
        self.require(act.index < len(self.dbs), "query: l <= |dbs| - 1", len(self.dbs) - 1)
        expected = self.answer_at(act.body, act.index)
        self.require(act.answer == expected, "query: the answer is q(dbs[l])", expected)

    # output reply(o)_c, after internal query(c, q, l) for a query
    def data_reply_pre(self, act: DataReply, at: ProcessId) -> None:
        request = self.map.get(act.client)
        self.require(
            request is not None and (request.at, request.ticket, request.is_update) == (at, act.ticket, act.is_update),
            "reply: to the request that c waits for",
            request,
        )
        assert request is not None
        last = self.last.get(act.client, 0)
        self.require(last <= act.index < len(self.dbs), "reply: last(c) <= l <= |dbs| - 1", last, len(self.dbs) - 1)
        if act.is_update:
            self.update_reply_pre(act, request)
        else:
            expected = self.answer_at(request.body, act.index)
            self.require(act.answer == expected, "reply: the answer to a query is q(dbs[l])", expected)

    def update_reply_pre(self, act: DataReply, request: OpenRequest) -> None:
        done = self.executed.get(request.body)
        self.require(done is not None, "reply: ok, if the update took place")
        assert done is not None
        if act.answer:
            self.require((act.index, act.answer) == (done.index, done.result), "reply: the result of the update", done)
        else:
            self.require(act.index >= done.index, "reply: the state of the snapshot has the update in it", done)

    def data_reply_eff(self, act: DataReply, at: ProcessId) -> None:  # noqa: ARG002
        self.last[act.client] = act.index
        del self.map[act.client]
        if not act.is_update and act.index < len(self.dbs) - 1:
            self.branch("query: not in the latest state")

    def data_gone_eff(self, act: DataGone, _at: ProcessId) -> None:
        self.map.pop(act.client, None)

    def crashed_eff(self, _act: Crashed, at: ProcessId) -> None:
        self.map = {client: request for client, request in self.map.items() if request.at != at}


class DataDelaySpec(DataSpec):
    """D: as S, but an update of a client is served (its client may get the reply) when its own member has applied it.

    Paper: fig. 4. update(c, u): the first process applies it. service(c): the process of the client applies it, or
    restores a snapshot that has it.
    """

    NAME = "DATA-D"

    def __init__(self, make_machine: Callable[[], ReferenceMachine]) -> None:
        super().__init__(make_machine)
        self.delay: dict[str, int] = {}
        self.ok: set[str] = set()  # clients with map(c) = ok

    def applied_eff(self, act: Applied, at: ProcessId) -> None:
        client = self.updates.get(act.entry.body)
        super().applied_eff(act, at)
        request = self.map.get(client) if client is not None else None
        if client is not None and request is not None and request.body == act.entry.body:
            self.delay[client] = act.position + 1
        self.service(act.position + 1, at)

    def restored_eff(self, act: Restored, at: ProcessId) -> None:
        self.service(act.position, at)

    def service(self, index: int, at: ProcessId) -> None:
        """internal service(c), for the clients of this process whose updates are in the state at this index"""
        for client in [c for c, delay in self.delay.items() if delay <= index]:
            request = self.map.get(client)
            if request is None:
                del self.delay[client]
            elif request.at == at:
                del self.delay[client]
                self.ok.add(client)

    def update_reply_pre(self, act: DataReply, request: OpenRequest) -> None:
        super().update_reply_pre(act, request)
        self.require(act.client in self.ok, "reply: ok, if the member of c has applied the update")

    def data_reply_eff(self, act: DataReply, at: ProcessId) -> None:
        super().data_reply_eff(act, at)
        self.ok.discard(act.client)

    def data_gone_eff(self, act: DataGone, at: ProcessId) -> None:
        super().data_gone_eff(act, at)
        self.ok.discard(act.client)
        self.delay.pop(act.client, None)

    def crashed_eff(self, act: Crashed, at: ProcessId) -> None:
        super().crashed_eff(act, at)
        self.ok.intersection_update(self.map)
        self.delay = {client: index for client, index in self.delay.items() if client in self.map}
