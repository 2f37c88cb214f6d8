"""Reliable FIFO links: numbered streams to selected peers over connections that break and come back.

Paper: Khazan's thesis, fig. 4.4 (CO_RFIFO). `channel[p][q]` is the queue of payloads that q has not acknowledged yet.
Departs: channels are streams. Each time q enters the reliable set, a new stream to it begins, numbered from 1. Payloads
not delivered when q leaves the set are lost: a suffix. Payloads sent to a process outside the set are lost at once. A
peer that comes back in a new life gets nothing that was meant for the old one.
Above: the payloads' receivers, by type.  Below: frames on connections, `Hello` first.

A connection carries no `Data` before the peer's `Hello` said which life of the peer this is and how much of our stream
it has. The rest of the stream is sent again from there, so a break loses nothing and repeats nothing.
A long series for one peer (`feed`) enters the stream piece by piece, as the peer acknowledges the pieces before. So the
peer never looks stalled, and after a break the series resumes where it was.
"""

from __future__ import annotations

from collections import deque
from math import inf
from typing import TYPE_CHECKING, Any, Protocol

from cluster.actions import LinkDeliver, LinkLive, LinkReliable, LinkSend
from cluster.layer import Context, Send
from cluster.messages import Data, Hello, LinkAck, Payload, Supply

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.names import ProcessId
    from cluster.settings import Settings

ACK_EVERY = 32  # payloads received before an acknowledgement is sent without waiting for the next tick
FED_FIRST = 2  # pieces of a feed sent at once: the peer may reply that it has the others already
FED_MAX = 32  # pieces of a feed in flight at a time


class PeerShunning(Protocol):
    """The part of the failure detector that the links use."""

    def shun(self, peer: ProcessId, until: float) -> None: ...


class RestartListener(Protocol):
    """The part of the membership that the links notify."""

    def restarted(self, peer: ProcessId) -> None: ...


class Link:
    """State of both directions between this process and one peer."""

    __slots__ = (
        "asked", "boot", "connected", "fed", "greeted", "in_seqno", "in_stream", "later", "overfull", "owed",
        "reliable", "seqno", "step", "stream", "unacked",
    )  # fmt: skip

    def __init__(self) -> None:
        self.connected = False
        self.greeted = False  # the peer's Hello arrived on this connection
        self.boot = 0  # the last known life of the peer
        # to the peer
        self.reliable = False  # in the reliable set
        self.stream = 0
        self.seqno = 0  # of the last payload sent in this stream
        self.unacked: deque[Payload] = deque()  # the last of them is number `seqno`
        self.overfull = False
        self.later: deque[Payload] = deque()  # rest of a feed, not in the stream yet
        self.fed = 0  # the number of the last payload of the feed that was sent
        self.step = FED_FIRST  # how many pieces are sent next; grows each time
        # from the peer
        self.in_stream = 0
        self.in_seqno = 0
        self.owed = 0  # payloads received and not acknowledged
        self.asked = False  # a resend was requested because of a gap

    def new_stream(self) -> None:
        self.stream += 1
        self.seqno = self.fed = 0
        self.unacked.clear()
        self.later.clear()

    def acknowledged(self, seqno: int) -> None:
        """Drops the payloads up to `seqno`: the peer has them."""
        for _ in range(seqno - (self.seqno - len(self.unacked))):
            self.unacked.popleft()


