"""The real layers from the primary views upwards over an executable VS service, checked by their specifications."""

from __future__ import annotations

from random import Random

import pytest

from cluster.settings import Settings
from tests.cluster.specs.watched import WatchedService


def partition(service: WatchedService, names: str, chance: Random) -> None:
    groups = ["" for _ in range(chance.randint(1, 3))]
    for name in names:
        groups[chance.randrange(len(groups))] += name
    service.views(*(group for group in groups if group))


def submit(service: WatchedService, names: str, chance: Random, count: int) -> None:
    member = service[chance.choice(names)]
    member.replica.submit(b"entry %d" % count)
    member.flush()


@pytest.mark.parametrize("seed", range(40))
def test_any_schedule(seed: int) -> None:
    chance = Random(seed)
    names = "abcde"[: chance.randint(2, 5)]
    service = WatchedService(names, Settings(snapshot_every=chance.choice((15, 20, 1000))))
    service.views(names).run()
    for turn in range(chance.randint(5, 30)):
        dice = chance.random()
        if dice < 0.35:
            partition(service, names, chance)
        elif dice < 0.45:
            service.restart(chance.choice(names))
        elif dice < 0.8:
            submit(service, names, chance, turn)
        for _ in range(chance.choice((1, 3, 10, 30, 100))):
            member = service[chance.choice(names)]
            member.step()
            service.look(member.me)
    service.views(names).run()
    service.look_at_all()
    coverage = service.checkers.coverage()
    assert coverage["TO-IMPL"]["confirm: all members of the view have the label there"] > 0
