"""Status of the node and its cluster as JSON: ``GET /status`` and ``GET /queue``."""

from __future__ import annotations

from dataclasses import asdict
from itertools import islice
from math import inf
from typing import TYPE_CHECKING

import msgspec

from qosweb.engine.replicated.compiled_policy import median_wall_ms
from qosweb.engine.replicated.upstreams import votes_on
from qosweb.server.admin.block_routes import listed
from qosweb.server.admin.guarantee_rows import rows_of
from qosweb.version import VERSION
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from qosweb.admission import ClassAccount
    from qosweb.engine.engine import Engine
    from qosweb.engine.replicated.classes import ClassState
    from qosweb.engine.replicated.pipes import Pipe
    from qosweb.server.cluster.live_figures import LiveNode
    from qosweb.server.cluster.membership import ClusterMembership
    from qosweb.server.process.node import Node
    from qosweb.server.proxy.upstream_server import UpstreamServer

QUEUE_SHOWN_MAX = 1_000
BLOCKS_SHOWN_MAX = 20
DIGEST_WAITING_MAX = 1_000
RULES_MAX = 1_000


def status_of(node: Node) -> dict[str, object]:
    accounts, engine = node.admission.accounts, node.admission.engine
    rules = [] if engine is None else _rules(engine)
    got_bps = [] if engine is None else engine.recent_starts_bps()
    return {
        "name": node.name,
        "version": VERSION,
        "since": node.started_at,
        "draining": node.draining,
        "root": None if node.settings.root is None else str(node.settings.root.resolve()),
        "upstreams": {one.name: _upstream(one, engine) for one in node.upstreams.servers},
        "upstreams_disagree": node.upstream_votes.disagreements,
        "resources": [asdict(one) for one in node.resources()],
        "connections": {"open": len(node.connections), **asdict(node.connections.counts)},
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
            "hash": accounts.classifier.policy_hash,
            "file": str(node.settings.spec or ""),
            "in_force": [] if engine is None else _in_force(engine),
            "rules": rules,
            "guarantees": [asdict(one) for one in rows_of([one.name for one in accounts.accounts], rules)],
        },
        "blocks": listed(node.blocking, BLOCKS_SHOWN_MAX),
        "releases": None if node.releases is None else node.releases.listed(),
        "classes": {account.name: _class(account, node, got_bps) for account in accounts.accounts},
    }


def _upstream(server: UpstreamServer, engine: Engine | None) -> dict[str, object]:
    is_shared = engine is not None and server.settings.scope == "cluster"
    votes = votes_on(engine.machine.pipes, server.name) if engine is not None and is_shared else {}
    return {
        "url": server.settings.url,
        "scope": server.settings.scope,
        "weight": server.settings.weight,
        "health": server.health.state.value,
        "reason": server.health.reason,
        "votes": {pid.name: one.vote.name.lower() for pid, one in votes.items()},
        "ejections": server.health.ejections,
        "in_service": server.in_service,
        "waiting": server.waiting,
        "connections": server.connections,
        "requests": server.requests,
        "failures": server.failures,
    }


def _in_force(engine: Engine) -> list[str]:
    """The constraints by which the engine decides now, in canonical form."""
    machine = engine.machine
    return [machine.policy.model.constraints[number].text for number in machine.scheduler.bound.in_force]


def _rules(engine: Engine) -> list[dict[str, object]]:
    """The guarantees in force, as written, each with the classes that it was split into; at most RULES_MAX."""
    machine = engine.machine
    model = machine.policy.model
    rules = [(model.constraints[number], classes) for number, classes in machine.scheduler.bound.in_force.items()]
    return [
        {"text": rule.text, "classes": [model.classes[one].name for one in classes]}
        for rule, classes in islice(((rule, classes) for rule, classes in rules if classes), RULES_MAX)
    ]


def missing_of(node: Node) -> str:
    """Why this node does not decide with its cluster; empty if it does, or is in no cluster."""
    membership = node.membership
    if membership is None:
        return ""
    if membership.error is not None:
        return f"out of the cluster until it is started again: {membership.error}"
    if node.primary is not None:
        return ""
    if membership.is_disk_full:
        return "waits for its disk, which is full"
    return "state transfer" if membership.is_catching_up else "not in a primary view"


def scope_of(node: Node) -> str:
    """The scope of decisions: ``cluster``, ``local`` (cut off from the cluster), or ``alone`` (in no cluster)."""
    if node.membership is None:
        return "alone"
    return "cluster" if node.primary is not None else "local"


def members_of(node: Node) -> list[str]:
    """Names of the nodes that decide together, as far as this node knows."""
    return [node.name] if node.primary is None else [member.name for member in node.primary.members]


def cluster_of(node: Node) -> dict[str, object]:
    view = node.primary
    members = members_of(node)
    engine = node.admission.engine
    return {
        "scope": scope_of(node),
        "primary": scope_of(node) != "local",
        "missing": missing_of(node),
        "primary_since": node.primary_since,
        "view": None if view is None else {"id": str(view.id), "epoch": view.id.epoch},
        "members": members,
        "group": None if node.membership is None else _group(node.membership, engine),
        "can_lose": (len(members) - 1) // 2,
        "time_ms": None if engine is None else engine.time_ms,
        "capacity": None
        if engine is None
        else {
            "bytes_per_s": engine.report.capacity_bps,
            "cluster_bytes_per_s": engine.machine.capacity_bps,
            "set_by_hand": node.settings.capacity is not None,
            "line": _line(node),
            "processor": _processor(node),
        },
        "nodes": {} if engine is None else _nodes(engine),
        "live": {name: _live(one) for name, one in sorted(node.live.nodes.items())},
        "tickets": dict(node.admission.redirects.verdicts),
    }


