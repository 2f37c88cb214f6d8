"""Overload of the sample site without faults: checks that a ceiling holds in every window, and that no capacity idles.

The policy is that of the sample site, by its rules for the day or the night. Readers of the free pages and subscribers
together ask for about twice the capacity or more; beside them there is the demo's gentle load, whose classes have
floors that they do not use. Requests are small in number and large in size, so that a class often waits for a moment
only.
Below: run.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from cluster.settings import Settings
from cluster.sim.network import Delays
from cluster.sim.plan import RunPlan as GroupPlan
from cluster.sim.seeded_random import SeededRandom
from qosweb.engine.sim.plan import Arrival, EnginePlan
from qosweb.engine.sim.policies import SAMPLE, SAMPLE_NIGHT
from qosweb.engine.sim.run import EngineWorld

NODE_BPS = 1 << 20  # two channels
BEGIN, WINDOW, WINDOWS = 3.0, 10.0, 2  # seconds
FREE, PAID = "/free", "/paid/full"
FREE_SIZE, PAID_SIZE = 40_111, 204_897
REQUEST = 256  # fixed cost of a request
GENTLE_PER_S = 12.0
GENTLE = (  # of the demo: class, size and weight
    ("/index.html", 2_623, 4), ("/style.css", 5_290, 2), ("/shop", 2_944, 6), ("/shop", 2_133, 3),
    ("/images", 4_145, 5), (FREE, 2_415, 5), (FREE, FREE_SIZE, 2), (PAID, 2_379, 4), (PAID, 16_184, 2),
    (PAID, PAID_SIZE, 1), ("/cart", 2_159, 1), ("/checkout", 2_057, 1), ("elsewhere", 2_098, 1),
)  # fmt: skip


GENTLE_FLOORS = ("/shop", "/images")  # classes of the gentle load with floors that they do not use


class SampleShares(NamedTuple):
    """Shares in per cent: of the free pages in what started, and of what started in the capacity, in each window.

    `unserved`: how many of the requests were not served, of classes that ask for less than their floors.
    """

    free: list[float]
    used: list[float]
    unserved: float


def make_sample_plan(
    seed: int, nodes: str, free_per_s: float, paid_per_s: float, windows: int = WINDOWS, *, by_night: bool = False
) -> EnginePlan:
    chance = SeededRandom(seed).fork("sample")
    end = BEGIN + windows * WINDOW
    gentle = [(name, size) for name, size, weight in GENTLE for _ in range(weight)]
    arrivals: list[Arrival] = []
    for pages, per_s in (([(FREE, FREE_SIZE)], free_per_s), ([(PAID, PAID_SIZE)], paid_per_s), (gentle, GENTLE_PER_S)):
        at = 0.5 + chance.exponential(1 / per_s)
        while at < end:
            name, size = chance.choice(pages)
            arrivals.append(Arrival(at, chance.choice(nodes), name, size + REQUEST, size + REQUEST, 0.0))
            at += chance.exponential(1 / per_s)
    arrivals.sort(key=lambda one: one.at)
    group = GroupPlan(
        seed=seed, names=nodes, first=nodes, settings=Settings(heartbeat=0.25, suspect_min=0.8),
        delays=Delays(base=0.0005, jitter=0.0005, notice_max=0.01), coded=False, lasts=end, faults=(), submissions=(),
    )  # fmt: skip
    capacities = dict.fromkeys(nodes, NODE_BPS)
    policy = SAMPLE_NIGHT if by_night else SAMPLE
    return EnginePlan(group, policy, 0.0, capacities, tuple(arrivals), (), (), follows_at_once=True, is_paced=True)


def sample_shares(
    seed: int,
    nodes: str = "abc",
    free_per_s: float = 40.0,
    paid_per_s: float = 20.0,
    windows: int = WINDOWS,
    *,
    by_night: bool = False,
) -> SampleShares:
    """Play a seed. Raises EngineViolation if a judge finds one."""
    scene = EngineWorld(make_sample_plan(seed, nodes, free_per_s, paid_per_s, windows, by_night=by_night))
    scene.play()
    got: list[Counter[str]] = [Counter() for _ in range(windows)]
    for client in scene.clients.all:
        window = int((client.started_at - BEGIN) // WINDOW)
        if client.started and 0 <= window < windows:
            got[window][client.arrival.name] += client.arrival.cost
    modest = [client.started for client in scene.clients.all if client.arrival.name in GENTLE_FLOORS]
    totals = [sum(one.values()) for one in got]
    return SampleShares(
        [100 * one[FREE] / total for one, total in zip(got, totals, strict=True)],
        [100 * total / (len(nodes) * NODE_BPS * WINDOW) for total in totals],
        100 * modest.count(0) / len(modest),
    )
