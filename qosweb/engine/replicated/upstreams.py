"""Health votes of the nodes on shared upstream servers, and what each node reports of its servers.

A server of scope "node" belongs to the node that reports it. A server of scope "cluster" is shared: nodes mean the same
one by the same name. Nodes vote on its health. A vote is OUT or HEALTHY if the node has recent evidence of its own,
else UNKNOWN. A shared server is out when more nodes vote OUT than HEALTHY: one node that loses its own route to the
server does not take it from nodes that use it, and nodes without traffic follow those that have some.
Nodes whose tables differ in a shared server still work, each by its own table; `disagreements` names what differs.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from cluster.names import ProcessId
    from qosweb.engine.replicated.pipes import Pipe


class Vote(enum.IntEnum):
    """A node's evidence of the health of a server."""

    UNKNOWN = 0
    HEALTHY = 1
    OUT = 2


class UpstreamReport(msgspec.Struct, frozen=True, array_like=True):
    """One server in the table of one node, and the vote of the node."""

    name: str
    url: str
    is_shared: bool
    weight: int
    slots: int  # requests that it serves at a time
    hosts: tuple[str, ...]
    paths: tuple[str, ...]
    vote: Vote = Vote.UNKNOWN
    reason: str = ""  # of the vote OUT


COMPARED = ("url", "weight", "slots", "hosts", "paths")


def outs_of(pipes: Mapping[ProcessId, Pipe], node: ProcessId) -> dict[str, str]:
    """The servers of ``node`` that are out there, and why."""
    pipe = pipes.get(node)
    found = {one.name: _why_out(pipes, one) for one in (() if pipe is None else pipe.upstreams)}
    return {name: why for name, why in found.items() if why}


def _why_out(pipes: Mapping[ProcessId, Pipe], server: UpstreamReport) -> str:
    if server.vote is Vote.OUT:
        return server.reason
    if not server.is_shared:
        return ""
    votes = votes_on(pipes, server.name)
    outs = sorted(pid.name for pid, one in votes.items() if one.vote is Vote.OUT)
    healthy = sum(one.vote is Vote.HEALTHY for one in votes.values())
    return f"out at {', '.join(outs)}" if len(outs) > healthy else ""


def votes_on(pipes: Mapping[ProcessId, Pipe], name: str) -> dict[ProcessId, UpstreamReport]:
    """The nodes' reports on the shared server ``name``."""
    return {pid: one for pid, pipe in pipes.items() for one in pipe.upstreams if one.is_shared and one.name == name}


def disagreements(pipes: Mapping[ProcessId, Pipe]) -> list[str]:
    """A line for each difference between the nodes' tables of shared servers. Nodes without servers do not count."""
    tables = {
        pid: {one.name: one for one in pipe.upstreams if one.is_shared}
        for pid, pipe in sorted(pipes.items())
        if pipe.upstreams
    }
    found = []
    for name in sorted({name for table in tables.values() for name in table}):
        rows = {pid.name: table[name] for pid, table in tables.items() if name in table}
        without = [pid.name for pid, table in tables.items() if name not in table]
        if without:
            found.append(f"upstream {name}: in the table of {', '.join(rows)}, but not of {', '.join(without)}")
        for key in COMPARED:
            values = {node: _shown(getattr(row, key)) for node, row in rows.items()}
            if len(set(values.values())) > 1:
                found.append(f"upstream {name}: {key} is " + ", ".join(f"{one} at {at}" for at, one in values.items()))
    return found


def _shown(value: str | int | tuple[str, ...]) -> str:
    return (" ".join(value) or "any") if isinstance(value, tuple) else str(value)
