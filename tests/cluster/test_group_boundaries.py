"""A second fault at every step of the view change that a first one causes (longer changes: at every few steps)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.cluster.group import LATENCY, Group
from tests.cluster.judge import judge

if TYPE_CHECKING:
    from collections.abc import Callable


def busy(names: str) -> Group:
    """A group in one view, with messages of all members in flight; those of the last member reached only some."""
    group = Group(names)
    group.run(0.25)
    for name in names * 2:
        group.send(name)
    group.cut(names[-1], names[0])
    group.run(LATENCY)
    return group


def restart(group: Group, name: str) -> None:
    group.crash(name)
    group.start(name)


FIRST: dict[str, Callable[[Group], None]] = {
    "a crash": lambda group: group.crash("d"),
    "a cut": lambda group: group.partition("abc", "d"),
    "a restart": lambda group: restart(group, "d"),
    "a merge": lambda group: group.heal(),
}
STEPS = {"a crash": range(24), "a cut": range(24), "a restart": range(0, 112, 5), "a merge": range(0, 64, 3)}
SECOND: dict[str, Callable[[Group], None]] = {
    "a crash": lambda group: group.crash("a"),
    "a split": lambda group: group.partition("ab", "c"),
    "a broken connection": lambda group: group.flicker("b", "c"),
    "a restart": lambda group: restart(group, "b"),
}


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("first", FIRST)
def test_two_faults(first: str, second: str) -> None:
    for steps in STEPS[first]:
        group = busy("abcd")
        FIRST[first](group)
        for _ in range(steps):
            group.step()
        SECOND[second](group)
        group.run(0.4)
        group.heal()
        for name in "abcd":
            if name not in group.views():
                group.start(name)
        group.run(1.0)
        judge(group.trace)
        assert group.views() == dict.fromkeys("abcd", "abcd"), (steps, group.views())
