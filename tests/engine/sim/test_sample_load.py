"""The sample site's policy under overload, without faults: its ceiling holds, and no capacity idles."""

from __future__ import annotations

from qosweb.engine.sim.sample_load import sample_shares

FREE_MEAN_MAX, FREE_MAX, USED_MIN = 11.5, 12.5, 97.0  # per cent
UNSERVED_MAX = 10.0


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_three_nodes_hold_the_ceiling_in_every_window() -> None:
    """40 free pages of 40 KB and 20 paid ones of 205 KB a second, and the gentle load."""
    found = [sample_shares(seed) for seed in range(6)]
    free = [share for one in found for share in one.free]
    assert mean(free) <= FREE_MEAN_MAX
    assert max(free) <= FREE_MAX
    assert min(share for one in found for share in one.used) >= USED_MIN
    assert mean([one.unserved for one in found]) <= UNSERVED_MAX


def test_one_node_holds_the_ceiling_though_few_requests_wait() -> None:
    """A third of that load, for two channels: the queue of the paid pages is often empty."""
    free = [share for seed in range(12) for share in sample_shares(seed, "a", 40 / 3, 20 / 3).free]
    assert mean(free) <= FREE_MEAN_MAX
