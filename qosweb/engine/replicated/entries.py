"""Entries of the total order and their wire format. There is one kind: a batch of one node's events.

A node collects what happened to its requests since its last batch, and sends it in one batch. The node that holds the
socket of a request, its owner, numbers it; no number is used twice. Class numbers refer to the policy of `generation`.
`cost` is in bytes: the bytes of the response plus the fixed cost of a request.
A node sends each count once, in `accounts`. The totals come only from `accounts`, so that each request is counted once,
whatever became of its channel.
Times are cluster time: milliseconds since the founding, as the sender computes them (see `engine`).
On the wire: one byte for the format, then MessagePack. A snapshot of the state machine begins with the same byte.

Format 1 lacks `upstreams`, `pools` and `limits`, and the scheduler then followed other rules. Entries and snapshots of
format 1 are found in data directories of earlier versions. A replica that continued the queue of such a snapshot would
differ from one whose disk has a later snapshot. Therefore only that part of format 1 is taken over which does not
depend on the scheduler: time, policy, reports, accesses and totals. The requests of that time are over in any case:
nodes of both formats never run together, and every node restates its requests when it returns.
Neighbours: `state_machine` applies the entries.
"""

from __future__ import annotations

import msgspec

from cluster.names import ProcessId
from qosweb.engine.replicated.pool_batch import PoolBatch
from qosweb.engine.replicated.upstreams import UpstreamReport
from qosweb.webqos.model.model import LANGUAGE

FORMAT = 2  # of batches and snapshots: raised when an earlier version would misread them, or act otherwise on them
EARLIER_FORMAT = 1  # that can be read, too
LIST_MAX = 20_000  # items of one kind in a batch; the rest goes into the next


class NodeReport(msgspec.Struct, frozen=True, array_like=True):
    """A node's report on itself. A later report replaces an earlier one."""

    capacity_bps: int
    load_ppm: int
    wall_ms: int  # its wall clock minus cluster time
    url: str  # where clients reach it
    language: int = LANGUAGE  # the latest policy language that it reads


class PolicyText(msgspec.Struct, frozen=True, array_like=True):
    """A policy in an entry."""

    text: str  # as written
    model: bytes  # compiled once, by the sender
    language: int = LANGUAGE  # of the model


class NodeRestatement(msgspec.Struct, frozen=True, array_like=True):
    """All unfinished requests of the sender, which is new or was away. Replaces all that is known of the sender."""

    count: int  # number of the restatement: grants to the sender before this one is applied are void
    running: list[tuple[int, int, int]]  # number, class, cost
    waiting: list[tuple[int, int, int]]


class NodeBatch(msgspec.Struct, array_like=True):
    """A batch of one node. Fields are in the order in which they are applied, but for those that format 1 lacks."""

    at_ms: int
    generation: int
    policy: PolicyText | None = None
    report: NodeReport | None = None
    restated: NodeRestatement | None = None
    accounts: list[tuple[int, int, int, int, int, int, int]] = []  # class, and additions to its `Totals`
    accessed: list[tuple[int, int]] = []  # page set, time
    served: list[tuple[int, int, int]] = []  # class, requests, cost: started at once, and finished
    denied: list[tuple[int, int, int]] = []  # class, requests, cost: denied on arrival
    started: list[tuple[int, int, int]] = []  # number, class, cost: started at once, and still running
    submitted: list[tuple[int, int, int]] = []  # number, class, cost: waiting
    cancelled: list[int] = []  # no longer waiting, or giving back their grants
    finished: list[tuple[int, int]] = []  # number, real cost
    visited: list[tuple[ProcessId, int, int]] = []  # redirected here: owner, its number, real cost or UNUSED
    upstreams: list[UpstreamReport] | None = None  # all upstream servers of the sender; applied after `report`
    pools: list[PoolBatch] = []  # events at pools of upstream servers
    limits: list[tuple[str, int, int, int]] = []  # decisions on servers: server, limit, level, epoch


UNUSED = -1  # the cost of a channel whose redirected client did not arrive

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(NodeBatch).decode


class OtherFormat(Exception):
    """The bytes were written by another version of this program."""


def encode(batch: NodeBatch) -> bytes:
    return with_format(_encode(batch))


def decode(body: bytes) -> NodeBatch:
    """Raises OtherFormat, or msgspec.DecodeError if it is not a batch in any version."""
    data, is_earlier = without_format(body)
    batch = _decode(data)
    if not is_earlier:
        return batch
    return NodeBatch(
        batch.at_ms, batch.generation, batch.policy, batch.report, accounts=batch.accounts, accessed=batch.accessed
    )


def is_earlier(body: bytes) -> bool:
    return body[0] == EARLIER_FORMAT


def with_format(data: bytes) -> bytes:
    return FORMAT.to_bytes() + data


def without_format(data: bytes) -> tuple[memoryview, bool]:
    """The content, and whether it is in the earlier format. Raises OtherFormat."""
    if not data or data[0] not in (FORMAT, EARLIER_FORMAT):
        found = data[0] if data else "none"
        raise OtherFormat(f"it is of format {found}, this version reads {EARLIER_FORMAT} and {FORMAT}")
    return memoryview(data)[1:], data[0] == EARLIER_FORMAT
