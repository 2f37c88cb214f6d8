"""Changes of view in a quiet world take detection, one message latency and block time (thesis, corollary 9.5.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.names import ProcessId
from cluster.settings import DEFAULT
from cluster.sim.network import FIXED
from cluster.sim.world import World
from cluster.specs.checkers import Checkers
from cluster.stack import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action

# An end hears of a broken connection within `notice_max`, of silence by the detector; a newcomer is dialled, greeted
# and heard of with the next heartbeats.
NOTICED = FIXED.notice_max
SILENT = DEFAULT.suspect_max
JOINED = FIXED.dial * 2 + DEFAULT.heartbeat * 2


class Watch:
    def __init__(self) -> None:
        self.checkers = Checkers(ProcessId("a"))
        self.world = World(Process, seed=1, watcher=self)

    def step(self, process: ProcessId, action: Action) -> None:
        self.checkers.observe(process, action, self.world.events.now)

    def after(self, world: World, process: ProcessId) -> None: ...


@pytest.mark.parametrize(
    ("event", "groups", "detection"),
    [
        (lambda world: world.crash("d"), ("abc",), NOTICED),
        (lambda world: world.crash("d", silent=True), ("abc",), SILENT),
        (lambda world: world.partition("ab", "cd"), ("ab", "cd"), SILENT),
        (lambda world: world.join("e"), ("abcde",), JOINED),
    ],
    ids=["crash", "silent crash", "partition", "join"],
)
def test_a_change_of_view_is_in_time(
    event: Callable[[World], object], groups: tuple[str, ...], detection: float
) -> None:
    watch = Watch()
    world = watch.world.start("abcd").settle()
    for number in range(20):
        world.broadcast("abcd"[number % 4], b"%d" % number)
    world.run(0.01)
    last_ge = world.events.now
    event(world)
    world.settle()
    for group in groups:
        members = [ProcessId(name) for name in group]
        watch.checkers.timing.judge(last_ge, members, detection=detection, latency=FIXED.base, block_time=0.0)
