"""Fixed sequencer: message delays, and invalid messages."""

from __future__ import annotations

from cluster.messages import Plain, Sequence, Slot
from cluster.sequencer import Sequencer
from tests.cluster.order_world import World, message


def test_own_messages_of_the_sequencer_take_one_delay_and_those_of_others_two() -> None:
    world = World("abc", Sequencer).form("abc")
    own, foreign = message(1), message(2)
    world.node("a").submit(own)
    world.run(0.5)
    sent = world.now
    world.node("b").submit(foreign)
    world.run()
    c = world.node("c")
    assert abs(c.received_at[id(own)] - 0.001) < 1e-9
    assert abs(c.received_at[id(foreign)] - sent - 0.002) < 1e-9
    assert abs(world.node("a").received_at[id(foreign)] - sent - 0.001) < 1e-9


def test_invalid_messages_are_ignored() -> None:
    world = World("abc", Sequencer).form("abc")
    a, b, c = world.nodes.values()
    for node in (a, b, c):
        node.order.deliver(b.me, Sequence(0, (1, 2)))  # not the sequencer
        node.order.deliver(a.me, Sequence(0, (1, 99)))  # an invalid rank
        node.order.deliver(a.me, Sequence(0, (-1,)))
        node.order.deliver(a.me, Sequence(-7, ()))
        node.order.deliver(c.me, Slot(0, 0, 1, None, 0, None))  # a message of the other order
    c.submit(message(1))
    world.run()
    assert all(len(node.received) == 1 for node in (a, b, c))


def test_a_place_waits_for_its_message() -> None:
    world = World("abc", Sequencer).form("abc")
    a, b, c = world.nodes.values()
    body = message(1)
    world.judge.send(b.me, a.current_view, body)  # type: ignore[arg-type]
    c.order.deliver(a.me, Sequence(0, (1,)))
    assert c.received == []
    c.order.deliver(b.me, Plain(0, body))
    assert c.received == [(b.me, body)]
