"""DATA-SHARING: which member answers which query of a view.

Paper: Khazan, Fekete and Lynch, DISC 1998, fig. 7: the i-th query of a view of n members is answered by the member of
rank i mod n, once, and at a state that its client may see. The checker counts the queries that each process receives in
a view by itself. All members receive the same ones in the same order: VS.
Departs: only the members that have told to be at the index that the client has seen count, as `cluster.data.replica`
explains. A query may name the member that has to answer it, which must be one of them.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from cluster.messages import Expertise, Queries, Query
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.actions import Crashed, DataQuery, Established, VsNewView, VsReceive, VsSend
    from cluster.names import ProcessId, View, ViewId
    from cluster.specs.services.data import OpenRequest


class ReceivedQueries:
    """The queries that one process has received in its view."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.expertise: dict[ProcessId, Expertise] = {}
        self.count = 0
        self.assigned: dict[tuple[ProcessId, int], Query] = {}  # to this process, not answered

    def able(self, last: int) -> list[int]:
        members = self.view.members
        return [
            rank
            for rank, x in enumerate(self.expertise.get(member) for member in members)
            if x is not None and (x.is_current or x.last_update >= last)
        ]


class DataSharingSpec(Spec):
    NAME = "DATA-SHARING"

    def __init__(self) -> None:
        super().__init__()
        self.received: dict[ProcessId, ReceivedQueries] = {}
        self.established: dict[ProcessId, ViewId] = {}  # the last primary view
        self.issued: Counter[tuple[ProcessId, int]] = Counter()  # queries of running processes: in how many views

    def vs_new_view_eff(self, act: VsNewView, at: ProcessId) -> None:
        self.received[at] = ReceivedQueries(act.view)

    def established_eff(self, act: Established, at: ProcessId) -> None:
        self.established[at] = act.view.id

    # output gpsnd(x)_p
    def vs_send_pre(self, act: VsSend, at: ProcessId) -> None:
        if isinstance(act.body, Expertise) and act.body.is_current:
            here = self.received[at].view.id
            self.require(
                self.established.get(at) == here, "gpsnd(x): current only in an established primary view", here
            )

    def vs_receive_pre(self, act: VsReceive, at: ProcessId) -> None:
        if isinstance(act.body, Queries):
            here = self.received[at]
            self.require(
                len(here.expertise) == len(here.view.members), "gpsnd: mode = normal, so x of all members came before"
            )

    def vs_receive_eff(self, act: VsReceive, at: ProcessId) -> None:
        here = self.received[at]
        if isinstance(act.body, Expertise):
            here.expertise[act.sender] = act.body
        elif isinstance(act.body, Queries):
            for query in act.body.queries:
                if act.sender == at:
                    self.issued[at, query.client] += 1
                    if self.issued[at, query.client] > 1:
                        self.branch("gpsnd: again, in a new view")
                self.receive_query_eff(here, act.sender, query, at)

    def receive_query_eff(self, here: ReceivedQueries, sender: ProcessId, query: Query, at: ProcessId) -> None:
        able = here.able(query.last)
        self.require(bool(able), "gpsnd: some member can answer", query.last)
        if query.to >= 0:
            self.require(query.to in able, "gpsnd: the member that is named can answer", able)
            rank = query.to
        else:
            here.count += 1
            rank = able[here.count % len(able)]
        if len(able) < len(here.view.members):
            self.branch("gprcv: some members are not able")
        else:
            self.branch("gprcv: all members are able")
        if here.view.members[rank] == at:
            here.assigned[sender, query.client] = query

    # internal query(c, q, l)_p
    def data_query_pre(self, act: DataQuery, at: ProcessId) -> None:
        query = self.received[at].assigned.get((act.origin, act.client))
        self.require(query is not None, "query: rank(p, view.set) = query_counter mod |view.set|, once")
        assert query is not None
        self.require(act.index >= query.last, "query: last_update >= l", query.last)
        self.require(act.body == query.body, "query: q of the client", query.body)

    def data_query_eff(self, act: DataQuery, at: ProcessId) -> None:
        del self.received[at].assigned[act.origin, act.client]

    def crashed_eff(self, _act: Crashed, at: ProcessId) -> None:
        self.received.pop(at, None)
        for key in [key for key in self.issued if key[0] == at]:
            del self.issued[key]

    # ---- the end of a run that is live

    def invariant_replies(self, waiting: Mapping[str, OpenRequest]) -> None:
        """`waiting`: the requests that clients wait for."""
        self.require(not waiting, "every request has a reply", *waiting.items())

    def invariant_shares(self, shares: list[int]) -> None:
        """`shares`: how many queries each member of a stable view executed. All were shared by round robin."""
        self.require(max(shares) - min(shares) <= 1, "queries are shared evenly", *shares)
