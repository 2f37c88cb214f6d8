"""View order with random delays, rates and view changes, for both implementations. VS: DVS paper, fig. 1."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from random import Random

import pytest

from cluster.adaptive_order import AdaptiveOrder
from cluster.messages import Ack
from cluster.names import ProcessId, ViewId
from cluster.sequencer import Sequencer
from cluster.settings import Settings
from tests.cluster.order_world import MakeOrder, World, message

ORDERS = pytest.mark.parametrize("make", [AdaptiveOrder, Sequencer])
EAGER = Settings(atop_window_factor=2, atop_threshold=0.05)  # distributions change frequently


def jittery(chance: Random) -> float:
    return 0.001 + 0.01 * chance.random() ** 3


def busy_world(make: MakeOrder, seed: int, settings: Settings = EAGER) -> World:
    """Three to six members that send at random rates, with slow clients."""
    chance = Random(seed)
    names = "abcdef"[: chance.randint(2, 6)]
    world = World(names, make, seed, settings, jittery)
    for node in world.nodes.values():
        if chance.random() < 0.5:
            node.lag = lambda: 0.005 * chance.random()
    return world


def chatter(world: World, seconds: float, chance: Random) -> None:
    """All members send now and then, at different and changing rates."""
    number = 0
    for node in world.nodes.values():
        when = world.now
        end = world.now + seconds
        gap = 0.002 * 10 ** (2 * chance.random())
        while (when := when + gap * chance.random()) < end:
            number += 1
            for _ in range(chance.choice((1, 1, 1, 4))):
                world.at(when, partial(node.submit, message(number)))
            if chance.random() < 0.02:
                gap = 0.002 * 10 ** (2 * chance.random())


@ORDERS
@pytest.mark.parametrize("seed", range(12))
def test_all_that_is_sent_is_delivered_everywhere_in_one_order_and_becomes_safe(make: MakeOrder, seed: int) -> None:
    world = busy_world(make, seed)
    world.form("".join(pid.name for pid in world.nodes))
    chatter(world, 0.15, Random(seed))
    world.run()
    first, *rest = world.nodes.values()
    sent = sum(len(bodies) for bodies in world.judge.sent.values())
    assert len(first.received) == sent > 0
    for node in world.nodes.values():
        assert node.received == first.received
        assert node.safe_count == sent
        assert node.order.own_unsafe == 0
        assert not node.order.unsafe
    assert rest


@ORDERS
@pytest.mark.parametrize("seed", range(12))
def test_a_prefix_of_one_sequence_in_every_view_however_the_views_cut_the_streams(make: MakeOrder, seed: int) -> None:
    chance = Random(seed)
    world = busy_world(make, seed)
    names = "".join(pid.name for pid in world.nodes)
    world.form(names)
    for _ in range(8):
        chatter(world, 0.06, chance)
        world.run(world.now + 0.05 * chance.random())
        if chance.random() < 0.5 and len(names) > 1:
            order = chance.sample(names, len(names))
            at = chance.randint(1, len(names) - 1)
            world.change("".join(sorted(order[:at])), "".join(sorted(order[at:])))
        else:
            world.change(names)
    world.change(names)
    chatter(world, 0.05, chance)
    world.run()
    first = world.node("a")
    assert all(
        node.received == first.received and node.safe_count == len(first.received) for node in world.nodes.values()
    )
    assert world.judge.receipts > 100


@ORDERS
def test_safe_only_after_every_client_has_processed_the_message(make: MakeOrder) -> None:
    world = World("abc", make).form("abc")
    slow = world.node("c")
    slow.lag = lambda: 1.0
    body = message(1)
    world.node("a").submit(body)
    world.run(0.9)
    assert all(len(node.received) == 1 and node.safe_count == 0 for node in world.nodes.values())
    world.run()
    assert all(node.safe_count == 1 for node in world.nodes.values())
    assert world.node("b").safe_at[id(body)] >= slow.received_at[id(body)] + 1.0


@ORDERS
def test_an_acknowledgement_may_come_before_its_view(make: MakeOrder) -> None:
    world = World("ab", make)
    a, b = world.node("a"), world.node("b")
    first, view = world.make_view("ab"), world.make_view("ab")
    a.order.ack_received(b.me, Ack(view.id, 1))
    a.order.ack_received(b.me, Ack(first.id, 7))
    a.install(view)
    assert a.order.acked == [0, 1]
    a.order.ack_received(b.me, Ack(first.id, 9))
    assert a.order.acked == [0, 1]


@ORDERS
def test_the_window_is_full_until_own_messages_are_safe(make: MakeOrder) -> None:
    world = World("abc", make, settings=Settings(window=4)).form("abc")
    a = world.node("a")
    a.backlog.extend(message(number) for number in range(20))
    most = 0

    def watch() -> None:
        nonlocal most
        most = max(most, a.order.own_unsafe)

    for step in range(100):
        world.at(step * 0.0005, watch)
    a.roomy()
    assert a.order.own_unsafe == 4
    assert not a.order.has_room
    world.run()
    assert most == 4
    assert a.safe_count == 20
    assert a.order.has_room


@ORDERS
def test_acknowledgements_are_piggybacked_on_messages(make: MakeOrder) -> None:
    world = World("ab", make).form("ab")
    a, b = world.node("a"), world.node("b")

    def answer(sender: ProcessId, _: object) -> None:
        if sender == a.me and len(b.received) < 20:
            b.submit(message(100 + len(b.received)))

    def ask(sender: ProcessId, _: object) -> None:
        if sender == b.me and len(a.received) < 20:
            a.submit(message(len(a.received)))

    b.on_receive, a.on_receive = answer, ask
    a.submit(message(0))
    world.run()
    assert a.safe_count == b.safe_count >= 20
    assert world.acks <= 1.2 * a.safe_count  # without piggybacking: one from each of the two members for every message


@ORDERS
def test_a_lone_message_is_acknowledged_to_its_sender_who_tells_the_others(make: MakeOrder) -> None:
    """Frames for each member, not for each pair of members."""
    world = World("abcdefg", make).form("abcdefg")
    b = world.node("b")
    b.submit(message(1))
    world.run()
    assert all(node.safe_count == 1 for node in world.nodes.values())
    assert world.acks <= 6 + 1  # one from each other member to b, and one multicast by b


@ORDERS
def test_no_message_is_safe_before_it_was_processed_locally(make: MakeOrder) -> None:
    world = World("abc", make).form("abc")
    a, c = world.node("a"), world.node("c")
    view = a.current_view
    assert view is not None
    a.order.ack_received(c.me, Ack(view.id, 5, 5))  # whatever c says
    assert a.order.safe_limit == 0


@ORDERS
def test_a_single_member_delivers_at_once(make: MakeOrder) -> None:
    world = World("a", make).form("a")
    a = world.node("a")
    a.submit(message(1))
    assert len(a.received) == 1
    assert a.safe_count == 1
    assert world.acks == 0


@ORDERS
def test_nothing_is_sent_between_block_ok_and_the_next_view(make: MakeOrder) -> None:
    world = World("ab", make).form("ab")
    a = world.node("a")
    a.order.block()
    a.submit(message(1))
    assert not a.order.has_room
    assert a.received == []
    world.change("ab")
    a.submit(message(2))
    world.run()
    assert [body for _, body in a.received] == [message(2)]


@ORDERS
def test_before_the_first_view_nothing_happens(make: MakeOrder) -> None:
    world = World("a", make)
    a = world.node("a")
    a.order.send(message(1))
    a.order.processed_up_to(3)
    a.order.ack_received(ProcessId("z"), Ack(ViewId(1, "x"), 1))
    a.order.deliver(ProcessId("z"), world.make_view)  # type: ignore[arg-type]
    a.order.block()
    assert a.received == []


HISTORY = """
from hashlib import sha256
from random import Random
from cluster.adaptive_order import AdaptiveOrder
from tests.cluster.test_view_order import busy_world, chatter
world = busy_world(AdaptiveOrder, 5)
names = "".join(pid.name for pid in world.nodes)
world.form(names)
for _ in range(3):
    chatter(world, 0.05, Random(1))
    world.run(world.now + 0.03)
    world.change(names)
print(sha256(repr(sorted(world.streams.items())).encode()).hexdigest())
"""


def test_the_same_seed_gives_the_same_messages_whatever_the_hash_seed() -> None:
    digests = {
        subprocess.run(
            [sys.executable, "-c", HISTORY],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


@ORDERS
def test_messages_that_only_serve_the_order_become_stable_too(make: MakeOrder) -> None:
    """The layer below drops stable messages: without null and sequencer messages its memory would grow."""
    world = World("abc", make).form("abc")
    for number in range(400):
        world.at(0.01 * number, partial(world.node("b").submit, message(number)))
    world.run()
    view = world.node("a").current_view
    assert view is not None
    sent = [len(world.streams.get((view.id, member), ())) for member in view.members]
    for node in world.nodes.values():
        unstable = [count - stable for count, stable in zip(sent, node.stable_counts, strict=True)]
        assert all(0 <= left <= 70 for left in unstable)
