"""Random schedules of breaks, silences, crashes and merges; after healing, one view of all running processes."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from cluster.actions import Crashed, GcsView, LinkDeliver, MembershipView
from cluster.messages import FwdMsg
from tests.cluster.group import Group
from tests.cluster.judge import judge

SEEDS = range(25)


COVERAGE: Counter[str] = Counter()


def what_happened(group: Group) -> Counter[str]:
    seen: Counter[str] = Counter()
    for _, action in group.trace:
        match action:
            case LinkDeliver(body=FwdMsg()):
                seen["forwarded"] += 1
            case GcsView():
                moved = len(action.transitional)
                seen["all moved along" if moved == len(action.view.members) else "came from several views"] += 1
            case MembershipView():
                seen["views formed"] += 1
            case Crashed():
                seen["crashes"] += 1
    seen["views delivered"] = seen["all moved along"] + seen["came from several views"]
    seen["obsolete views"] = seen["views formed"] - seen["views delivered"]
    return seen


def random_story(seed: int, steps: int = 40) -> Group:
    fate = Random(seed)
    names = "abcde"[: fate.randint(3, 5)]
    group = Group(names, seed, jitter=fate.choice([0.0, 0.005, 0.03]))
    down: list[str] = []
    slow_to_block = fate.random() < 0.3
    for _ in range(steps):
        group.run(fate.choice([0.001, 0.004, 0.01, 0.02, 0.05, 0.2, 0.6]))
        up = [name for name in names if name not in down]
        for name in up:
            client = group.nodes[next(p for p in group.nodes if p.name == name)].client
            client.prompt = not slow_to_block
            if client.blocked and client.endpoint.block_status == "requested" and fate.random() < 0.7:
                group.block_ok(name)
        for _ in range(fate.randint(0, 4)):
            group.send(fate.choice(up))
        a, b = fate.sample(names, 2)
        match fate.randint(0, 11):
            case 0 | 1:
                group.cut(a, b)
            case 2 | 3:
                group.silence(a, b)
            case 4 | 5:
                group.flicker(a, b)
            case 6:
                middle = fate.randint(1, len(names) - 1)
                group.partition(names[:middle], names[middle:])
            case 7 if len(up) > 1:
                down.append(fate.choice(up))
                group.crash(down[-1])
            case 8 if down:
                group.start(down.pop(fate.randrange(len(down))))
            case 9:
                group.heal()
    group.heal()
    for name in down:
        group.start(name)
    for node in group.nodes.values():
        node.client.prompt = True
        if node.client.blocked and node.endpoint.block_status == "requested":
            group.block_ok(node.me.name)
    group.run(12.0)
    return group


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens(seed: int) -> None:
    group = random_story(seed)
    COVERAGE.update(what_happened(group))
    judge(group.trace)
    names = "".join(process.name for process in sorted(group.nodes))
    assert group.views() == dict.fromkeys(names, names)
    before = {name: len(group.delivered(name)) for name in names}
    for name in names:
        group.send(name)
    group.run(0.5)
    assert all(len(group.delivered(name)) == before[name] + len(names) for name in names)


def test_the_random_schedules_reached_the_interesting_cases() -> None:
    if COVERAGE["views formed"] < 500:
        pytest.skip("only after the stories above")
    assert all(COVERAGE[what] >= 10 for what in ("forwarded", "all moved along", "came from several views", "crashes"))
    assert COVERAGE["obsolete views"] > 0