def _processor(node: Node) -> dict[str, object] | None:
    """The node's processor; None with `--find-processor no`, or without a specification."""
    processor = node.admission.processor
    if processor is None:
        return None
    return {
        "state": "full" if processor.is_full else "free",
        "waiting": processor.order.waiting,
        "bytes_per_s": int(processor.law.capacity_per_s) or None,
        "times_full": processor.switches,
    }


def _line(node: Node) -> dict[str, object] | None:
    """The outgoing line, with `--find-line`."""
    line = node.line
    if line is None:
        return None
    if not line.is_available:
        return {"state": "unavailable", "reason": "this system has no TCP_INFO, or not all of its figures"}
    law = line.law
    return {
        "state": law.state.value,
        "bytes_per_s": None if law.rate == inf else int(law.rate),
        "queue_ms": round(law.queue_s * 1000, 1),
        "released_for_others": law.releases,
    }


def _group(membership: ClusterMembership, engine: Engine | None) -> dict[str, object]:
    """The digest covers the replicated state: equal on all nodes at the same position of the order."""
    waiting = 0 if engine is None else sum(one.waiting for one in engine.replicated.classes)
    return {
        "cluster_id": membership.group.options.cluster,
        "recoveries": [
            {"at": one.at, "without": [process.name for process in one.given_up], "cluster_id": one.new_cluster_id}
            for one in membership.replica.recoveries
        ],
        "addresses": list(membership.group.addresses),
        "position": membership.replica.position,
        "digest": membership.replica.digest() if waiting <= DIGEST_WAITING_MAX else None,  # a long queue takes long
    }


def _live(one: LiveNode) -> dict[str, object]:
    """The last figures of each node. Unlike ``nodes``, they need no primary view."""
    return {"age_s": round(one.age_s, 3), **msgspec.to_builtins(one.figures)}


def _nodes(engine: Engine) -> dict[str, object]:
    pipes = engine.machine.pipes
    wall_ms = median_wall_ms(pipes.values())
    return {pid.name: _node(pipe, wall_ms) for pid, pipe in pipes.items()}


def _node(pipe: Pipe, wall_ms: int) -> dict[str, object]:
    return {
        "url": pipe.url,
        "capacity_bytes_per_s": pipe.capacity_bps,
        "used_bytes_per_s": pipe.used_bps,
        "channels": len(pipe.channels),
        "waiting": len(pipe.waiting),
        "load": pipe.load_ppm / PPM,
        "clock_ahead_s": round((pipe.wall_ms - wall_ms) / 1000, 1) if pipe.capacity_bps else None,
    }


def _class(account: ClassAccount, node: Node, got_bps: list[int]) -> dict[str, object]:
    found: dict[str, object] = {
        "in_service": account.in_service,
        "streams": account.streams,
        **{key: count for key, count in account.by_decision().items() if key in ("served", "denied", "failed")},
        "expired": account.decisions["expired"],
        "redirected": account.decisions["redirected"],
        "bytes": account.bytes_sent,
        "denials": dict(account.reasons),
    }
    if node.admission.engine is not None:
        found |= _of_cluster(node.admission.engine, account.number, got_bps)
    return found


def _of_cluster(engine: Engine, number: int, got_bps: list[int]) -> dict[str, object]:
    machine = engine.machine
    state = machine.classes[number]
    always = machine.scheduler.bound.always[number]
    return {
        "share": {
            "promised": None if always else machine.promised[number] / PPM,
            "now": machine.scheduler.shares[number] / PPM,
            "held": held_share(got_bps, number),
            "of_capacity": round(got_bps[number] / machine.capacity_bps, 4) if machine.capacity_bps else 0.0,
        },
        "always": always,
        "waiting": state.waiting,
        "cluster": {
            "started": state.totals.started,
            "started_bytes": state.totals.started_cost,
            "denied": state.totals.denied,
            "cancelled": state.totals.cancelled,
            "redirected": state.totals.redirected,
            "offered_bytes_per_s": engine.recent_bps(state.came),
            "started_bytes_per_s": got_bps[number],
        },
    }


def held_share(got_bps: list[int], number: int) -> float:
    """The class's share of the bytes recently started in the whole cluster."""
    return round(got_bps[number] / sum(got_bps), 4) if any(got_bps) else 0.0


def queue_of(node: Node) -> dict[str, object]:
    """The global queue as this replica sees it: oldest first in each class, at most ``shown_max`` entries in all."""
    engine = node.admission.engine
    if engine is None:
        return {"waiting": 0, "time_ms": None, "shown_max": QUEUE_SHOWN_MAX, "classes": {}}
    machine = engine.machine
    waiting = [one for one in machine.classes if one.waiting]
    each = max(1, QUEUE_SHOWN_MAX // max(1, len(waiting)))
    return {
        "waiting": sum(one.waiting for one in waiting),
        "time_ms": machine.time_ms,
        "shown_max": QUEUE_SHOWN_MAX,
        "classes": {one.name: _waiters(one, machine.time_ms, each) for one in waiting[:QUEUE_SHOWN_MAX]},
    }


def _waiters(one: ClassState, now_ms: int, shown_max: int) -> dict[str, object]:
    entries = sorted(
        (waiter.seq, owner.name, number, waiter)
        for owner, queue in one.queues.items()
        for number, waiter in islice(queue.items(), shown_max)
    )[:shown_max]
    return {
        "waiting": one.waiting,
        "waiting_bytes": one.waiting_cost,
        "entries": [
            {"node": owner, "number": number, "bytes": waiter.cost, "waits_ms": now_ms - waiter.at_ms}
            for _, owner, number, waiter in entries
        ],
    }
