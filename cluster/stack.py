"""Protocol stack: the ordered list of layers, and a process built from it.

A process is a pure automaton made of automata. Inputs are method calls with the time, outputs are the effects that
`take` returns. The runner (a simulator, or a runtime with sockets and disks) performs the effects in order and reports
when records were written (`performed`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import get_annotations
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple

from cluster.adaptive_order import AdaptiveOrder
from cluster.data.order_fork import OrderFork
from cluster.data.replica import DataReplica, Queryable
from cluster.detector import Detector
from cluster.durable import Boot, Image
from cluster.endpoint import Endpoint
from cluster.interim.endpoint_fork import EndpointFork
from cluster.interim.replica import InterimReplica
from cluster.layer import Context, Effect, Ejected, Persist, RandomSource
from cluster.links import Links
from cluster.membership import Membership
from cluster.messages import (
    Ack,
    Answers,
    AppMsg,
    Frame,
    FwdMsg,
    Message,
    Proposal,
    Resume,
    Supply,
    SyncMsg,
    ViewMsg,
)
from cluster.primary import PrimaryViews
from cluster.replica import ReplicaLayer, StateMachine
from cluster.sequencer import Sequencer
from cluster.total_order import TotalOrder
from cluster.view_order import ViewOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.actions import Action
    from cluster.interim.shared_object import SharedObject
    from cluster.names import ProcessId
    from cluster.settings import Settings

ORDERS: dict[str, type[AdaptiveOrder | Sequencer]] = {"atop": AdaptiveOrder, "sequencer": Sequencer}


class Parts(NamedTuple):
    """The arguments from which the layers of a process are built."""

    context: Context
    settings: Settings
    image: Image
    boot: int
    machine: StateMachine


class Layer(NamedTuple):
    """A row of the stack: its attribute name in the process, its constructor, and the link payloads it receives."""

    name: str
    make: Callable[[Parts], Any]
    receives: Mapping[type[Message], Callable[..., None]] = {}


# Bottom to top. The class annotations of a layer name the layers it calls: `above` and `below` are the
# next layers of this list, other names are looked up in it. Acknowledgements of the view order and supplies of the
# total order need no multicast order, so these two layers call the links directly as well.
STACK = (
    # CO_RFIFO: reliable FIFO links to the peers asked for
    Layer("links", lambda of: Links(of.context, of.settings, of.boot)),
    # failure detector: which peers can be heard
    Layer("detector", lambda of: Detector(of.context, of.settings)),
    # MBRSHP: start_change, view
    Layer("membership", lambda of: Membership(of.context, of.settings, of.image.epoch, of.boot)),
    # WV_RFIFO > VS_RFIFO+TS > SELF: virtual synchrony, one round
    Layer(
        "endpoint",
        lambda of: Endpoint(of.context),
        dict.fromkeys((ViewMsg, AppMsg, FwdMsg, SyncMsg), Endpoint.link_deliver),
    ),
    # VS: one order in the view, and safe indications; two implementations
    Layer("order", lambda of: ORDERS[of.settings.order](of.context, of.settings), {Ack: ViewOrder.ack_received}),
    # VS-TO-DVS: which views are primary
    Layer("primary", lambda of: PrimaryViews(of.context, of.image)),
    # DVS-TO-TO: one order over all primary views
    Layer(
        "total_order",
        lambda of: TotalOrder(of.context, of.settings, of.image),
        {Supply: TotalOrder.supplied, Resume: TotalOrder.resume},
    ),
    # a deterministic state machine
    Layer("replica", lambda of: ReplicaLayer(of.context, of.settings, of.machine)),
)

# Observers, by the name of the layer below them. Each gets the process and the layer above, and returns a replacement
# of that layer which observes all calls and forwards them.
Taps = Mapping[str, Callable[["Process", Any], object]]
NO_TAPS: Taps = {}


def neighbours(kind: type) -> list[str]:
    """The attributes of a layer class that are references to other layers."""
    return [name for parent in kind.__mro__ for name in get_annotations(parent)]


class Process:
    """A group member: all layers of `STACK`, built and connected, and the services beside them that it has."""

    __slots__ = ("_interim_records", "boot", "context", "data", "detector", "endpoint", "interim", "links",
                 "membership", "order", "primary", "replica", "settings", "total_order")  # fmt: skip

    links: Links
    detector: Detector
    membership: Membership
    endpoint: Endpoint
    order: ViewOrder
    primary: PrimaryViews
    total_order: TotalOrder
    replica: ReplicaLayer

    def __init__(
        self,
        me: ProcessId,
        settings: Settings,
        image: Image,
        machine: StateMachine,
        chance: RandomSource,
        trace: Callable[[Action], None] | None = None,
        taps: Taps = NO_TAPS,
        *,
        is_volatile: bool = False,
        shared: SharedObject | None = None,
        queryable: Queryable | None = None,
        wall_clock: Callable[[], float] = lambda: 0.0,
    ) -> None:
        """Build the layers of `STACK` and connect them.

        `trace` is called with every action of every layer; `taps` are observers between layers. `is_volatile`: the
        runner writes no records and does not call `performed`. `shared`: the object of the interim service, which
        is beside the view order, above the end-point. `queryable`: the state machine, if the data service shares its
        queries; the service is beside the primary views, above the view order. `wall_clock`: tells a restarted process
        how old its records are.
        """
        self.settings = settings
        self.context = Context(me, chance, trace, is_volatile=is_volatile)
        self.boot = image.boot + 1
        parts = Parts(self.context, settings, image, self.boot, machine)
        for row in STACK:
            setattr(self, row.name, row.make(parts))
        self._wire(taps)
        self.interim: InterimReplica | None = None
        self._interim_records = image.interim
        if shared is not None:
            self.interim = InterimReplica(self.context, settings, shared, wall_clock)
            self._share_endpoint(self.interim)
        self.data: DataReplica | None = None
        self.links.above[Answers] = self._refuse_answer
        if queryable is not None:
            self.data = DataReplica(self.context, settings, queryable, self.links, self.total_order, self.replica)
            self._share_order(self.data)

    def _share_endpoint(self, interim: InterimReplica) -> None:
        interim.fork = fork = EndpointFork(self.endpoint, self.endpoint.above, interim)
        self.endpoint.above = fork
        self.order.below = fork

    def _share_order(self, data: DataReplica) -> None:
        data.fork = fork = OrderFork(self.order, self.order.above, data)
        self.order.above = fork
        self.primary.below = fork
        self.links.above[Answers] = data.answers_received

    def _refuse_answer(self, sender: ProcessId, _answer: Answers) -> None:
        self.context.outbox.append(Ejected(sender, "an answer to a query, but this process does not ask"))

    def _wire(self, taps: Taps) -> None:
        layers = {row.name: getattr(self, row.name) for row in STACK}
        if unknown := taps.keys() - layers.keys():
            raise ValueError(f"unknown layer: {', '.join(sorted(unknown))}")
        in_order = [None, *layers.values(), None]
        for row, below, layer, above in zip(STACK, in_order, in_order[1:], in_order[2:], strict=False):
            tap = taps.get(row.name)
            near = {**layers, "below": below, "above": tap(self, above) if tap is not None else above}
            for name in neighbours(type(layer)):
                setattr(layer, name, near[name])
            for kind, handler in row.receives.items():
                self.links.above[kind] = getattr(layer, handler.__name__)

    # ---- inputs

    def start(self, now: float) -> None:
        self.context.now = now
        self.context.outbox.append(Persist(Boot(self.boot)))
        self.total_order.start()
        if self.interim is not None:
            self.interim.start(self._interim_records)
        self.membership.start()

    def tick(self, now: float) -> None:
        """Handles the passing of time: the deadline of `next_deadline`, or any other time."""
        self.context.now = now
        self.links.tick()
        self.detector.tick()
        self.membership.tick()
        self.total_order.tick()
        if self.data is not None:
            self.data.tick()
        self._leave_when_done()

    def connected(self, now: float, peer: ProcessId) -> None:
        self.context.now = now
        self.detector.connected(peer)
        self.links.connected(peer)

    def disconnected(self, now: float, peer: ProcessId) -> None:
        self.context.now = now
        self.links.disconnected(peer)
        self.detector.disconnected(peer)

    def received(self, now: float, peer: ProcessId, frame: Frame) -> None:
        self.context.now = now
        if type(frame) is Proposal:
            self.detector.heard(peer)
            self.membership.received(peer, frame)
        else:
            self.links.received(peer, frame)  # first: a Hello tells which life of the peer this is
            self.detector.heard(peer)

    def submit(self, now: float, body: bytes) -> int:
        return self.submit_all(now, (body,))[0]

    def submit_all(self, now: float, bodies: Sequence[bytes]) -> Sequence[int]:
        """Submits several entries at once: they travel in as few messages as possible."""
        self.context.now = now
        return self.replica.submit_all(bodies)

    def withdraw(self, now: float, ticket: int) -> bool:
        self.context.now = now
        return self.replica.withdraw(ticket)

    def request(self, now: float, body: bytes) -> int:
        """Requests an operation on the shared object of the interim service."""
        self.context.now = now
        if self.interim is None:
            raise RuntimeError("this process has no shared object")
        return self.interim.request(body)

    def query(self, now: float, body: bytes, seen: int) -> int:
        """Asks the data service, on behalf of a client that has seen the state at index `seen`."""
        self.context.now = now
        if self.data is None:
            raise RuntimeError("this process does not have the data service")
        return self.data.request(body, seen)

    def withdraw_query(self, now: float, ticket: int) -> bool:
        """The client no longer waits for its answer. Returns False if the answer is among the effects already."""
        self.context.now = now
        return self.data is not None and self.data.withdraw(ticket)

    def load_reported(self, now: float, name: str, age_s: float, waiting: int, service_us: int) -> None:
        """Notes the load that this member of the data service reported `age_s` seconds ago."""
        self.context.now = now
        if self.data is not None:
            self.data.load_reported(name, now - age_s, waiting, service_us)

    def performed(self, now: float, count: int) -> None:
        """The first `count` effects of this life took place, so the records among them are on disk.

        To be called after records were written: the state machine sees an entry only when it is on the local disk.
        """
        self.context.now = now
        self.total_order.performed(count)

    def leave(self, now: float) -> None:
        """Leaves for good: refuses entries without a label, delivers the rest, then announces its departure."""
        self.context.now = now
        self.replica.leave()
        self._leave_when_done()

    def _leave_when_done(self) -> None:
        if self.replica.leaving and not self.replica.unresolved:
            self.membership.leave()

    @property
    def is_behind(self) -> bool:
        """Whether there is more work to do at once: call `tick` without delay to do the next step."""
        return self.total_order.is_behind or (self.data is not None and bool(self.data.queries))

    # ---- outputs

    def take(self, *, more: bool = False) -> list[Effect]:
        """Returns the effects of the inputs since the last call.

        `more`: another input follows at once, so an acknowledgement can wait for it and perhaps be piggybacked on a
        message.
        """
        if self.data is not None:
            self.data.settle()
        if not more:
            self.order.settle()
            if self.interim is not None:
                self.interim.settle()
        return self.context.take()

    def next_deadline(self) -> float:
        return min(
            self.links.next_deadline(),
            self.detector.next_deadline(),
            self.membership.next_deadline(),
            self.total_order.next_deadline(),
            self.data.next_deadline() if self.data is not None else inf,
        )
