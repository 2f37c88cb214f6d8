"""The sample site's policy under overload, without faults: its ceiling holds, and no capacity idles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from qosweb.engine.local import request_queue
from qosweb.engine.sim.sample_load import sample_shares

if TYPE_CHECKING:
    import pytest

FREE_MEAN_MAX, FREE_MAX, USED_MIN = 11.5, 12.5, 97.0  # per cent
ONE_NODE_MEAN_MAX = 10.5
FREE_MORE_MAX = 3.5  # points: about three free pages in a window of ten seconds
NIGHT_MEAN_MAX = 60.0
UNSERVED_MAX = 10.0
ONE_NODE_UNSERVED_MAX = 4.0  # 4.7 when large responses took all places beyond the full pipe


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def test_three_nodes_hold_the_ceiling_in_every_window() -> None:
    hold_the_ceiling_on_three_nodes(seeds=6)


def hold_the_ceiling_on_three_nodes(seeds: int) -> None:
    """40 free pages of 40 KB and 20 paid ones of 205 KB a second, and the gentle load."""
    found = [sample_shares(seed) for seed in range(seeds)]
    free = [share for one in found for share in one.free]
    assert mean(free) <= FREE_MEAN_MAX
    assert max(free) <= FREE_MAX
    assert min(share for one in found for share in one.used) >= USED_MIN
    assert mean([one.unserved for one in found]) <= UNSERVED_MAX


def test_one_node_holds_the_ceiling_though_few_requests_wait() -> None:
    hold_the_ceiling_on_one_node(seeds=12)


def hold_the_ceiling_on_one_node(seeds: int) -> None:
    """A third of that load, for two channels: the queue of the paid pages is often empty."""
    found = [sample_shares(seed, "a", 40 / 3, 20 / 3) for seed in range(seeds)]
    assert mean([share for one in found for share in one.free]) <= ONE_NODE_MEAN_MAX
    assert mean([share for one in found for share in one.used]) >= USED_MIN
    assert mean([one.unserved for one in found]) <= ONE_NODE_UNSERVED_MAX


def test_one_node_denies_no_request_early_that_would_fill_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a window in which few paid pages are asked for at a time, free pages fill the gaps. Requests could only make
    up for that by waiting longer than their lifetimes: the free pages get no more than if nothing was denied early."""
    early = [sample_shares(seed, "a", 40 / 3, 20 / 3) for seed in range(6)]
    monkeypatch.setattr(request_queue, "patience_ms", lambda _lifetime_ms, _machine: 1_000_000)
    never = [sample_shares(seed, "a", 40 / 3, 20 / 3) for seed in range(6)]
    for one, most in zip(early, never, strict=True):
        for share, free in zip(one.free, most.free, strict=True):
            assert share <= max(FREE_MAX, free + FREE_MORE_MAX)
    assert mean([share for one in early for share in one.used]) >= USED_MIN


def test_the_ceiling_of_the_night_holds() -> None:
    """Free pages may have 60 % then, and ask for more than that."""
    found = [sample_shares(seed, "a", 100 / 3, 50 / 3, by_night=True) for seed in range(4)]
    free = [share for one in found for share in one.free]
    assert mean(free) <= NIGHT_MEAN_MAX
    assert min(share for one in found for share in one.used) >= USED_MIN
