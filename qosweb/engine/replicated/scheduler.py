"""Scheduler: start-time fair queueing over the classes, across the whole cluster.

Derivation. Let class k have the share s_k of the capacity C while it waits. If it were alone on a server of speed
s_k C, a request of cost c would take c / (s_k C). Virtual time counts the work done in units of such servers: whenever
a request of cost c starts, the virtual time of its class advances by c / s_k. Always starting from the class with the
least virtual time keeps all waiting classes at the same virtual time up to one request. So over any period in which two
classes both wait, the costs they start stand in the ratio of their shares, whatever the sizes. A class that returns
from idleness starts at the virtual time of the last start: it has no credit and no debt.
(Goyal, Vin and Cheng's start-time fair queueing, with classes for flows and many servers for one.)

The order of classes: first the always-available classes, oldest request first; then by virtual time; last the classes
without a share, because classes of higher priority demand everything: they get what no other class can use.
The class is chosen before the node. The scheduler takes the entry of that class that has waited longest at a node with
a free channel. If the class waits at no such node, it takes the entry that has waited longest anywhere, and sends it to
the node with most room.
When no request waits, all virtual times are reset, because the starts then took nothing from other classes. A new era
begins; charges of an earlier era are not refunded.

Choosing examines each waiting class and each node where it waits, however many requests wait.
"""

from __future__ import annotations

from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING

from qosweb.engine.replicated.pipes import NEVER, held, whole_channel
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from cluster.names import ProcessId
    from qosweb.engine.replicated.bound_policy import BoundPolicy
    from qosweb.engine.replicated.buckets import Bucket
    from qosweb.engine.replicated.classes import ClassState
    from qosweb.engine.replicated.pipes import Pipe, PipeChannel

    Start = tuple[int, ProcessId, int, ProcessId, PipeChannel]  # class, owner, number, node, channel

CHANNELS_KEPT_MAX = 4096


