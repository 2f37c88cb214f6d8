"""Completeness of the checkers' guesses: compares each checker with an automaton that keeps every choice open.

Small worlds, random steps. The reference keeps the set of all states that some sequence of internal actions could have
reached. A step is allowed if it is enabled in one of them. The checker must give the same verdict at every step.
"""

from __future__ import annotations

from random import Random

import pytest

from cluster.actions import GcsView, VsNewView, VsReceive, VsSafe, VsSend
from cluster.names import ProcessId, View, initial_view
from cluster.specs.queues import LossyQueue
from cluster.specs.spec import Spec, Violation
from cluster.specs.trans_set import TransSetSpec
from cluster.specs.vs import VsSpec
from tests.cluster.specs.traces import A, B, C, batch, view

# ---- a lossy queue, and all the queues it could be

Queues = set[tuple[tuple[str, bool], ...]]  # elements, and whether they may be taken back


def without_optional(queues: Queues) -> Queues:
    found, more = set(queues), set(queues)
    while more:
        more = {q[:i] + q[i + 1 :] for q in more for i, (_, optional) in enumerate(q) if optional} - found
        found |= more
    return found


@pytest.mark.parametrize("seed", range(60))
def test_a_lossy_queue_is_all_queues_it_could_be(seed: int) -> None:
    chance = Random(seed)
    queue: LossyQueue[str] = LossyQueue()
    possible: Queues = {()}
    for _ in range(chance.randint(5, 25)):
        dice = chance.random()
        item = chance.choice("ab" if seed % 2 else "abcd")
        if dice < 0.45:
            optional = chance.random() < 0.2
            queue.put(item, optional=optional)
            possible = {(*q, (item, optional)) for q in possible}
        elif dice < 0.6:
            queue.lose()
            possible = {q[:length] for q in possible for length in range(len(q) + 1)}
        elif dice < 0.63:
            queue.clear()
            possible = {()}
        else:
            after = {q[1:] for q in without_optional(possible) if q and q[0][0] == item}
            assert queue.take(item) == bool(after)
            possible = after or possible


# ---- TRANS_SET

Prev = tuple[tuple[tuple[ProcessId, int], int], ...]  # prev_view[p][v], by epochs


class AllTransSets:
    """Every prev_view that set_prev_view actions could have produced so far."""

    def __init__(self, views: list[View]) -> None:
        self.views = views
        self.current = {p: initial_view(p) for p in (A, B, C)}
        self.states: set[Prev] = {()}
        self._close()

    def _close(self) -> None:
        more = self.states
        while more:
            grown = set()
            for state in more:
                known = dict(state)
                for v in self.views:
                    for p in v.members:
                        if (p, v.id.epoch) not in known:
                            extended = {**known, (p, v.id.epoch): self.current[p].id.epoch}
                            grown.add(tuple(sorted(extended.items())))
            more = grown - self.states
            self.states |= more

    def allows(self, p: ProcessId, v: View, transitional: tuple[ProcessId, ...]) -> bool:
        current = self.current[p]
        both = [q for q in v.members if q in current.members]
        enabled = set()
        for state in self.states:
            known = dict(state)
            prev = {q: known.get((q, v.id.epoch)) for q in both}
            here = current.id.epoch
            if (
                prev.get(p) == here
                and None not in prev.values()
                and set(transitional) == {q for q in both if prev[q] == here}
            ):
                enabled.add(state)
        if not enabled:
            return False
        self.states = enabled
        self.current[p] = v
        self._close()
        return True


@pytest.mark.parametrize("seed", range(80))
def test_transitional_sets_that_some_history_explains(seed: int) -> None:
    chance = Random(seed)
    views = [view(epoch, *chance.choice(((A, B, C), (A, B), (B, C)))) for epoch in (1, 2)]
    every, spec = AllTransSets(views), TransSetSpec()
    for _ in range(8):
        p, v = chance.choice((A, B, C)), chance.choice(views)
        if p not in v.members or v.id <= every.current[p].id:
            continue
        others = [q for q in v.members if q != p and chance.random() < 0.5]
        transitional = tuple(sorted([p, *others])) if chance.random() < 0.95 else tuple(others)
        allowed = every.allows(p, v, transitional)
        assert _allows(spec, p, GcsView(v, transitional)) == allowed
        if not allowed:
            return


# ---- VS


class AllOrders:
    """Every queue of one view that VS-ORDER actions could have produced so far."""

    def __init__(self, v: View) -> None:
        self.view = v
        empty: tuple[tuple[str, ...], ...] = tuple(() for _ in v.members)
        self.states: set[tuple[tuple[tuple[str, ...], ...], tuple[tuple[str, int], ...]]] = {(empty, ())}
        self.next = [0] * len(v.members)
        self.next_safe = [0] * len(v.members)

    def _close(self) -> None:
        more = self.states
        while more:
            grown = {
                ((*pending[:r], pending[r][1:], *pending[r + 1 :]), (*queue, (pending[r][0], r)))
                for pending, queue in more
                for r in range(len(pending))
                if pending[r]
            }
            more = grown - self.states
            self.states |= more

    def send(self, rank: int, text: str) -> None:
        self.states = {((*p[:rank], (*p[rank], text), *p[rank + 1 :]), queue) for p, queue in self.states}
        self._close()

    def _keep(self, at: int, text: str, sender: int) -> bool:
        kept = {state for state in self.states if at < len(state[1]) and state[1][at] == (text, sender)}
        self.states = kept or self.states
        return bool(kept)

    def receive(self, rank: int, text: str, sender: int) -> bool:
        if not self._keep(self.next[rank], text, sender):
            return False
        self.next[rank] += 1
        return True

    def safe(self, rank: int, text: str, sender: int) -> bool:
        at = self.next_safe[rank]
        if min(self.next) <= at or not self._keep(at, text, sender):
            return False
        self.next_safe[rank] += 1
        return True


@pytest.mark.parametrize("seed", range(80))
def test_orders_that_some_history_explains(seed: int) -> None:
    chance = Random(seed)
    v = view(2, A, B)
    every, spec = AllOrders(v), VsSpec()
    for p in v.members:
        spec.observe(p, VsNewView(v))
    sent = 0
    for _ in range(30):
        rank, sender, text = chance.randrange(2), chance.randrange(2), chance.choice("xy")
        p, q, body = v.members[rank], v.members[sender], batch(text)
        dice = chance.random()
        if dice < 0.3 and sent < 6:
            sent += 1
            every.send(rank, text)
            spec.observe(p, VsSend(body))
        elif dice < 0.75:
            assert _allows(spec, p, VsReceive(q, body)) == every.receive(rank, text, sender)
        else:
            assert _allows(spec, p, VsSafe(q, body)) == every.safe(rank, text, sender)


def _allows(spec: Spec, p: ProcessId, action: GcsView | VsReceive | VsSafe) -> bool:
    try:
        spec.observe(p, action)
    except Violation:
        return False
    return True
