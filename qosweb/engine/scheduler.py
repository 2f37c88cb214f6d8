"""Who is next: start-time fair queueing over the classes, across the whole cluster.

Derivation. Let class k have the share s_k of the capacity C while it waits. If it were alone on a server of speed
s_k C, a request of cost c would take c / (s_k C). Virtual time counts the work done in units of such servers: whenever
something of cost c starts, the virtual time of its class advances by c / s_k. Starting always from the class whose
virtual time is least keeps all that wait at the same virtual time up to one request, so that over any period in which
two classes both wait, the costs they start stand in the ratio of their shares, whatever the sizes. A class that comes
back from idleness starts at the virtual time of the last start: it has saved up nothing and owes nothing.
(Goyal, Vin and Cheng's start-time fair queueing, with classes for flows and many servers for one.)

The order of classes: those that are always available, oldest first; then by virtual time; last those whose share is
nothing, because others that come before them want everything: they get what nobody else can use.
The class is chosen before the place: then it is the entry of that class that has waited longest at a node with a free
channel, or, if it waits at none of these, longest anywhere; that one is sent to the node with most room.
When nobody waits, all virtual times are forgotten: what was started then was taken from nobody. A new era begins; what
was paid in an earlier one is not given back.

Choosing costs a look at each class that waits, and each node where it does, however many wait.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from qosweb.engine.pipes import FREE, Charge, held, whole_channel
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.names import ProcessId
    from qosweb.engine.bound import BoundPolicy
    from qosweb.engine.buckets import Bucket
    from qosweb.engine.classes import ClassState, Waiter
    from qosweb.engine.pipes import Held, Pipe


class Start(NamedTuple):
    class_number: int
    owner: ProcessId
    number: int
    at: ProcessId
    channel: Held
    waiter: Waiter


class Scheduler:
    __slots__ = ("bound", "buckets", "classes", "era", "may_redirect", "pipes", "shares", "spare", "virtual", "wake_ms")

    def __init__(self) -> None:
        self.classes: list[ClassState] = []
        self.pipes: dict[ProcessId, Pipe] = {}
        self.bound: BoundPolicy
        self.shares: tuple[int, ...] = ()
        self.buckets: list[Bucket] = []  # one for each rule of the bound policy
        self.may_redirect = True
        self.virtual = 0  # where the last start began
        self.spare = 0  # the same among those without a share, who are served evenly
        self.era = 0  # how often virtual times were forgotten
        self.wake_ms: int | None = None  # when a bucket will let somebody through who waits for nothing else

    def begins_to_wait(self, number: int) -> None:
        """The first of its class; it may also be the first of all."""
        chosen = self.classes[number]
        if all(one is chosen or not one.waiting for one in self.classes):
            self.forget()
        else:
            chosen.virtual = max(chosen.virtual, self.virtual)
            chosen.spare_cost = max(chosen.spare_cost, self.spare)

    def forget(self) -> None:
        """Nobody has saved up anything, and nobody owes anything."""
        self.era += 1
        for one in self.classes:
            one.virtual, one.spare_cost = self.virtual, self.spare

    def change_shares(self, shares: tuple[int, ...]) -> None:
        """Who had nothing and has something now has saved up nothing meanwhile."""
        for one, before, now in zip(self.classes, self.shares, shares, strict=False):
            if now and not before:
                one.virtual = max(one.virtual, self.virtual)
        self.shares = shares

    def charge(self, number: int, cost: int) -> Charge:
        """Something of this class started. Those that are always available come first whatever they had."""
        if self.bound.always[number]:
            return FREE
        charge = Charge(self.shares[number], self.era)
        self._pay(number, cost, charge)
        return charge

    def settle(self, number: int, more: int, charge: Charge) -> None:
        """It cost so much more than it was charged for, or less."""
        if charge.era == self.era:
            self._pay(number, more, charge)

    def _pay(self, number: int, cost: int, charge: Charge) -> None:
        if charge.share_ppm > 0:
            paid = abs(cost) * PPM // charge.share_ppm  # what is given back is to the unit what was paid
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

    def starts(self, now_ms: int) -> Iterator[Start]:
        """All that may start now, each taken out of its queue and given its channel."""
        self.wake_ms = None
        stuck: set[int] = set()
        while True:
            roomy = [pid for pid, pipe in self.pipes.items() if pipe.has_room]
            if not roomy:
                return
            number = self._next_class(stuck, now_ms)
            if number is None:
                return
            place = self._place(number, roomy)
            if place is None:
                stuck.add(number)
                continue
            yield self._start(number, *place, now_ms)

    def _next_class(self, stuck: set[int], now_ms: int) -> int | None:
        best: int | None = None
        best_key: tuple[int, int] | None = None
        bound, shares = self.bound, self.shares
        for number, one in enumerate(self.classes):
            if not one.waiting or number in stuck:
                continue
            if bound.always[number]:
                key = (0, min(one.oldest(owner)[1].seq for owner in one.queues))
            elif shares[number]:
                key = (1, one.virtual)
            else:
                key = (2, one.spare_cost)
            if (best_key is None or key < best_key) and self._is_open(number, now_ms):
                best, best_key = number, key
        return best

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

    def _place(self, number: int, roomy: list[ProcessId]) -> tuple[ProcessId, ProcessId] | None:
        """Whose entry, and where it starts."""
        chosen = self.classes[number]
        at_home = [pid for pid in roomy if pid in chosen.queues]
        if at_home:
            home = at_home[0] if len(at_home) == 1 else min(at_home, key=lambda pid: chosen.oldest(pid)[1].seq)
            return home, home
        if not self.may_redirect:
            return None
        owner = min(chosen.queues, key=lambda pid: chosen.oldest(pid)[1].seq)
        return owner, max(roomy, key=lambda pid: self.pipes[pid].free_bps)

    def _start(self, class_number: int, owner: ProcessId, at: ProcessId, now_ms: int) -> Start:
        chosen = self.classes[class_number]
        number, _ = chosen.oldest(owner)
        waiter = chosen.remove(owner, number)
        del self.pipes[owner].waiting[number]
        charge = FREE
        if not self.bound.always[class_number]:
            if self.shares[class_number]:
                self.virtual = max(self.virtual, chosen.virtual)
            else:
                self.spare = max(self.spare, chosen.spare_cost)
            charge = self.charge(class_number, waiter.cost)
            self.take_tokens(class_number, 1, waiter.cost, now_ms)
        rate = whole_channel(self.bound.rate_bps(class_number, waiter.cost), self.pipes[at].capacity_bps)
        channel = held(class_number, waiter.cost, rate, charge, visits=at != owner)
        self.pipes[at].take(owner, number, channel)
        return Start(class_number, owner, number, at, channel, waiter)
