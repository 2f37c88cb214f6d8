"""The stack as one list, and a process made of it.

A process is a pure automaton of automata: inputs are method calls with the time, outputs are the effects that `take`
returns. Whoever runs it (a simulator, sockets and disks) does what the effects say, in their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.atop import Atop
from cluster.detector import Detector
from cluster.durable import Boot, Image
from cluster.layer import Chance, Effect, Persist, Surroundings
from cluster.links import Links
from cluster.membership import Membership
from cluster.messages import Ack, AppMsg, Frame, FwdMsg, Proposal, Resume, Supply, SyncMsg, ViewMsg
from cluster.primary import PrimaryViews
from cluster.replica import ReplicaLayer, StateMachine
from cluster.self_delivery import SelfDelivery
from cluster.sequencer import Sequencer
from cluster.total_order import TotalOrder

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.actions import Action
    from cluster.names import ProcessId
    from cluster.settings import Settings

# Bottom to top. Each layer speaks to its neighbours and to nobody else, but for two short cuts: acknowledgements of the
# view order and supplies of the total order go straight to the links, because they need no order of their own.
STACK = (
    Links,  # CO_RFIFO: reliable FIFO links to the peers asked for
    Detector,  # who can be heard
    Membership,  # MBRSHP: start_change, view
    SelfDelivery,  # WV_RFIFO > VS_RFIFO+TS > SELF: virtual synchrony, one round
    (Atop, Sequencer),  # VS: one order in the view, and safe; either of the two
    PrimaryViews,  # VS-TO-DVS: which views may decide
    TotalOrder,  # DVS-TO-TO: one order over all primary views
    ReplicaLayer,  # a deterministic state machine
)


class Process:
    __slots__ = ("around", "boot", "detector", "endpoint", "links", "membership", "order", "primary", "replica",
                 "settings", "total_order")  # fmt: skip

    def __init__(
        self,
        me: ProcessId,
        settings: Settings,
        image: Image,
        machine: StateMachine,
        chance: Chance,
        trace: Callable[[Action], None] | None = None,
    ) -> None:
        self.settings = settings
        self.around = around = Surroundings(me, chance, trace)
        self.boot = image.boot + 1
        self.links = Links(around, settings, self.boot)
        self.detector = Detector(around, settings)
        self.membership = Membership(around, settings, image.epoch, self.boot)
        self.endpoint = SelfDelivery(around)
        self.order = {"atop": Atop, "sequencer": Sequencer}[settings.order](around, settings)
        self.primary = PrimaryViews(around, image)
        self.total_order = TotalOrder(around, settings, image)
        self.replica = ReplicaLayer(around, settings, machine)
        self._wire()

    def _wire(self) -> None:
        endpoint, order = self.endpoint, self.order
        self.links.above = {
            ViewMsg: endpoint.link_deliver,
            AppMsg: endpoint.link_deliver,
            FwdMsg: endpoint.link_deliver,
            SyncMsg: endpoint.link_deliver,
            Ack: order.ack_received,
            Supply: self.total_order.supplied,
            Resume: self.total_order.resume,
        }
        self.links.detector, self.links.membership = self.detector, self.membership
        self.detector.above = self.membership
        self.membership.links, self.membership.detector, self.membership.above = self.links, self.detector, endpoint
        endpoint.below, endpoint.above = self.links, order
        order.below, order.above, order.links = endpoint, self.primary, self.links
        self.primary.below, self.primary.above = order, self.total_order
        self.total_order.below, self.total_order.above = self.primary, self.replica
        self.total_order.links = self.links
        self.replica.below = self.total_order

    # ---- inputs

    def start(self, now: float) -> None:
        self.around.now = now
        self.around.outbox.append(Persist(Boot(self.boot)))
        self.total_order.start()
        self.membership.start()

    def tick(self, now: float) -> None:
        """The time has come that `next_deadline` named, or any other."""
        self.around.now = now
        self.links.tick()
        self.detector.tick()
        self.membership.tick()
        self.total_order.tick()
        self._leave_when_done()

    def connected(self, now: float, peer: ProcessId) -> None:
        self.around.now = now
        self.detector.connected(peer)
        self.links.connected(peer)

    def disconnected(self, now: float, peer: ProcessId) -> None:
        self.around.now = now
        self.links.disconnected(peer)
        self.detector.disconnected(peer)

    def received(self, now: float, peer: ProcessId, frame: Frame) -> None:
        self.around.now = now
        if type(frame) is Proposal:
            self.detector.heard(peer)
            self.membership.received(peer, frame)
        else:
            self.links.received(peer, frame)  # first: a Hello says which life of the peer is heard
            self.detector.heard(peer)

    def submit(self, now: float, body: bytes) -> int:
        return self.submit_all(now, (body,))[0]

    def submit_all(self, now: float, bodies: Sequence[bytes]) -> Sequence[int]:
        """Several at once: they travel in as few messages as possible."""
        self.around.now = now
        return self.replica.submit_all(bodies)

    def withdraw(self, now: float, ticket: int) -> bool:
        self.around.now = now
        return self.replica.withdraw(ticket)

    def leave(self, now: float) -> None:
        """Go for good: refuse what has no label, see the rest delivered, then say good-bye."""
        self.around.now = now
        self.replica.leave()
        self._leave_when_done()

    def _leave_when_done(self) -> None:
        if self.replica.leaving and not self.replica.unresolved:
            self.membership.leave()

    @property
    def is_behind(self) -> bool:
        """Whether there is more to deliver, which it wants to be called for at once: `tick` brings some of it."""
        return self.total_order.is_behind

    # ---- outputs

    def take(self, *, more: bool = False) -> list[Effect]:
        """The effects of the inputs since the last time. `more`: another input follows at once, and an acknowledgement
        can wait for it, perhaps to leave with a message."""
        if not more:
            self.order.settle()
        outbox = self.around.outbox
        self.around.outbox = []
        return outbox

    def next_deadline(self) -> float:
        return min(
            self.links.next_deadline(),
            self.detector.next_deadline(),
            self.membership.next_deadline(),
            self.total_order.next_deadline(),
        )
