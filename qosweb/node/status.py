"""How the node and its cluster are, as JSON: ``GET /status`` and ``GET /queue``."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from qosweb.version import VERSION
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.engine.classes import ClassState
    from qosweb.engine.engine import Engine
    from qosweb.node.ledger import ClassAccount
    from qosweb.node.node import Node

QUEUE_SHOWN_MAX = 1_000


def status_of(node: Node) -> dict[str, object]:
    policy = node.policy
    return {
        "name": node.name,
        "version": VERSION,
        "since": node.started_at,
        "draining": node.draining,
        "root": str(node.store.root.path),
        "connections": {"open": len(node.connections), **dataclasses.asdict(node.connections.counts)},
        "cache": {
            "pages": len(node.store.resources),
            "bytes": node.store.memory,
            "reads": node.store.reads,
        },
        "access_log": None
        if node.log is None
        else {"lines": node.log.lines_written, "waiting": node.log.lines_waiting, "lost": node.log.lines_lost},
        **cluster_of(node),
        "policy": {
            "hash": policy.labels.policy,
            "file": str(node.settings.spec or ""),
            "in_force": policy.labels.in_force(node.clock.read()),
        },
        "classes": {account.name: _class(account, node) for account in policy.accounts},
    }


def scope_of(node: Node) -> str:
    """Who decides: the cluster, this node while it is cut off from it, or this node because there is no other."""
    if node.membership is None:
        return "alone"
    return "cluster" if node.primary is not None else "local"


def cluster_of(node: Node) -> dict[str, object]:
    room = node.room
    if room is None:
        return {"scope": "alone", "capacity": None, "nodes": {}}
    machine = room.engine.machine
    view = node.primary
    return {
        "scope": scope_of(node),
        "primary": view is not None,
        "primary_since": node.primary_since,
        "view": None if view is None else {"id": str(view.id), "epoch": view.id.epoch},
        "members": [node.name] if view is None else [member.name for member in view.members],
        "group": None if node.membership is None else {"addresses": list(node.membership.group.addresses)},
        "can_lose": 0 if view is None else (len(view.members) - 1) // 2,
        "time_ms": room.engine.time_ms,
        "capacity": {"bytes_per_s": room.engine.report.capacity_bps, "cluster_bytes_per_s": machine.capacity_bps},
        "nodes": {
            pid.name: {
                "url": pipe.url,
                "capacity_bytes_per_s": pipe.capacity_bps,
                "used_bytes_per_s": pipe.used_bps,
                "channels": len(pipe.channels),
                "waiting": len(pipe.waiting),
                "load": pipe.load_ppm / PPM,
            }
            for pid, pipe in machine.pipes.items()
        },
    }


def _class(account: ClassAccount, node: Node) -> dict[str, object]:
    found: dict[str, object] = {
        "in_service": account.in_service,
        **{key: count for key, count in account.by_decision().items() if key in ("served", "denied", "failed")},
        "expired": account.decisions["expired"],
        "redirected": account.decisions["redirected"],
        "bytes": account.bytes_sent,
        "denials": dict(account.reasons),
    }
    if node.room is not None:
        found |= _of_cluster(node.room.engine, account.number)
    return found


def _of_cluster(engine: Engine, number: int) -> dict[str, object]:
    machine = engine.machine
    one = machine.classes[number]
    return {
        "share": {
            "promised": machine.promised[number] / PPM,
            "now": machine.scheduler.shares[number] / PPM,
            "held": held_share(machine.classes, number),
        },
        "always": machine.scheduler.bound.always[number],
        "waiting": one.waiting,
        "cluster": {
            "started": one.totals.started,
            "started_bytes": one.totals.started_cost,
            "denied": one.totals.denied,
            "cancelled": one.totals.cancelled,
            "redirected": one.totals.redirected,
            "offered_bytes_per_s": one.came.per_s,
            "started_bytes_per_s": one.got.per_s,
        },
    }


def held_share(classes: list[ClassState], number: int) -> float:
    """Of what was started of late in the whole cluster, the part of this class."""
    total = sum(one.got.per_s for one in classes)
    return round(classes[number].got.per_s / total, 4) if total else 0.0


def queue_of(node: Node) -> dict[str, object]:
    """The global queue as this replica sees it: the oldest of each class first."""
    room = node.room
    if room is None:
        return {"waiting": 0, "classes": {}}
    machine = room.engine.machine
    return {
        "waiting": sum(one.waiting for one in machine.classes),
        "time_ms": machine.time_ms,
        "shown_max": QUEUE_SHOWN_MAX,
        "classes": {one.name: _waiters(one, machine.time_ms) for one in machine.classes if one.waiting},
    }


def _waiters(one: ClassState, now_ms: int) -> dict[str, object]:
    entries = sorted(
        (waiter.seq, owner.name, number, waiter)
        for owner, queue in one.queues.items()
        for (number, waiter), _ in zip(queue.items(), range(QUEUE_SHOWN_MAX), strict=False)
    )[:QUEUE_SHOWN_MAX]
    return {
        "waiting": one.waiting,
        "waiting_bytes": one.waiting_cost,
        "entries": [
            {"node": owner, "number": number, "bytes": waiter.cost, "waits_ms": now_ms - waiter.at_ms}
            for _, owner, number, waiter in entries
        ],
    }