class Scheduler:
    """Chooses which waiting requests start, and at which node."""

    __slots__ = ("_channels", "_channels_of", "bound", "buckets", "classes", "era", "may_redirect", "pipes", "shares",
                 "spare", "virtual", "wake_ms")  # fmt: skip

    def __init__(self) -> None:
        self.classes: list[ClassState] = []
        self.pipes: dict[ProcessId, Pipe] = {}
        self.bound: BoundPolicy
        self.shares: tuple[int, ...] = ()
        self.buckets: list[Bucket] = []  # one for each rule of the bound policy
        self.may_redirect = True
        self.virtual = 0  # virtual time of the last start
        self.spare = 0  # the same for classes without a share, which are served evenly
        self.era = 0  # number of resets of the virtual times
        self._channels: dict[tuple[int, int, int, int, int, bool], PipeChannel] = {}  # cached channels
        self._channels_of: BoundPolicy | None = None  # the policy that the cached channels depend on
        self.wake_ms: int | None = None  # when a bucket admits a request that waits only for tokens

    def begins_to_wait(self, number: int) -> None:
        """The first request of a class waits; it may be the first of all."""
        chosen = self.classes[number]
        if all(one is chosen or not one.waiting for one in self.classes):
            self.forget()
        else:
            chosen.virtual = max(chosen.virtual, self.virtual)
            chosen.spare_cost = max(chosen.spare_cost, self.spare)

    def forget(self) -> None:
        """Reset all virtual times: no class has credit or debt."""
        self.era += 1
        for one in self.classes:
            one.virtual, one.spare_cost = self.virtual, self.spare

    def change_shares(self, shares: tuple[int, ...]) -> None:
        """Set the shares. A class that had none and has one now gets no credit for the time between."""
        for one, before, now in zip(self.classes, self.shares, shares, strict=False):
            if now and not before:
                one.virtual = max(one.virtual, self.virtual)
        self.shares = shares

    def charge(self, number: int, cost: int) -> tuple[int, int]:
        """Charge a start to its class. Returns the share and the era of the charge.

        Always-available classes come first in any case, and are not charged.
        """
        if self.bound.always[number]:
            return 0, NEVER
        share = self.shares[number]
        self._pay(number, cost, share)
        return share, self.era

    def settle(self, channel: PipeChannel, more: int) -> None:
        """Charge or refund the difference to the real cost."""
        if channel.era == self.era:
            self._pay(channel.number, more, channel.share_ppm)

    def _pay(self, number: int, cost: int, share_ppm: int) -> None:
        if share_ppm > 0:
            paid = abs(cost) * PPM // share_ppm  # rounded alike both ways, so that a refund equals its charge
            self.classes[number].virtual += paid if cost > 0 else -paid
        else:
            self.classes[number].spare_cost += cost

    def take_tokens(self, number: int, requests: int, cost: int, now_ms: int) -> None:
        for at in self.bound.buckets_of[number]:
            bucket, rule = self.buckets[at], self.bound.rules[at]
            bucket.fill(rule, now_ms)
            bucket.take(rule, requests, cost)

    def has_tokens(self, number: int, now_ms: int) -> bool:
        bound = self.bound
        return all(self.buckets[at].level_at(bound.rules[at], now_ms) > 0 for at in bound.buckets_of[number])

    def starts(self, now_ms: int) -> list[Start]:
        """Start all requests that may start now: take each out of its queue, and give it its channel.

        Room and tokens only shrink meanwhile, so a full node or a blocked class need not be examined again.
        """
        self.wake_ms = None
        started: list[Start] = []
        roomy = [pid for pid, pipe in self.pipes.items() if pipe.has_room]
        if not roomy:
            return started
        order = [self._key(number, one) for number, one in enumerate(self.classes) if one.waiting]
        heapify(order)
        buckets_of, classes, pipes = self.bound.buckets_of, self.classes, self.pipes
        while order and roomy:
            number = order[0][2]
            chosen = classes[number]
            is_open = not buckets_of[number] or self._is_open(number, now_ms)
            place = self._place(chosen, roomy) if is_open else None
            if place is None:
                heappop(order)
                continue
            owner, at = place
            pipe = pipes[at]
            started.append(self._start(number, chosen, owner, at, pipe, now_ms))
            if not pipe.has_room:
                roomy.remove(at)
            if chosen.waiting:
                heapreplace(order, self._key(number, chosen))
            else:
                heappop(order)
        return started

    def _key(self, number: int, one: ClassState) -> tuple[int, int, int]:
        """Sort key of a class: the smallest is next."""
        if self.bound.always[number]:
            return 0, min(one.oldest(owner)[1].seq for owner in one.queues), number
        if self.shares[number]:
            return 1, one.virtual, number
        return 2, one.spare_cost, number

    def _is_open(self, number: int, now_ms: int) -> bool:
        opens_ms = now_ms
        for at in self.bound.buckets_of[number]:
            bucket, rule = self.buckets[at], self.bound.rules[at]
            bucket.fill(rule, now_ms)
            open_ms = bucket.open_at_ms(rule)
            if open_ms is None:
                return False
            opens_ms = max(opens_ms, open_ms)
        if opens_ms > now_ms:
            self.wake_ms = opens_ms if self.wake_ms is None else min(opens_ms, self.wake_ms)
            return False
        return True

    def _place(self, chosen: ClassState, roomy: list[ProcessId]) -> tuple[ProcessId, ProcessId] | None:
        """The owner of the request to start, and the node where it starts."""
        if len(roomy) == 1:
            if roomy[0] in chosen.queues:
                return roomy[0], roomy[0]
        elif at_home := [pid for pid in roomy if pid in chosen.queues]:
            home = at_home[0] if len(at_home) == 1 else min(at_home, key=lambda pid: chosen.oldest(pid)[1].seq)
            return home, home
        if not self.may_redirect:
            return None
        owner = min(chosen.queues, key=lambda pid: chosen.oldest(pid)[1].seq)
        return owner, max(roomy, key=lambda pid: self.pipes[pid].free_bps)

    def _start(
        self, class_number: int, chosen: ClassState, owner: ProcessId, at: ProcessId, pipe: Pipe, now_ms: int
    ) -> Start:
        number, waiter = chosen.take_oldest(owner)
        visits = at is not owner and at != owner
        del (self.pipes[owner] if visits else pipe).waiting[number]
        cost = waiter.cost
        chosen.got.now += cost
        share, era = 0, NEVER
        bound = self.bound
        if not bound.always[class_number]:
            share, era = self.shares[class_number], self.era
            if share:
                virtual = chosen.virtual
                if virtual > self.virtual:
                    self.virtual = virtual
                chosen.virtual = virtual + cost * PPM // share  # as in _pay
            else:
                if chosen.spare_cost > self.spare:
                    self.spare = chosen.spare_cost
                chosen.spare_cost += cost
            if bound.buckets_of[class_number]:
                self.take_tokens(class_number, 1, cost, now_ms)
        key = class_number, cost, pipe.capacity_bps, share, era, visits
        channel = self._channels.get(key) if self._channels_of is bound else None
        if channel is None:
            channel = self._channel(key)
        pipe.take(owner, number, channel)
        return class_number, owner, number, at, channel

    def _channel(self, key: tuple[int, int, int, int, int, bool]) -> PipeChannel:
        """Compute and cache a channel: requests for the same page repeat."""
        if self._channels_of is not self.bound or len(self._channels) >= CHANNELS_KEPT_MAX:
            self._channels_of = self.bound
            self._channels.clear()
        number, cost, capacity_bps, share, era, visits = key
        rate = whole_channel(self.bound.rate_bps(number, cost), capacity_bps)
        channel = self._channels[key] = held(number, cost, rate, share, era, visits=visits)
        return channel
