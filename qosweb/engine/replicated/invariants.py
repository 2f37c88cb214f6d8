"""Invariants of the state machine after every entry. Only tests and simulations check them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from qosweb.engine.replicated.state_machine import QosStateMachine


def violated_invariants(machine: QosStateMachine) -> list[str]:
    """A sentence for each violated invariant."""
    found: list[str] = []
    pipes, classes = machine.pipes, machine.classes
    holders: dict[object, object] = {}
    for pid, pipe in pipes.items():
        rates = sum(one.rate_bps for one in pipe.channels.values())
        ahead = sum(one.ahead_bps for one in pipe.channels.values())
        if pipe.used_bps != rates or pipe.ahead_bps != ahead:
            found.append(f"{pid} counts {pipe.used_bps} and {pipe.ahead_bps} bps for channels of {rates} and {ahead}")
        for key in pipe.channels:
            if key in holders:
                found.append(f"request {key} holds a channel at {pid} and at {holders[key]}")
            holders[key] = pid
        for number, class_number in pipe.waiting.items():
            if number not in classes[class_number].queues.get(pid, ()):
                found.append(f"request {number} of {pid} waits in no queue")
            if (pid, number) in pipe.channels:
                found.append(f"request {number} of {pid} waits and runs")
    for at, one in enumerate(classes):
        entries = [(owner, number, waiter) for owner, queue in one.queues.items() for number, waiter in queue.items()]
        if one.waiting != len(entries) or one.waiting_cost != sum(waiter.cost for *_, waiter in entries):
            found.append(f"class {one.name} counts {one.waiting} waiting requests, but there are {len(entries)}")
        for owner, number, _ in entries:
            if owner not in pipes or pipes[owner].waiting.get(number) != at:
                found.append(f"request {number} of {owner} waits in {one.name}, but is missing in its pipe")
        for owner, queue in one.queues.items():
            seqs = [waiter.seq for waiter in queue.values()]
            if not queue or seqs != sorted(seqs):
                found.append(f"the queue of {one.name} at {owner} is empty or out of order")
    return found + _idle(machine) + _slots(machine)


def _idle(machine: QosStateMachine) -> list[str]:
    """No pipe has a free channel while a request waits that could use it."""
    scheduler = machine.scheduler
    roomy = [pid for pid, pipe in machine.pipes.items() if pipe.has_free_channel]
    return [
        f"{one.name} waits while {pid} has room"
        for at, one in enumerate(machine.classes)
        for pid in roomy
        if one.waiting and (scheduler.may_redirect or pid in one.queues) and scheduler.has_tokens(at, machine.time_ms)
    ]


def _slots(machine: QosStateMachine) -> list[str]:
    """Each slot has one holder, which is a member and does not wait; no slot is free while a request waits."""
    found: list[str] = []
    table, pipes, now_ms = machine.servers, machine.pipes, machine.time_ms
    holders: dict[object, str] = {}
    for name, server in table.servers.items():
        if server.always != sum(use.is_always for use in server.uses.values()):
            found.append(f"{name} counts {server.always} always-available requests")
        running = Counter(use.number for use in server.uses.values())
        if running != +Counter(server.running):
            found.append(f"{name} counts {server.running} slots by class, but {dict(running)} are held")
        found += [f"slots of {name} are reserved for too long" for _, ms in server.reserved.values() if ms <= now_ms]
        for key in server.uses:
            if key in holders:
                found.append(f"request {key} holds a slot of {name} and of {holders[key]}")
            if key[0] not in pipes:
                found.append(f"request {key} of a node that left holds a slot of {name}")
            holders[key] = name
    for pool in table.pools.values():
        scheduler = pool.scheduler
        found += [f"request {key} waits and holds a slot of {holders[key]}" for key in pool.waiting if key in holders]
        if sum(one.waiting for one in pool.classes) != len(pool.waiting):
            found.append(f"pool {pool.key} counts other waiting requests than its queues")
        roomy = [name for name, server in scheduler.places.items() if server.has_room]
        if any(server.has_room_for_always for server in scheduler.places.values()):
            always = [one for one, is_always in zip(pool.classes, scheduler.bound.always, strict=True) if is_always]
            found += [f"{one.name} waits for {pool.key} though it is always available" for one in always if one.waiting]
        found += [
            f"{one.name} waits while {name} has a free slot"
            for at, one in enumerate(pool.classes)
            for name in roomy
            if one.waiting and scheduler.has_tokens(at, machine.time_ms)
        ]
    return found