class Links:
    """The links of one process to all its peers (CO_RFIFO)."""

    __slots__ = ("_ack_at", "_links", "above", "boot", "connected_peers", "context", "detector", "live_set",
                 "membership", "reliable_set", "resent", "settings")  # fmt: skip

    detector: PeerShunning
    membership: RestartListener

    def __init__(self, context: Context, settings: Settings, boot: int) -> None:
        self.context = context
        self.settings = settings
        self.above: dict[type, Callable[[ProcessId, Any], None]] = {}
        self.boot = boot  # which life of this process it is
        self._links: dict[ProcessId, Link] = {}
        self.connected_peers: tuple[ProcessId, ...] = ()
        self.reliable_set: tuple[ProcessId, ...] = (context.me,)
        self.live_set: tuple[ProcessId, ...] = (context.me,)
        self._ack_at = inf
        self.resent = 0  # payloads sent at the start of a connection: resent, or queued while disconnected

    def link(self, peer: ProcessId) -> Link:
        found = self._links.get(peer)
        if found is None:
            found = self._links[peer] = Link()
        return found

    # ---- from above

    def send(self, to: tuple[ProcessId, ...], body: Payload) -> None:
        if self.context.trace is not None:
            self.context.trace(LinkSend(to, body))
        links, outbox = self._links, self.context.outbox
        for peer in to:
            link = links.get(peer)
            if link is None or not link.reliable:
                continue
            link.seqno += 1
            link.unacked.append(body)
            if link.greeted:
                outbox.append(Send((peer,), Data(link.stream, link.seqno, body)))

    def reliable(self, members: tuple[ProcessId, ...]) -> None:
        if self.context.trace is not None:
            self.context.trace(LinkReliable(members))
        me, before = self.context.me, self.reliable_set
        self.reliable_set = members
        for peer in before:
            if peer not in members and peer != me:
                link = self.link(peer)
                link.reliable = False
                link.unacked.clear()
                link.later.clear()
        for peer in members:
            if peer not in before and peer != me:
                link = self.link(peer)
                link.reliable = True
                link.new_stream()

    def live(self, members: tuple[ProcessId, ...]) -> None:
        if self.context.trace is not None:
            self.context.trace(LinkLive(members))
        self.live_set = members

    def feed(self, peer: ProcessId, pieces: Sequence[Payload]) -> None:
        """Sends a long series of payloads at the pace of the peer. Replaces the rest of an earlier series."""
        link = self._links.get(peer)
        if link is not None and link.reliable:
            link.later = deque(pieces)
            link.step = FED_FIRST
            self._feed(peer, link)

    def skip(self, peer: ProcessId, is_needed: Callable[[Payload], bool]) -> None:
        """Removes the payloads that the peer does not need from its feed."""
        link = self.link(peer)
        link.later = deque(filter(is_needed, link.later))

    def stop_feeding(self) -> None:
        """Discards the rest of all feeds."""
        for link in self._links.values():
            link.later.clear()

    def _feed(self, peer: ProcessId, link: Link) -> None:
        """Sends the next pieces of a feed once the peer has all earlier ones. They never fill the queue."""
        if link.later and link.fed <= link.seqno - len(link.unacked):
            for _ in range(min(link.step, len(link.later))):
                self.send((peer,), link.later.popleft())
            link.fed = link.seqno
            link.step = min(2 * link.step, FED_MAX, max(1, self.settings.link_len_max // 4))

    # ---- from below

    def connected(self, peer: ProcessId) -> None:
        link = self.link(peer)
        link.connected = True
        link.greeted = link.asked = False
        self._connections_changed()
        self._greet(peer, link)

    def disconnected(self, peer: ProcessId) -> None:
        link = self.link(peer)
        link.connected = link.greeted = False
        self._connections_changed()

    def _connections_changed(self) -> None:
        self.connected_peers = tuple(sorted(peer for peer, link in self._links.items() if link.connected))

    def _greet(self, peer: ProcessId, link: Link) -> None:
        link.owed = 0
        self.context.outbox.append(Send((peer,), Hello(self.boot, link.boot, link.in_stream, link.in_seqno)))

    def received(self, peer: ProcessId, frame: Hello | Data | LinkAck) -> None:
        link = self._links.get(peer)
        if link is None or not link.connected:
            return
        if type(frame) is Data:
            self._data(peer, link, frame)
        elif type(frame) is LinkAck:
            if frame.stream == link.stream and link.seqno - len(link.unacked) < frame.seqno <= link.seqno:
                link.acknowledged(frame.seqno)
                self._feed(peer, link)
        elif type(frame) is Hello:
            self._hello(peer, link, frame)

    def _data(self, peer: ProcessId, link: Link, frame: Data) -> None:
        if frame.stream == link.in_stream:
            expected = link.in_seqno + 1
        elif frame.stream > link.in_stream:
            expected = 1
        else:
            return
        if frame.seqno != expected or not link.greeted:
            if frame.seqno > expected and not link.asked:
                link.asked = True
                self._greet(peer, link)
            return
        link.in_stream = frame.stream
        link.in_seqno = expected
        link.asked = False
        link.owed += 1
        if link.owed >= ACK_EVERY or type(frame.body) is Supply:  # the feed waits for this acknowledgement
            self._acknowledge(peer, link)
        elif self._ack_at == inf:
            self._ack_at = self.context.now + self.settings.heartbeat
        body = frame.body
        if self.context.trace is not None:
            self.context.trace(LinkDeliver(peer, body))
        self.above[type(body)](peer, body)

    def _acknowledge(self, peer: ProcessId, link: Link) -> None:
        link.owed = 0
        self.context.outbox.append(Send((peer,), LinkAck(link.in_stream, link.in_seqno)))

    def _hello(self, peer: ProcessId, link: Link, hello: Hello) -> None:
        link.greeted = True
        restarted = link.boot not in (0, hello.boot)
        if hello.boot != link.boot:
            link.boot = hello.boot
            link.in_stream = link.in_seqno = link.owed = 0
        if not restarted:
            has = hello.seqno if hello.your_boot == self.boot and hello.stream == link.stream else 0
            if link.seqno - len(link.unacked) <= has <= link.seqno:
                link.acknowledged(has)
            else:
                restarted = link.reliable  # it lost what it had acknowledged: a new life, whatever it says
        if restarted:
            link.new_stream()
            self.membership.restarted(peer)
            return
        self.resent += len(link.unacked)
        first = link.seqno - len(link.unacked) + 1
        for seqno, body in enumerate(link.unacked, first):
            self.context.outbox.append(Send((peer,), Data(link.stream, seqno, body)))
        self._feed(peer, link)

    # ---- time

    def tick(self) -> None:
        for peer, link in list(self._links.items()):
            overfull = len(link.unacked) >= self.settings.link_len_max or (link.overfull and link.reliable)
            if overfull != link.overfull:
                # Shun the peer until its queue was given up and a while longer, or it would be back at once.
                link.overfull = overfull
                self.detector.shun(peer, inf if overfull else self.context.now + 4 * self.settings.suspect_max)
        if self.context.now >= self._ack_at:
            self._ack_at = inf
            for peer, link in self._links.items():
                if link.owed and link.greeted:
                    self._acknowledge(peer, link)

    def next_deadline(self) -> float:
        return self._ack_at
