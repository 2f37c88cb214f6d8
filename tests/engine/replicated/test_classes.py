"""Queues of a class: any entry can be removed, and the counts stay right."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cluster.names import ProcessId
from qosweb.engine.replicated.classes import ClassNumbers, ClassState, Totals, Waiter

NODES = [ProcessId(name) for name in "abc"]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 999)), max_size=50), st.data())
def test_removal_keeps_the_order_of_the_others(entries: list[tuple[int, int]], data: st.DataObject) -> None:
    one = ClassState("x")
    model: dict[tuple[ProcessId, int], Waiter] = {}
    for seq, (node, cost) in enumerate(entries):
        waiter = Waiter(seq, cost, 0)
        one.add(NODES[node], seq, waiter)
        model[NODES[node], seq] = waiter
    while model:
        assert one.waiting == len(model)
        assert one.waiting_cost == sum(waiter.cost for waiter in model.values())
        assert set(one.queues) == {owner for owner, _ in model}
        for owner in one.queues:
            number, waiter = one.oldest(owner)
            assert waiter == min(waiter for (at, _), waiter in model.items() if at == owner)
            assert model[owner, number] is waiter
        key = data.draw(st.sampled_from(sorted(model)))
        assert one.remove(*key) is model.pop(key)
    assert (one.waiting, one.waiting_cost, one.queues) == (0, 0, {})


def test_all_waiters_can_be_listed_and_cleared() -> None:
    one = ClassState("x")
    one.add(NODES[1], 7, Waiter(2, 10, 0))
    one.add(NODES[0], 9, Waiter(1, 20, 0))
    assert sorted(one.all()) == [(Waiter(1, 20, 0), NODES[0], 9), (Waiter(2, 10, 0), NODES[1], 7)]
    one.clear()
    assert (one.waiting, one.waiting_cost, list(one.all())) == (0, 0, [])


def test_totals_add_up() -> None:
    totals = Totals(1, 2, 3, 4, 5, 6)
    totals.add(Totals(10, 20, 30, 40, 50, 60))
    assert totals == Totals(11, 22, 33, 44, 55, 66)


def test_class_numbers_follow_names_and_fall_back_to_the_default() -> None:
    numbers = ClassNumbers(["a", "b", "c"], ["c", "x", "a"], default=1)
    assert [numbers[number] for number in (0, 1, 2, 3, -1, 1 << 40)] == [2, 1, 0, 1, 1, 1]
