"""An authenticated peer that violates the protocol: arbitrary content in any message, in any state of a group.

The receiving process continues in each case: it rejects the bytes, ignores the message, or ejects the peer. In the
simulated group of a, b and c, the messages come in the name of c. Afterwards c is gone, and a and b are a primary view
that confirms entries.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cluster.entries import Entry, pack
from cluster.layer import Effect, Ejected, KnownPeers
from cluster.messages import (
    AppMsg,
    Batch,
    Data,
    Expertise,
    Frame,
    FwdMsg,
    Info,
    LtMsg,
    OpMsg,
    Plain,
    Queries,
    Registered,
    Slot,
    StMsg,
    Summary,
    SyncMsg,
)
from cluster.names import ProcessId, ViewId, make_view
from cluster.runtime.net.frame_validation import validate_frame
from cluster.runtime.net.wire import BadFrame, decode_frame
from cluster.settings import Settings
from cluster.sim.journal import Journal
from cluster.sim.world import World
from cluster.stack import Process
from tests.cluster.nonsense import FRAMES, PAYLOADS, Nonsense

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Action
    from cluster.durable import Image
    from cluster.layer import RandomSource
    from cluster.messages import Payload
    from cluster.replica import StateMachine
    from cluster.sim.history_machine import History
    from cluster.sim.node import SimNode

A, B, C = (ProcessId(name) for name in "abc")
SUITE = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)


class Hardened(Process):
    """Records `Ejected` effects, which the transport handles in a real process."""

    __slots__ = ("ejected",)

    def __init__(
        self,
        me: ProcessId,
        settings: Settings,
        image: Image,
        machine: StateMachine,
        chance: RandomSource,
        trace: Callable[[Action], None] | None = None,
    ) -> None:
        # With one of the two orders, the process also has the interim service and the data service.
        shared = Journal() if settings.order == "atop" else None
        queryable = cast("History", machine) if settings.order == "atop" else None
        super().__init__(me, settings, image, machine, chance, trace, shared=shared, queryable=queryable)
        self.ejected: list[Ejected] = []

    def take(self, *, more: bool = False) -> list[Effect]:
        effects = super().take(more=more)
        self.ejected += [effect for effect in effects if isinstance(effect, Ejected)]
        return [KnownPeers(()) if isinstance(effect, Ejected) else effect for effect in effects]


def group(order: str) -> World:
    world = World(Hardened, settings=Settings(order=order, snapshot_every=8)).start("abc")
    for number in range(4):
        world.broadcast("a", b"a%d" % number).broadcast("c", b"c%d" % number)
    return world.run(0.5)


def process(world: World, name: str = "a") -> Hardened:
    found = world.nodes[name].process
    assert isinstance(found, Hardened)
    return found


def hear(node: SimNode, frame: Frame) -> bool:
    """Delivers a frame of c to this node if decoding and validation accept it. Returns whether they do."""
    try:
        decoded = decode_frame(msgspec.msgpack.encode(frame))
        if isinstance(decoded, Data):
            validate_frame(decoded.body)
    except BadFrame:
        return False
    node.frame(C, decoded)  # type: ignore[arg-type]
    return True


def say(world: World, payload: Payload) -> bool:
    """Sends a message from c to a and b as the next of its stream. Returns whether validation accepted it."""
    heard = []
    for name in "ab":
        node = world.nodes[name]
        if node.process is not None:
            link = process(world, name).links.link(C)
            heard.append(hear(node, Data(max(1, link.in_stream), link.in_seqno + 1, payload)))
    return all(heard)


def in_order(world: World, body: Any) -> AppMsg:
    """Sends the message in c's next place of the order."""
    order = process(world).order
    if world.settings.order == "sequencer":
        return AppMsg(Plain(0, body))
    dist, seqno = order.rcvd[order.rank[C]]  # type: ignore[attr-defined]
    return AppMsg(Slot(dist, seqno, 1, None, 0, body))


def goes_on(world: World) -> None:
    """Asserts that the others form a primary view without c and confirm entries."""
    world.crash("c")
    world.run_until(lambda: world.has_primary("ab"), within=40.0, what="a primary view of a and b")
    before = world.nodes["b"].delivered_count
    world.broadcast("b", b"goes on")
    world.run_until(lambda: world.nodes["b"].delivered_count > before, within=40.0, what="b sees its entry confirmed")


