"""Simulated network: order within a link, losses of a break, delays of a cut."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest

from cluster.messages import Frame, LinkAck
from cluster.names import ProcessId
from cluster.sim.event_queue import EventQueue, TooManyEvents
from cluster.sim.network import Delays, SimNetwork
from cluster.sim.seeded_random import SeededRandom

if TYPE_CHECKING:
    from cluster.sim.network import OneWayChannel

RANDOM = Delays(base=0.001, jitter=0.05, spike_share=0.1, spike=0.2, give_up_min=50.0, give_up_max=60.0)


class End:
    """A node that records what it receives."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pid = ProcessId(name)
        self.answers = True
        self.out: tuple[OneWayChannel, int] | None = None
        self.told: list[str] = []
        self.got: list[int] = []

    def wants(self, name: str) -> bool:
        return name != self.name

    def connect(self, peer: ProcessId, channel: OneWayChannel, life: int) -> None:
        self.out = (channel, life)
        self.told.append(f"+{peer}")

    def disconnect(self, peer: ProcessId, life: int) -> None:
        if self.out is not None and self.out[1] == life:
            self.out = None
            self.told.append(f"-{peer}")

    def frame(self, sender: ProcessId, frame: Frame) -> None:
        assert isinstance(frame, LinkAck)
        assert self.out is not None, f"a frame of {sender} without a connection"
        self.got.append(frame.seqno)


class Pair:
    def __init__(self, delays: Delays = RANDOM, *, coded: bool = False) -> None:
        self.events = EventQueue()
        self.sometimes: Counter[str] = Counter()
        self.network = SimNetwork(self.events, SeededRandom(7), delays, self.sometimes, coded=coded)
        self.a, self.b = End("a"), End("b")
        self.network.add(self.a)
        self.network.add(self.b)

    def send(self, number: int) -> None:
        if self.a.out is not None:
            self.network.carry(*self.a.out, LinkAck(1, number))


def test_frames_of_a_link_arrive_in_order() -> None:
    pair = Pair(coded=True)
    pair.events.run_until(2.0)
    assert (pair.a.told, pair.b.told) == (["+b"], ["+a"])
    for i in range(100):
        pair.events.at(2.0 + i * 0.001, pair.send, i)
    pair.events.run_until(20.0)
    assert pair.b.got == list(range(100))


def test_a_break_loses_frames_in_flight_and_the_pair_reconnects() -> None:
    pair = Pair()
    pair.events.run_until(2.0)
    for i in range(10):
        pair.send(i)
    pair.network.break_connection(pair.network.wire("a", "b"))
    pair.send(10)
    pair.events.run_until(4.0)
    pair.send(11)
    pair.events.run_until(6.0)
    assert pair.b.got == [11]
    assert pair.a.told == ["+b", "-b", "+b"]
    assert pair.sometimes["frames lost with a connection"] == 1


def test_a_second_connection_replaces_the_first_without_a_disconnect() -> None:
    pair = Pair()
    pair.events.run_until(2.0)
    wire = pair.network.wire("a", "b")
    for i in range(10):
        pair.send(i)
    assert pair.network.replace(wire)
    pair.events.run_until(4.0)
    pair.send(10)
    pair.events.run_until(6.0)
    assert pair.b.got == [10]
    assert (pair.a.told, pair.b.told) == (["+b", "+b"], ["+a", "+a"])
    pair.network.break_connection(wire)
    assert not pair.network.replace(wire)
    pair.events.run_until(8.0)
    assert pair.a.told == ["+b", "+b", "-b", "+b"]


def test_a_cut_stalls_one_direction_and_loses_nothing() -> None:
    pair = Pair()
    pair.events.run_until(2.0)
    for i in range(5):
        pair.send(i)
    pair.network.cut("a", "b")
    pair.send(5)
    assert pair.b.out is not None
    pair.network.carry(*pair.b.out, LinkAck(1, 77))
    pair.events.run_until(10.0)
    assert (pair.a.got, pair.b.got) == ([77], [])
    pair.network.mend("a", "b")
    pair.send(6)
    pair.events.run_until(20.0)
    assert pair.b.got == list(range(7))


def test_a_stalled_connection_is_given_up() -> None:
    pair = Pair(Delays(give_up_min=1.0, give_up_max=2.0))
    pair.events.run_until(1.0)
    pair.network.cut("b", "a")
    pair.events.run_until(5.0)
    assert pair.a.told == ["+b", "-b"]
    pair.events.run_until(10.0)
    assert pair.a.told == ["+b", "-b"]
    pair.network.mend("b", "a")
    pair.events.run_until(15.0)
    assert pair.a.told == ["+b", "-b", "+b"]


def test_cuts_that_overlap_heal_when_the_last_one_does() -> None:
    pair = Pair()
    pair.events.run_until(2.0)
    pair.network.cut("a", "b")
    pair.network.cut("a", "b")
    pair.send(1)
    pair.network.mend("a", "b")
    pair.events.run_until(5.0)
    assert pair.b.got == []
    pair.network.mend("a", "b")
    pair.events.run_until(10.0)
    assert pair.b.got == [1]


def test_a_world_that_never_rests_is_stopped() -> None:
    events = EventQueue(handled_max=100)

    def again() -> None:
        events.after(0.0, again)

    again()
    with pytest.raises(TooManyEvents):
        events.run_until(1.0)
