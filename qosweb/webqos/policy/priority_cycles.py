"""Cycles in priorities: finds them for the checks, and removes them when a policy is bound.

A specification with very many conditions is not checked in every situation, so a cycle may appear at run time. Then
all replicas must resolve it alike: they ignore the priority of the cycle that was written last.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection

    from qosweb.webqos.policy.binding import Binding


def without_cycles(binding: Binding, classes: int) -> Binding:
    """The binding without the priorities that close cycles. ``classes`` is the number of classes."""
    without: set[int] = set()
    while involved := find_cycle(binding, classes, without):
        without.add(max(involved))
    if not without:
        return binding
    pairs = zip(binding.before, binding.before_rules, strict=True)
    kept = [(pair, rule) for pair, rule in pairs if rule not in without]
    return replace(binding, before=tuple(pair for pair, _ in kept), before_rules=tuple(rule for _, rule in kept))


def find_cycle(binding: Binding, classes: int, without: Collection[int]) -> list[int]:
    """The priorities of one cycle of classes, ignoring those in ``without``; empty if there is no cycle."""
    if not binding.before:
        return []
    after: dict[int, list[tuple[int, int]]] = {}
    for (a, b), rule in zip(binding.before, binding.before_rules, strict=True):
        if rule not in without:
            after.setdefault(a, []).append((b, rule))
    state = [0] * classes  # 1: on the path, 2: done
    for start in range(classes):
        if state[start]:
            continue
        path: list[tuple[int, int]] = [(start, -1)]
        steps = [iter(after.get(start, ()))]
        state[start] = 1
        while path:
            following = next(steps[-1], None)
            if following is None:
                state[path.pop()[0]] = 2
                steps.pop()
                continue
            target, rule = following
            if state[target] == 1:
                at = next(place for place, (one, _) in enumerate(path) if one == target)
                return [*(used for _, used in path[at + 1 :]), rule]
            if not state[target]:
                state[target] = 1
                path.append((target, rule))
                steps.append(iter(after.get(target, ())))
    return []
