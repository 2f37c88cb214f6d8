"""Bounded memory: a process holds as much after a million entries as after ten thousand."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from cluster.settings import Settings
from tests.cluster.ideal import Ideal


def held(thing: Any) -> int:
    """Bytes of all objects reachable from here, without those that all processes share."""
    seen: set[int] = set()
    waiting, total = [thing], 0
    while waiting:
        item = waiting.pop()
        if id(item) in seen or isinstance(item, ModuleType | type) or callable(item):
            continue
        seen.add(id(item))
        total += sys.getsizeof(item)
        if isinstance(item, dict):
            waiting += [*item.keys(), *item.values()]
        elif hasattr(item, "__iter__") and not isinstance(item, str | bytes):
            waiting += list(item)
        waiting += list(getattr(item, "__dict__", {}).values())
        for kind in type(item).__mro__:
            waiting += [getattr(item, slot) for slot in getattr(kind, "__slots__", ()) if hasattr(item, slot)]
    return total


def order(group: Ideal, entries: int) -> None:
    processes = list(group.processes.values())
    for i in range(entries // 250):
        processes[i % 3].submit_all(group.now, [b"%d" % i] * 250)
        group.settle()
        if i % 100 == 0:
            group.pass_time(0.05)


def most_held(group: Ideal) -> tuple[int, int]:
    """The maximum that a process and a disk hold while they fill and are emptied again."""
    most = [0, 0]
    for _ in range(10):
        order(group, 500)
        most[0] = max(most[0], *(held(process) for process in group.processes.values()))
        most[1] = max(most[1], *(held(image) for image in group.images.values()))
    return most[0], most[1]


def test_a_million_entries_leave_no_more_than_ten_thousand_did() -> None:
    group = Ideal("abc", Settings(snapshot_every=2_000), disk=True)
    order(group, 10_000)
    process, disk = most_held(group)
    order(group, 1_000_000)
    process_after, disk_after = most_held(group)
    assert [machine.count for machine in group.machines.values()] == [1_020_000] * 3
    assert process_after < 1.5 * process
    assert disk_after < 1.5 * disk
