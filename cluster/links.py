"""Reliable FIFO links to the peers asked for, over connections that break and come back.

Paper: Khazan's thesis, fig. 4.4 (CO_RFIFO). `channel[p][q]` is the queue of what q has not acknowledged yet.
Departs: channels are streams. Each entry of q into the reliable set begins a new stream to it, numbered from 1, and
what is not delivered when q leaves the set is lost: a suffix. What is sent to somebody outside the set is lost at once.
A peer that comes back in a new life gets nothing that was meant for the old one.
Above: the payloads' receivers, by type.  Below: frames on connections, `Hello` first.

A connection carries no `Data` before the peer's `Hello` said which life of it this is and how far it has our stream.
From there everything else of the stream is sent again, so a break loses nothing and repeats nothing.
A long series for one peer (`feed`) enters the stream piece by piece, as the peer acknowledges what came before: so it
never looks like a peer that takes nothing, and goes on after a break where it was.
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

ACK_EVERY = 32  # payloads received after which an acknowledgement leaves without waiting for the next tick
FED_FIRST = 2  # pieces of a feed that are sent at once: the peer may have the others already, and says so
FED_MAX = 32  # that are on their way at a time


class Suspicion(Protocol):
    """What the links ask of the failure detector."""

    def shun(self, peer: ProcessId, until: float) -> None: ...


class Lives(Protocol):
    """What the links tell the membership."""

    def restarted(self, peer: ProcessId) -> None: ...


class Link:
    """Both directions between this process and one peer."""

    __slots__ = (
        "asked", "boot", "connected", "fed", "greeted", "in_seqno", "in_stream", "later", "overfull", "owed",
        "reliable", "seqno", "step", "stream", "unacked",
    )  # fmt: skip

    def __init__(self) -> None:
        self.connected = False
        self.greeted = False  # the peer's Hello arrived on this connection
        self.boot = 0  # the life of the peer that we know
        # to the peer
        self.reliable = False  # in the reliable set
        self.stream = 0
        self.seqno = 0  # of the last payload sent in this stream
        self.unacked: deque[Payload] = deque()  # the last of them is number `seqno`
        self.overfull = False
        self.later: deque[Payload] = deque()  # of a feed, in no stream yet
        self.fed = 0  # the number of the last payload of the feed that was sent
        self.step = FED_FIRST  # how many of it are sent next; more each time
        # from the peer
        self.in_stream = 0
        self.in_seqno = 0
        self.owed = 0  # payloads received and not acknowledged
        self.asked = False  # a gap was seen, and a resend asked for

    def new_stream(self) -> None:
        self.stream += 1
        self.seqno = self.fed = 0
        self.unacked.clear()
        self.later.clear()

    def acknowledged(self, seqno: int) -> None:
        """The peer has the stream up to `seqno`, which was sent."""
        for _ in range(seqno - (self.seqno - len(self.unacked))):
            self.unacked.popleft()


class Links:
    """CO_RFIFO at one process."""

    __slots__ = (
        "_ack_at",
        "_links",
        "above",
        "boot",
        "connected_peers",
        "context",
        "detector",
        "live_set",
        "membership",
        "reliable_set",
        "resent",
        "settings",
    )  # fmt: skip

    detector: Suspicion
    membership: Lives

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
        self.resent = 0  # payloads that went into a connection at its beginning: sent before, or held meanwhile

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
        """Send these in their order, as fast as the peer takes them. What was left of another feed is forgotten."""
        link = self._links.get(peer)
        if link is not None and link.reliable:
            link.later = deque(pieces)
            link.step = FED_FIRST
            self._feed(peer, link)

    def skip(self, peer: ProcessId, is_needed: Callable[[Payload], bool]) -> None:
        """Leave out what the peer does not need of its feed."""
        link = self.link(peer)
        link.later = deque(filter(is_needed, link.later))

    def stop_feeding(self) -> None:
        """What is left of all feeds is of no use any more."""
        for link in self._links.values():
            link.later.clear()

    def _feed(self, peer: ProcessId, link: Link) -> None:
        """The next pieces, when all that were sent are with the peer: a part of what makes a queue overfull."""
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
        if link.owed >= ACK_EVERY or type(frame.body) is Supply:  # a feed goes on when it is told
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
                # Not heard until what waits for it was given up, and a while longer, or it would be back at once.
                link.overfull = overfull
                self.detector.shun(peer, inf if overfull else self.context.now + 4 * self.settings.suspect_max)
        if self.context.now >= self._ack_at:
            self._ack_at = inf
            for peer, link in self._links.items():
                if link.owed and link.greeted:
                    self._acknowledge(peer, link)

    def next_deadline(self) -> float:
        return self._ack_at
