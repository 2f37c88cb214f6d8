"""View changes in a stable network take detection, one message latency and block time (thesis, corollary 9.5.1)."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import pytest

from cluster.names import ProcessId
from cluster.settings import DEFAULT
from cluster.sim.mutant_catalogue import MUTANTS
from cluster.sim.network import DIAL_BACKOFF_MAX, FIXED
from cluster.sim.spec_judge import joint
from cluster.sim.world import World
from cluster.specs.checkers import Checkers
from cluster.specs.spec import Violation
from cluster.stack import Process

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action
    from cluster.messages import Ordered
    from cluster.names import View
    from cluster.sim.node import ProcessFactory
    from cluster.view_order import ViewOrder

# A process learns of a broken connection within `notice_max`, of silence by the detector, of a leaving member by its
# last message. A newcomer is dialled and then announced with the next heartbeats; after a long absence it is dialled
# less often.
NOTICED = FIXED.notice_max
SILENT = DEFAULT.suspect_max
SAID = FIXED.base
JOINED = FIXED.dial * 2 + DEFAULT.heartbeat * 2
MERGED = FIXED.dial * 1.5 * DIAL_BACKOFF_MAX + DEFAULT.settle + DEFAULT.heartbeat * 2

BLOCK_TIME = 0.03


class Hesitant:
    """Stands between the end-point and the view order, and passes `block` on after `BLOCK_TIME`."""

    def __init__(self, process: Process, order: ViewOrder) -> None:
        self._around = process.context
        self._order = order
        self.due = inf

    def block(self) -> None:
        self.due = self._around.now + BLOCK_TIME

    def answer(self) -> None:
        self.due = inf
        self._order.block()

    def deliver(self, sender: ProcessId, body: Ordered) -> None:
        self._order.deliver(sender, body)

    def view(self, view: View, transitional: tuple[ProcessId, ...]) -> None:
        self._order.view(view, transitional)


class SlowToBlock(Process):
    """A process whose client takes time to stop sending."""

    __slots__ = ("hesitant",)

    def __init__(self, *parts: Any, **more: Any) -> None:
        more["taps"] = {"endpoint": self._hesitate}
        super().__init__(*parts, **more)

    def _hesitate(self, _process: Process, order: ViewOrder) -> Hesitant:
        self.hesitant = Hesitant(self, order)
        return self.hesitant

    def tick(self, now: float) -> None:
        super().tick(now)
        if self.hesitant.due <= now:
            self.hesitant.answer()

    def next_deadline(self) -> float:
        return min(super().next_deadline(), self.hesitant.due)


class Watch:
    def __init__(self, make: ProcessFactory = Process) -> None:
        self.checkers = Checkers(ProcessId("a"))
        self.world = World(make, seed=1, watcher=self)

    def step(self, process: ProcessId, action: Action) -> None:
        self.checkers.observe(process, action, self.world.events.now)

    def after(self, world: World, process: ProcessId) -> None:
        self.checkers.after(process, joint(world))

    def change(self, event: Callable[[World], object]) -> float:
        """Makes the change while messages are in flight. Returns its time, once the view change is over."""
        for number in range(20):
            self.world.broadcast("abcd"[number % 4], b"%d" % number)
        self.world.run(0.01)
        last_ge = self.world.events.now
        event(self.world)
        self.world.settle()
        return last_ge

    def judge(self, last_ge: float, group: str, detection: float, block_time: float = 0.0) -> float:
        members = [ProcessId(name) for name in group]
        return self.checkers.timing.judge(
            last_ge, members, detection=detection, latency=FIXED.base, block_time=block_time
        )


CHANGES = pytest.mark.parametrize(
    ("event", "groups", "detection"),
    [
        (lambda world: world.crash("d"), ("abc",), NOTICED),
        (lambda world: world.crash("d", silent=True), ("abc",), SILENT),
        (lambda world: world.partition("ab", "cd"), ("ab", "cd"), SILENT),
        (lambda world: world.join("e"), ("abcde",), JOINED),
        (lambda world: world.leave("d"), ("abc",), SAID),
    ],
    ids=["crash", "silent crash", "partition", "join", "leave"],
)


@CHANGES
def test_a_change_of_view_is_in_time(
    event: Callable[[World], object], groups: tuple[str, ...], detection: float
) -> None:
    watch = Watch()
    watch.world.start("abcd").settle()
    last_ge = watch.change(event)
    for group in groups:
        watch.judge(last_ge, group, detection)


@pytest.mark.parametrize("sides", [("ab", "cd"), ("abc", "d"), ("a", "bc", "d")], ids="|".join)
def test_a_merge_is_in_time(sides: tuple[str, ...]) -> None:
    """The partitions lasted until all connections were given up."""
    watch = Watch()
    watch.world.start("abcd").settle().partition(*sides).settle().run(FIXED.give_up_max)
    last_ge = watch.change(World.heal)
    watch.judge(last_ge, "abcd", MERGED)


@CHANGES
def test_a_slow_block_ok_delays_the_view_by_block_time_only(
    event: Callable[[World], object], groups: tuple[str, ...], detection: float
) -> None:
    watch = Watch(SlowToBlock)
    watch.world.start("abcd").settle()
    last_ge = watch.change(event)
    for group in groups:
        assert watch.judge(last_ge, group, detection, BLOCK_TIME) > BLOCK_TIME
        with pytest.raises(Violation, match=r"9\.3\.2"):
            watch.judge(last_ge, group, detection)


def test_a_merge_with_slow_clients_is_in_time() -> None:
    watch = Watch(SlowToBlock)
    watch.world.start("abcd").settle().partition("ab", "cd").settle().run(FIXED.give_up_max)
    last_ge = watch.change(World.heal)
    assert watch.judge(last_ge, "abcd", MERGED, BLOCK_TIME) > BLOCK_TIME
    with pytest.raises(Violation, match=r"9\.3\.2"):
        watch.judge(last_ge, "abcd", MERGED)


def test_a_cut_before_block_ok_is_detected() -> None:
    undo = next(mutant for mutant in MUTANTS if mutant.name == "no block").apply()
    try:
        with pytest.raises(Violation, match=r"7\.4\.2"):
            Watch(SlowToBlock).world.start("abcd")
    finally:
        undo()
