"""CO_RFIFO: specification of reliable FIFO links to a set of peers.

Paper: Khazan's thesis, fig. 4.4. State variables keep its names. The liveness parts (live_set, skip_task) are checked
at the end of a run (`liveness`), not here.
Departs: a crash of p may lose any suffix of channel[p][q], reliable or not, and its reliable_set is {p} again. A crash
of q empties channel[p][q]: nothing that was sent to one life reaches the next. Messages that p sends before it knows of
q's new life may be lost too; the first message that the new life gets shows that p knows.

Internal choice: when did lose(p, q) happen, and how often? A suffix is lost at one moment, so the first message sent
after that moment may directly follow any message sent before it. The checker keeps every possible position of the head
of the channel (`queues.LossyQueue`). It rejects a delivery only when no history of losses explains it, so it makes no
guess at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.specs.queues import LossyQueue
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from cluster.actions import Crashed, LinkDeliver, LinkLive, LinkReliable, LinkSend
    from cluster.messages import Payload
    from cluster.names import ProcessId


class CoRfifoSpec(Spec):
    NAME = "CO_RFIFO"

    def __init__(self) -> None:
        super().__init__()
        self.channel: dict[ProcessId, dict[ProcessId, LossyQueue[Payload]]] = {}  # channel[p][q]
        self.reliable_set: dict[ProcessId, frozenset[ProcessId]] = {}
        self.live_set: dict[ProcessId, frozenset[ProcessId]] = {}
        self.heard: dict[ProcessId, set[ProcessId]] = {}  # heard[q]: senders that q received from since it crashed

    # input send_p(set, m)
    def link_send_eff(self, act: LinkSend, at: ProcessId) -> None:
        reliable = self.reliable_set.get(at, frozenset((at,)))
        channels = self.channel.setdefault(at, {})
        for q in act.to:
            channel = channels.get(q)
            if channel is None:
                channel = channels[q] = LossyQueue()
            if q not in reliable:
                channel.lose()
                self.branch("send: to a process outside of reliable_set[p]")
            channel.put(act.body)

    # output deliver_{p,q}(m)
    def link_deliver_pre(self, act: LinkDeliver, at: ProcessId) -> None:
        channel = self.channel.get(act.sender, {}).get(at)
        if channel is None:
            channel = LossyQueue()
        front = len(channel)
        if at in self.heard and act.sender not in self.heard[at]:
            taken = channel.take_anywhere(act.body)
        else:
            taken = channel.take(act.body)
        self.require(taken, "deliver: m = first(channel[p][q])", *(() if taken else channel.front()[:4]))
        if front - len(channel) > 1:
            self.branch("deliver: after a loss")

    def link_deliver_eff(self, act: LinkDeliver, at: ProcessId) -> None:
        if at in self.heard:
            self.heard[at].add(act.sender)

    # input reliable_p(set), and with it all moments at which lose(p, q) is enabled
    def link_reliable_eff(self, act: LinkReliable, at: ProcessId) -> None:
        self.reliable_set[at] = frozenset(act.members)
        for q, channel in self.channel.get(at, {}).items():
            if q not in act.members:
                channel.lose()

    # input live_p(set)
    def link_live_eff(self, act: LinkLive, at: ProcessId) -> None:
        self.live_set[at] = frozenset(act.members)

    def crashed_eff(self, act: Crashed, at: ProcessId) -> None:
        for channel in self.channel.get(at, {}).values():
            channel.lose()
        self.reliable_set[at] = frozenset((at,))
        for channels in self.channel.values():
            if act.disk_lost:
                channels.pop(at, None)
            elif at in channels:
                channels[at].clear()
        self.heard[at] = set()
