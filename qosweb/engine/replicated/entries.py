"""Entries of the total order and their wire format. There is one kind: a batch of one node's events.

A node collects what happened to its requests since its last batch, and sends it in one batch. The node that holds the
socket of a request, its owner, numbers it; no number is used twice. Class numbers refer to the policy of `generation`.
`cost` is in bytes: the bytes of the response plus the fixed cost of a request.
A node sends each count once, in `accounts`. The totals come only from `accounts`, so that each request is counted once,
whatever became of its channel.
Times are cluster time: milliseconds since the founding, as the sender computes them (see `engine`).
On the wire: one byte for the format, then MessagePack. A snapshot of the state machine begins with the same byte.
Neighbours: `state_machine` applies the entries.
"""

from __future__ import annotations

import msgspec

from cluster.names import ProcessId
from qosweb.webqos.model.model import LANGUAGE

FORMAT = 1  # of batches and snapshots: raised whenever the version before would read them otherwise
LIST_MAX = 20_000  # items of one kind that a batch takes; what is left goes with the next


class NodeReport(msgspec.Struct, frozen=True, array_like=True):
    """What a node says of itself. A later one takes the place of an earlier one."""

    capacity_bps: int
    load_ppm: int
    wall_ms: int  # what its clock says, less the cluster's time
    url: str  # where clients reach it
    language: int = LANGUAGE  # the latest that it reads policies in


class PolicyText(msgspec.Struct, frozen=True, array_like=True):
    text: str  # as it was written
    model: bytes  # the same compiled, so that nobody else has to
    language: int = LANGUAGE  # of the model


class NodeRestatement(msgspec.Struct, frozen=True, array_like=True):
    """All that the sender has, in place of whatever was known of it: it is new, or was away."""

    count: int  # so many times it has restated: whatever it is told before this one is known to the others is void
    running: list[tuple[int, int, int]]  # number, class, cost
    waiting: list[tuple[int, int, int]]


class NodeBatch(msgspec.Struct, array_like=True):
    """In the order in which it is applied."""

    at_ms: int
    generation: int
    policy: PolicyText | None = None
    report: NodeReport | None = None
    restated: NodeRestatement | None = None
    accounts: list[tuple[int, int, int, int, int, int, int]] = []  # class, and what to add to its `Totals`
    accessed: list[tuple[int, int]] = []  # page set, when
    served: list[tuple[int, int, int]] = []  # class, requests, cost: started at once, and over
    denied: list[tuple[int, int, int]] = []  # class, requests, cost: at arrival, without having waited
    started: list[tuple[int, int, int]] = []  # number, class, cost: started at once, and still running
    submitted: list[tuple[int, int, int]] = []  # number, class, cost: these wait
    cancelled: list[int] = []  # they wait no longer, or give back what was granted
    finished: list[tuple[int, int]] = []  # number, what it really cost
    visited: list[tuple[ProcessId, int, int]] = []  # for others: owner, its number, real cost or UNUSED


UNUSED = -1  # the cost of a channel that was held for a visitor who did not come

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(NodeBatch).decode


class OtherFormat(Exception):
    """Bytes of another version of this program."""


def encode(batch: NodeBatch) -> bytes:
    return with_format(_encode(batch))


def decode(body: bytes) -> NodeBatch:
    """Raises OtherFormat, or msgspec.DecodeError for what is no batch in any version."""
    return _decode(without_format(body))


def with_format(data: bytes) -> bytes:
    return FORMAT.to_bytes() + data


def without_format(data: bytes) -> memoryview:
    if not data or data[0] != FORMAT:
        raise OtherFormat(f"it is of format {data[0] if data else 'none'}, this version speaks {FORMAT}")
    return memoryview(data)[1:]
