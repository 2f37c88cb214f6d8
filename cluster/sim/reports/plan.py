"""Run plan of reports in the simulator: the faults of the stack, slow receivers, narrow links and publications."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.reports.settings import ReportSettings
from cluster.sim.faults import AnyFault, Crash, Partition
from cluster.sim.plan import RunPlan, Submission, make_plan
from cluster.sim.reports.reporting_process import REPORT, Pace
from cluster.sim.seeded_random import SeededRandom

if TYPE_CHECKING:
    from collections.abc import Mapping

KEPT_SUBMISSIONS = 5  # of the total order: it is tested elsewhere


class SlowReceiver(msgspec.Struct, frozen=True):
    """The application of a node needs time for every report."""

    at: float
    lasts: float
    node: str
    consume_s: float

    def begin(self, paces: Mapping[str, Pace]) -> None:
        paces[self.node].consume_s = self.consume_s

    def end(self, paces: Mapping[str, Pace]) -> None:
        paces[self.node].consume_s = 0.0


class NarrowLink(msgspec.Struct, frozen=True):
    """The streams from one node to another carry few bytes per second."""

    at: float
    lasts: float
    source: str
    destination: str
    bytes_per_s: float

    def begin(self, paces: Mapping[str, Pace]) -> None:
        paces[self.source].bytes_per_s[self.destination] = self.bytes_per_s

    def end(self, paces: Mapping[str, Pace]) -> None:
        paces[self.source].bytes_per_s.pop(self.destination, None)


class ReportsPlan(msgspec.Struct, frozen=True):
    """Everything that determines a run."""

    base: RunPlan
    settings: ReportSettings
    bottlenecks: tuple[SlowReceiver | NarrowLink, ...]


def make_reports_plan(seed: int, nodes_min: int = 3, nodes_max: int = 7) -> ReportsPlan:
    """Draw the plan of a seed."""
    base = make_plan(seed, nodes_min, nodes_max)
    chance = SeededRandom(seed).fork("reports")
    submissions = (*base.submissions[:KEPT_SUBMISSIONS], *_publications(chance.fork("publications"), base))
    torn = chance.fork("torn")
    is_torn = torn.hits(0.35)
    if is_torn:
        base = msgspec.structs.replace(base, first=base.names, faults=_partings(torn, base))
    return ReportsPlan(
        msgspec.structs.replace(
            base, coded=False, submissions=tuple(sorted(submissions, key=lambda each: (each.at, each.body)))
        ),
        ReportSettings(
            window_len=chance.choice((1, 2, 8, 64)) if not is_torn else 1,
            buffer_len_max=chance.choice((4, 16, 64)),
            pending_len_max=chance.choice((2, 64)),
            queue_len_max=chance.choice((2, 8, 1_000)),
            frame_bytes=chance.choice((100, 1_000, 64 * 1_024)),
            departed_len_max=chance.choice((1, 2, 16)) if not is_torn else 16,
        ),
        tuple(_bottlenecks(chance.fork("bottlenecks"), base)) if not is_torn else _narrow_everywhere(torn, base),
    )


def _narrow_everywhere(chance: SeededRandom, base: RunPlan) -> tuple[NarrowLink, ...]:
    """All links are narrow all the time: crashes and view changes tear catch-ups and forwarded logs apart."""
    bytes_per_s = chance.choice((500.0, 1_000.0, 2_000.0))
    return tuple(
        NarrowLink(0.0, base.lasts, name, other, bytes_per_s)
        for name in base.names
        for other in base.names
        if name != other
    )


def _partings(chance: SeededRandom, base: RunPlan) -> tuple[AnyFault, ...]:
    """A few nodes are apart for a while, and one of them, or one of the others, crashes soon after they are back."""
    faults: list[AnyFault] = []
    at = chance.between(0.5, 1.5)
    while at < base.lasts - 1.0:
        apart = chance.sample(base.names, 1 + chance.below(2))
        rest = [name for name in base.names if name not in apart]
        lasts = chance.between(1.0, 2.0)
        faults.append(Partition(at, lasts, ("".join(apart), "".join(rest))))
        at += lasts
        for _ in range(1 + chance.below(2)):
            victim = chance.choice(apart) if chance.hits(0.7) else chance.choice(rest)
            faults.append(Crash(at + chance.between(0.2, 2.0), chance.between(0.5, 2.0), victim, silent=False))
        at += chance.between(2.5, 4.0)
    return tuple(sorted(faults, key=lambda fault: fault.at))


def _publications(chance: SeededRandom, base: RunPlan) -> list[Submission]:
    """Few items, so that most reports become obsolete, in bursts; one node may publish more than the others."""
    items = 1 + chance.below(8)
    loud = chance.choice(base.names) if chance.hits(0.5) else ""
    found: list[Submission] = []
    count = chance.choice((40, 120, 250))
    while len(found) < count:
        at = chance.between(0.0, base.lasts)
        node = loud if loud and chance.hits(0.7) else chance.choice(base.names)
        for _ in range(1 + chance.below(12) if chance.hits(0.3) else 1):
            text = b"%s%d=%d" % (REPORT, chance.below(items), len(found))
            found.append(Submission(at, node, text))
    return found


def _bottlenecks(chance: SeededRandom, base: RunPlan) -> list[SlowReceiver | NarrowLink]:
    found: list[SlowReceiver | NarrowLink] = []
    for _ in range(chance.below(4)):
        at, lasts = chance.between(0.0, base.lasts), chance.between(0.5, 4.0)
        node, other = chance.sample(base.names, 2)
        if chance.hits(0.5):
            found.append(SlowReceiver(at, lasts, node, chance.choice((0.01, 0.1, 1.0))))
        else:
            found.append(NarrowLink(at, lasts, node, other, chance.choice((30.0, 300.0, 3_000.0))))
    return found