VIEW = group("atop").nodes["a"].primary
assert VIEW is not None
NONSENSE = Nonsense(VIEW)
ORDERS = st.sampled_from(("atop", "sequencer"))


@pytest.mark.parametrize("kind", [*PAYLOADS, *FRAMES], ids=lambda kind: kind.__name__)
def test_any_content_of_any_message(kind: type) -> None:
    @SUITE
    @given(order=ORDERS, said=st.lists(NONSENSE.of(kind), min_size=1, max_size=4), missing=st.booleans())
    def story(order: str, said: list[Any], missing: bool) -> None:
        world = group(order)
        if missing:
            world.crash("b").run(0.1)  # a view change is in progress
        for what in said:
            if kind in PAYLOADS:
                say(world, what)
            else:
                hear(world.nodes["a"], what)
            world.run(0.01)
        if missing:
            world.restart("b")
        goes_on(world)

    story()


@pytest.mark.parametrize("kind", [Batch, Summary, Info, Registered, Expertise, Queries], ids=lambda kind: kind.__name__)
def test_any_content_in_its_place_of_the_order(kind: type) -> None:
    @SUITE
    @given(order=ORDERS, said=st.lists(NONSENSE.of(kind), min_size=1, max_size=3))
    def story(order: str, said: list[Any]) -> None:
        world = group(order)
        for what in said:
            say(world, in_order(world, what))
            world.run(0.01)
        goes_on(world)
        if order == "atop":
            world.query("a", b"x")
            world.run_until(lambda: not world.nodes["a"].requested, within=40.0, what="an answer")

    story()


@pytest.mark.parametrize("kind", [OpMsg, LtMsg, StMsg], ids=lambda kind: kind.__name__)
def test_any_content_for_the_interim_service(kind: type) -> None:
    @SUITE
    @given(order=ORDERS, said=st.lists(NONSENSE.of(kind), min_size=1, max_size=4), merging=st.booleans())
    def story(order: str, said: list[Any], merging: bool) -> None:
        world = group(order)
        if merging:
            world.partition("b").run(3.0).heal().upon("InterimView", lambda: [say(world, AppMsg(one)) for one in said])
            world.run(3.0)
        for what in said:
            say(world, AppMsg(what))
            world.run(0.01)
        goes_on(world)
        if order == "atop":
            world.request("a", b"x")
            world.run_until(lambda: not world.nodes["a"].requested, within=40.0, what="a response")

    story()


FORGED = make_view(2**31, {C: 1})


@pytest.mark.parametrize(
    "body",
    [
        Batch(1, pack([Entry("a", b"once more")])),
        Batch(999, pack([Entry("a", b"far ahead")])),
        Batch(5, pack([])),
        Summary(0, 0, (), (), None, ()),
        Summary(0, 10**6, (), (), ViewId(2**31, ""), ()),
        Info(None, ()),
        Info(FORGED, (FORGED,)),
    ],
    ids=["label again", "label ahead", "nothing", "summary again", "a later primary", "info again", "a view to come"],
)
@pytest.mark.parametrize("order", ["atop", "sequencer"])
def test_unexpected_messages_are_ignored_and_their_sender_ejected(order: str, body: Any) -> None:
    world = group(order)
    before = process(world).primary.act
    assert say(world, in_order(world, body))
    world.run(0.5)
    for name in "ab":
        assert [ejected.peer for ejected in process(world, name).ejected] == [C]
    assert process(world).primary.act == before
    goes_on(world)


def test_an_impossible_cut() -> None:
    world = group("atop")
    assert VIEW is not None
    for cut in ((10**9, 0, 0), (0,), (0, -1, 0)):
        assert say(world, SyncMsg(10**6, VIEW.id, cut))
    world.run(0.1)
    assert [ejected.peer for ejected in process(world).ejected] == [C, C, C]
    goes_on(world)


@pytest.mark.parametrize("origin", [A, B, C, ProcessId("x")], ids=str)
def test_forwarded_messages_of_anybody(origin: ProcessId) -> None:
    world = group("atop")
    assert VIEW is not None
    for index in (-1, 0, 1, 10**9):
        say(world, FwdMsg(origin, VIEW.id, Plain(0, Registered()), index))
    goes_on(world)
