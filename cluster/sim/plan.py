"""Run plan of the simulator: settings, network, submissions and fault schedule, all drawn from one seed.

Swarm testing: every seed uses only a few kinds of faults, its own settings and its own network, so that common faults
do not mask a rare combination. Any subset of a plan is a valid plan.
Above: run, shrink.  Below: faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.settings import Settings
from cluster.sim.faults import (
    Ambush,
    AnyFault,
    BrokenConnection,
    ClockJump,
    Crash,
    CrashInside,
    Cuts,
    DiskLoss,
    FlakyConnection,
    Join,
    Leave,
    Partition,
    Pause,
    SecondConnection,
    SimpleFault,
    SlowDisk,
    SlowLink,
    SlowNode,
    TotalCrash,
)  # fmt: skip
from cluster.sim.network import Delays
from cluster.sim.seeded_random import SeededRandom

if TYPE_CHECKING:
    from collections.abc import Callable

NAMES = "abcdefg"
FALL_EVERY = 2.5  # seconds between two permanent losses: long enough that each is detected
CODED_SHARE = 0.1  # share of runs that encode and decode every frame and record
AMBUSH_ACTIONS = (
    "StartChange", "MembershipView", "GcsView", "Block", "VsNewView", "DvsNewView", "DvsRegister", "Established",
    "Confirm", "CatchUp", "Recovered", "StateDigest", "Broadcast",
)  # fmt: skip
INTERIM_AMBUSH_ACTIONS = ("InterimView", "InterimRefresh", "InterimApplied", "InterimRequest", "InterimLoaded")
DATA_AMBUSH_ACTIONS = ("DataQuery", "DataRequest", "DataReply")


class Submission(msgspec.Struct, frozen=True):
    """An entry to submit at a time and node."""

    at: float
    node: str
    body: bytes


class Operation(msgspec.Struct, frozen=True):
    """An operation to request from the interim service at a time and node."""

    at: float
    node: str
    body: bytes


class RunPlan(msgspec.Struct, frozen=True):
    """Everything that determines a run."""

    seed: int
    names: str  # all nodes of the run; the first one founds the group
    first: str  # nodes that start at time 0
    settings: Settings
    delays: Delays
    coded: bool
    lasts: float  # duration of the fault phase in seconds
    faults: tuple[AnyFault, ...]
    submissions: tuple[Submission, ...]
    operations: tuple[Operation, ...] = ()  # with operations, the processes have the interim service

    @property
    def steps(self) -> int:
        return len(self.faults) + len(self.submissions) + len(self.operations)

    def __str__(self) -> str:
        lines = [
            f"seed {self.seed}: {len(self.names)} nodes, {self.first} from the start, {self.lasts:.1f} s of faults"
        ]
        steps: list[tuple[float, str]] = [(fault.at, str(fault)) for fault in self.faults]
        steps += [(s.at, f"{s.node} submits {s.body.decode()}") for s in self.submissions]
        steps += [(s.at, f"{s.node} requests {s.body.decode()}") for s in self.operations]
        lines += [f"  {at:8.4f}  {text}" for at, text in sorted(steps)]
        return "\n".join(lines)


def make_plan(
    seed: int, nodes_min: int = 3, nodes_max: int = 7, *, interim: bool = False, ambushes: tuple[str, ...] = ()
) -> RunPlan:
    """Draw the plan of a seed. `interim`: the processes have the interim service, and clients that use it.

    `ambushes`: actions at which faults may strike, besides those of the stack.
    """
    chance = SeededRandom(seed).fork("plan")
    names = NAMES[: nodes_min + chance.below(nodes_max - nodes_min + 1)]
    late = chance.below(2) if len(names) > 3 else 0
    first = names[: len(names) - late]
    lasts = chance.between(5.0, 12.0)
    ambushes = (*AMBUSH_ACTIONS, *(INTERIM_AMBUSH_ACTIONS if interim else ()), *ambushes)
    faults = _Faults(chance.fork("faults"), names, first, lasts, ambushes).make()
    settings = _settings(chance.fork("settings"), len(names))
    return RunPlan(
        seed=seed,
        names=names,
        first=first,
        settings=_interim_settings(chance.fork("interim settings"), settings) if interim else settings,
        delays=_delays(chance.fork("delays")),
        coded=chance.hits(CODED_SHARE),
        lasts=max([lasts, *(fault.at + FALL_EVERY for fault in faults if fault.at > lasts)]),
        faults=faults,
        submissions=_submissions(chance.fork("submissions"), names, lasts),
        operations=_operations(chance.fork("operations"), names, lasts) if interim else (),
    )


def _interim_settings(chance: SeededRandom, settings: Settings) -> Settings:
    return msgspec.structs.replace(
        settings,
        interim_window=chance.choice((1, 4, 32)),
        interim_chunk_bytes=chance.choice((8, 32, 64 * 1024)),
        interim_chunks_ahead=chance.choice((1, 2, 8) if settings.link_len_max > 100 else (1,)),
        interim_journal_bytes=chance.choice((0, 64, 64 * 1024)),
    )


def _operations(chance: SeededRandom, names: str, lasts: float) -> tuple[Operation, ...]:
    """Steady operations, bursts at one node, and operations of all nodes at the same moment."""
    found: list[Operation] = []
    for _ in range(chance.choice((10, 25, 50))):
        time = chance.between(0.0, lasts)
        nodes = [*names] if chance.hits(0.15) else [chance.choice(names)] * (chance.below(6) if chance.hits(0.2) else 1)
        found += [Operation(time, node, b"%s+%d" % (node.encode(), len(found) + i)) for i, node in enumerate(nodes)]
    return tuple(sorted(found, key=lambda operation: (operation.at, operation.body)))


def _settings(chance: SeededRandom, count: int) -> Settings:
    return Settings(
        heartbeat=0.25,
        suspect_min=0.8,
        suspect_max=2.0,
        retry=0.5,
        order="sequencer" if chance.hits(0.25) else "atop",
        window=chance.choice((2, 8, 32)),
        stable_step=chance.choice((1, 8, 64)),
        link_len_max=chance.choice((50, 1_000, 10_000)),
        atop_window_factor=chance.choice((2, 5, 20)),
        batch_len_max=chance.choice((1, 4, 256)),
        snapshot_every=chance.choice((4 * count, 10 * count, 1_000)),
        supply_bytes=chance.choice((64, 1_024, 256 * 1_024)),
        report_len_max=chance.choice((1, 4, 32)),
    )


def _delays(chance: SeededRandom) -> Delays:
    near = Delays(base=0.0005, jitter=0.0005, notice_max=0.01)
    far = Delays(base=0.02, jitter=0.01, spike_share=0.01, spike=0.1, notice_max=0.1)
    wild = Delays(base=0.001, jitter=0.02, spike_share=0.03, spike=0.3, notice_max=0.5, dial=0.02, give_up_min=0.2)
    return chance.choice((near, near, far, wild))


def _submissions(chance: SeededRandom, names: str, lasts: float) -> tuple[Submission, ...]:
    """Steady submissions and bursts; one node may submit more than the others."""
    count = chance.choice((10, 30, 60, 150))
    loud = chance.choice(names) if chance.hits(0.3) else ""
    found: list[Submission] = []
    time = 0.0
    while len(found) < count:
        time = chance.between(0.0, lasts)
        burst = 1 + chance.below(12) if chance.hits(0.15) else 1
        node = loud if loud and chance.hits(0.7) else chance.choice(names)
        for _ in range(burst):
            found.append(Submission(time, node, b"%s%d" % (node.encode(), len(found))))
    return tuple(sorted(found, key=lambda submission: (submission.at, submission.body)))


class _Faults:
    """Draws the fault schedule of one run."""

    def __init__(
        self, chance: SeededRandom, names: str, first: str, lasts: float, ambushes: tuple[str, ...] = AMBUSH_ACTIONS
    ) -> None:
        self.chance = chance
        self.ambushes = ambushes
        self.names = names
        self.first = first
        self.lasts = lasts
        self.for_ever = 0  # nodes lost for good; bounded
        kinds: tuple[Callable[[float], SimpleFault], ...] = (
            self.partition, self.cuts, self.broken, self.flaky, self.slow_link, self.pause, self.slow_node,
            self.clock_jump, self.crash, self.crash_inside, self.disk_loss, self.total_crash, self.leave,
        )  # fmt: skip
        self.kinds = chance.sample(kinds, 2 + chance.below(5))

    def make(self) -> tuple[AnyFault, ...]:
        chance = self.chance
        found: list[AnyFault] = [
            Join(chance.between(0.0, self.lasts), 0.0, name) for name in self.names if name not in self.first
        ]
        if chance.hits(0.1):
            found += self.falling()
        mean = chance.choice((0.3, 1.0, 2.5))
        time = chance.exponential(2.0)
        while time < self.lasts:
            fault = chance.choice(self.kinds)(time)
            if chance.hits(0.25):
                found.append(Ambush(time, 0.0, chance.choice(self.ambushes), self.sharpen(fault)))
            else:
                found.append(fault)
            time += chance.exponential(mean)
        found += self.meetings(chance.fork("meetings"))
        found += self.slow_disks(chance.fork("slow disks"))
        return tuple(sorted(found, key=lambda fault: fault.at))

    def sharpen(self, fault: SimpleFault) -> SimpleFault:
        """Make a crash in an ambush usually hit the process that triggered it."""
        if isinstance(fault, Crash | Pause | SlowNode) and self.chance.hits(0.7):
            return CrashInside(fault.at, fault.lasts, "", self.chance.below(6))
        return fault

    def some_time(self) -> float:
        """A duration that is short, similar or long compared with the failure detector's timeout."""
        return self.chance.exponential(self.chance.choice((0.05, 0.8, 3.0)))

    def pair(self) -> tuple[str, str]:
        one, other = self.chance.sample(self.names, 2)
        return one, other

    def one(self) -> str:
        return self.chance.choice(self.names)

    def partition(self, at: float) -> SimpleFault:
        groups: list[list[str]] = [[] for _ in range(2 if self.chance.hits(0.8) else 3)]
        for name in self.names:
            self.chance.choice(groups).append(name)
        return Partition(at, self.some_time(), tuple("".join(group) for group in groups if group))

    def cuts(self, at: float) -> SimpleFault:
        pairs = {self.pair() for _ in range(1 + self.chance.below(4))}
        return Cuts(at, self.some_time(), tuple(sorted(pairs)))

    def broken(self, at: float) -> SimpleFault:
        return BrokenConnection(at, 0.0, *self.pair())

    def flaky(self, at: float) -> SimpleFault:
        return FlakyConnection(at, self.some_time(), *self.pair(), every=self.chance.between(0.02, 0.3))

    def slow_link(self, at: float) -> SimpleFault:
        return SlowLink(at, self.some_time(), *self.pair(), factor=self.chance.choice((5.0, 50.0, 200.0)))

    def pause(self, at: float) -> SimpleFault:
        return Pause(at, self.some_time(), self.one())

    def slow_node(self, at: float) -> SimpleFault:
        cost = self.chance.choice((0.0, 0.001, 0.005))
        return SlowNode(at, self.some_time(), self.one(), cost, self.chance.choice((0.005, 0.02)))

    def clock_jump(self, at: float) -> SimpleFault:
        seconds = self.chance.choice((-3.0, -0.5, 0.5, 1.0, 10.0, 3600.0))
        return ClockJump(at, 0.0, self.one(), seconds)

    def crash(self, at: float) -> SimpleFault:
        return Crash(at, self.some_time(), self.one(), self.chance.hits(0.5))

    def crash_inside(self, at: float) -> SimpleFault:
        return CrashInside(at, 0.1 + self.some_time(), self.one(), self.chance.below(12))

    def disk_loss(self, at: float) -> SimpleFault:
        return DiskLoss(at, self.some_time(), self.one()) if self._may_go() else self.crash(at)

    def leave(self, at: float) -> SimpleFault:
        return Leave(at, 0.0, self.one()) if self._may_go() else self.pause(at)

    def _may_go(self) -> bool:
        self.for_ever += 1
        return self.for_ever <= (len(self.first) - 1) // 2

    def total_crash(self, at: float) -> SimpleFault:
        order = list(self.names)
        self.chance.shuffle(order)
        return TotalCrash(at, self.some_time(), "".join(order), self.chance.exponential(0.3))

    def meetings(self, chance: SeededRandom) -> list[AnyFault]:
        """Pairs that dial each other at the same time, in every fourth run."""
        if not chance.hits(0.25):
            return []
        found: list[AnyFault] = []
        for _ in range(1 + chance.below(6)):
            one, other = chance.sample(self.names, 2)
            meeting = SecondConnection(chance.between(0.0, self.lasts), 0.0, one, other)
            if chance.hits(0.5):
                found.append(Ambush(meeting.at, 0.0, chance.choice(self.ambushes), meeting))
            else:
                found.append(meeting)
        return found

    def slow_disks(self, chance: SeededRandom) -> list[AnyFault]:
        """Slow disks for a while in every fourth run, often with a crash of one or all processes meanwhile."""
        if not chance.hits(0.25):
            return []
        found: list[AnyFault] = []
        for _ in range(1 + chance.below(6)):
            node, at, lasts = chance.choice(self.names), chance.between(0.5, self.lasts), chance.between(0.1, 2.0)
            found.append(SlowDisk(at, lasts, node, chance.choice((0.001, 0.01, 0.1))))
            down = chance.exponential(0.5)
            if chance.hits(0.4):
                found.append(Crash(chance.between(at, at + lasts), down, node, chance.hits(0.5)))
            elif chance.hits(0.4):
                order = list(self.names)
                chance.shuffle(order)
                crash = TotalCrash(chance.between(at, at + lasts), down, "".join(order), chance.exponential(0.3))
                found.append(crash)
        return found

    def falling(self) -> list[AnyFault]:
        """Lose nodes one by one, each detected before the next, until two remain."""
        order = self.chance.sample(self.first, len(self.first) - 2)
        start = 1.0 + self.chance.exponential(1.0)
        return [Crash(start + FALL_EVERY * i, 8.0, name, self.chance.hits(0.5)) for i, name in enumerate(order)]
