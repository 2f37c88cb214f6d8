"""Adaptive order: slots, null messages and distributions (ATOP paper, sections 4 and 5)."""

from __future__ import annotations

from functools import partial
from random import Random

import pytest

from cluster.adaptive_order import COUNT_MAX, AdaptiveOrder
from cluster.messages import Ordered, Plain, Slot
from cluster.settings import Settings
from tests.cluster.order_world import World, message

DELAY = 0.001
EAGER = Settings(atop_window_factor=2, atop_threshold=0.05)


def atop(world: World, name: str) -> AdaptiveOrder:
    order = world.node(name).order
    assert isinstance(order, AdaptiveOrder)
    return order


def test_an_idle_member_costs_one_message_delay_and_never_a_timeout() -> None:
    """The first message waits at most until all members have received it and given up the slots before it."""
    for seed in range(20):
        world = World("abcdef", AdaptiveOrder)
        world.epoch = seed  # another slot assignment
        world.form("abcdef")
        body = message(1)
        world.node("c").submit(body)
        world.run()
        for node in world.nodes.values():
            assert node.received_at[id(body)] <= 2 * DELAY + 1e-9
        assert world.nulls <= 5


def test_total_silence_costs_nothing() -> None:
    world = World("abcdef", AdaptiveOrder).form("abcdef")
    world.run()
    assert (world.nulls, world.data, world.acks) == (0, 0, 0)
    world.node("a").submit(message(1))
    world.run()
    nulls, acks = world.nulls, world.acks
    world.run(1e6)
    assert (world.nulls, world.acks) == (nulls, acks)


def test_a_null_gives_up_all_slots_before_the_last_message_known_at_once() -> None:
    world = World("ab", AdaptiveOrder).form("ab")
    for number in range(50):
        world.node("a").submit(message(number))
    world.run()
    assert len(world.node("b").received) == 50
    assert world.nulls <= 50
    burst = World("ab", AdaptiveOrder, settings=EAGER, delay=lambda _: DELAY).form("ab")
    for number in range(50):
        burst.at(0.0, partial(burst.node("a").submit, message(number)))
    burst.run()
    assert len(burst.node("b").received) == 50


def test_slots_are_given_up_by_the_message_that_leaves_anyway() -> None:
    world = World("ab", AdaptiveOrder).form("ab")
    a, b = world.node("a"), world.node("b")
    for number in range(10):
        a.submit(message(number))
    b.on_receive = None
    for number, slot in enumerate(world.streams[a.current_view.id, a.me]):  # type: ignore[union-attr]
        b.order._busy = number < 9  # as if the ten arrived in one input
        b.take(a.me, slot)
        if number == 0:
            b.order.send(message(100))
            world.judge.send(b.me, b.current_view, b.order.outgoing[0])  # type: ignore[arg-type]
    (answer,) = world.streams[b.current_view.id, b.me]  # type: ignore[union-attr]
    assert isinstance(answer, Slot)
    assert answer.body is not None
    assert answer.count >= 9


def test_a_switch_of_the_distribution_is_over_one_delay_after_all_heard_of_it() -> None:
    world = World("abc", AdaptiveOrder, settings=Settings(atop_window_factor=4)).form("abc")
    for number in range(40):
        world.at(0.05 * number, partial(world.node("c").submit, message(number)))
    world.run()
    dists = {(atop(world, name).send_dist, atop(world, name).ord_dist) for name in "abc"}
    assert len(dists) == 1
    ((sending, ordering),) = dists
    assert sending == ordering >= 1
    assert all(list(atop(world, name).deals) == [sending] for name in "abc")
    last = message(99)
    start = world.now
    world.node("c").submit(last)
    world.run()
    assert all(node.received_at[id(last)] <= start + 2 * DELAY + 1e-9 for node in world.nodes.values())


@pytest.mark.parametrize("seed", range(30))
def test_switches_while_nulls_and_messages_are_under_way(seed: int) -> None:
    """Distributions change every few messages and delays vary a hundredfold: all is delivered, in one order."""
    chance = Random(seed)
    names = "abcde"[: chance.randint(2, 5)]
    world = World(names, AdaptiveOrder, seed, EAGER, lambda c: 0.0002 * 100 ** c.random())
    world.form(names)
    for number in range(chance.randint(30, 120)):
        sender = world.node(chance.choice(names[: chance.randint(1, len(names))]))
        world.at(0.1 * chance.random() ** 2, partial(sender.submit, message(number)))
    world.run()
    sent = sum(map(len, world.judge.sent.values()))
    for node in world.nodes.values():
        order = node.order
        assert isinstance(order, AdaptiveOrder)
        assert len(node.received) == node.safe_count == sent
        assert not any(slot.body for queue in order.pending_msgs for slot in queue)
    if len(names) > 2:
        assert atop(world, "a").send_dist > 0


def test_two_distributions_in_flight_at_once() -> None:
    """A member may learn of the second before the first and never send under the first."""
    world = World("abc", AdaptiveOrder).form("abc")
    a, b, c = (atop(world, name) for name in "abc")
    for node in world.nodes.values():
        node.is_mute = True  # the streams are made by hand here
    pids = list(world.nodes)
    body = [message(number) for number in range(3)]
    stream_a = [Slot(1, 0, 0, (1, 2, 3), 0, None), Slot(2, 0, 1, (3, 2, 1), 0, body[0])]
    stream_b = [Slot(1, 0, 1, (1, 2, 3), 0, body[1]), Slot(2, 0, 20, (3, 2, 1), 0, None)]
    stream_c = [Slot(2, 0, 1, (3, 2, 1), 0, body[2]), Slot(2, 1, 20, None, 0, None)]
    view = world.node("a").current_view
    assert view is not None
    for pid, stream in zip(pids, (stream_a, stream_b, stream_c), strict=True):
        for slot in stream:
            if slot.body is not None:
                world.judge.send(pid, view, slot.body)
    arrivals = [
        [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0), (2, 1)],
        [(2, 0), (2, 1), (1, 0), (1, 1), (0, 0), (0, 1)],
        [(1, 0), (2, 0), (0, 0), (1, 1), (0, 1), (2, 1)],
    ]
    for order, arrival in zip((a, b, c), arrivals, strict=True):
        for rank, index in arrival:
            order.deliver(pids[rank], (stream_a, stream_b, stream_c)[rank][index])
        order.deliver(pids[0], Slot(2, 1, 20, None, 0, None))
        assert order.ord_dist == 2
    received = [node.received for node in world.nodes.values()]
    assert received[0] == received[1] == received[2]
    assert received[0][0] == (pids[1], body[1])
    assert len(received[0]) == 3


def test_invalid_messages_are_ignored_by_all_members_alike() -> None:
    world = World("abc", AdaptiveOrder).form("abc")
    a, b, _ = world.nodes
    body = message(1)
    odd: list[Ordered] = [
        Slot(0, 5, 1, None, 0, body),  # a gap
        Slot(0, -1, 1, None, 0, body),
        Slot(0, 0, 0, None, 0, body),  # a message without a slot
        Slot(0, 0, -3, None, 0, None),
        Slot(0, 0, COUNT_MAX + 1, None, 0, None),
        Slot(-1, 0, 1, (1, 1, 1), 0, body),
        Slot(3, 0, 1, None, 0, body),  # a distribution without known weights
        Slot(3, 0, 1, (1, 1), 0, body),
        Slot(3, 0, 1, (1, 1, 0), 0, body),
        Slot(3, 0, 1, (1, 1, 1 << 60), 0, body),
        Slot(3, 1, 1, (1, 1, 1), 0, body),
        Plain(0, body),
    ]
    for node in world.nodes.values():
        for slot in odd:
            node.order.deliver(b, slot)
        node.order.deliver(type(a)("stranger"), Slot(0, 0, 1, None, 0, body))
    for name in "abc":
        world.node(name).submit(message(2))
    world.run()
    assert all(len(node.received) == 3 for node in world.nodes.values())


def test_a_distribution_has_one_description() -> None:
    world = World("abc", AdaptiveOrder).form("abc")
    order = atop(world, "c")
    a, b, _ = world.nodes
    order.deliver(a, Slot(1, 0, 0, (1, 2, 3), 0, None))
    order.deliver(b, Slot(1, 0, 0, (3, 2, 1), 0, None))
    assert order.deals[1].weights == (1, 2, 3)
    assert not order.pending_msgs[1]
