"""Start-time fair queueing over the classes, for any kind of place where requests run.

Derivation. Let class k have the weight w_k of the capacity C while it waits. If it were alone on a server of speed
w_k C, a request of cost c would take c / (w_k C). Virtual time counts the work done in units of such servers: whenever
a request of cost c starts, the virtual time of its class advances by c / w_k. Always starting from the class with the
least virtual time keeps all waiting classes at the same virtual time up to one request. So over any period in which two
classes both wait, the costs they start stand in the ratio of their weights, whatever the sizes.
(Goyal, Vin and Cheng's start-time fair queueing, with classes for flows and many servers for one.)

Weights. The weight of a class is its share, or its guaranteed share if that is more. The two differ only for a class
that demands less than it is guaranteed: its share is its demand. If that were its weight, its requests would wait as
long as at a server of its own that is fully used, though other classes use more than they are guaranteed. With the
greater weight its requests are next, and it still starts no more than it demands. The classes that demand more than
their shares get the rest in the ratio of their shares.
For KEPT_MS after a class demanded more than its share, it counts as one that demands everything. Others use its pauses
and are charged by the shares that they had before. If the weight of a class rose with the pause of another, a class
with an upper bound would not make up for what it used beyond the bound.

Returning classes. A queue is often empty for a moment, although its class demands more than it gets. Others use the
gap, and their virtual times advance. The class makes up for it: it keeps its virtual time if it waited within the last
KEPT_MS, in which most of what came before ceases to count as demand (see `flows`). A request that starts at once in a
full pipe, because its class is behind, would have waited otherwise: it counts as one that waits. A longer memory would
let a class make up for a lull in which it wanted little, and others then get less than they are due. A class that is
away for longer has no credit: it starts at the least virtual time of the classes that have waited within KEPT_MS, and
does not wait until others have made up for their gaps. (Always-available classes are not charged: their virtual times
say nothing.) Credit is bounded: no class that begins to wait is further behind the last start than what the whole
capacity does in CREDIT_MS. To make up for that takes w_k CREDIT_MS of the pipe for class k, and at most CREDIT_MS for
all classes together: that is the longest time for which a class that used the gaps is held back.
Grants run ahead of free channels (see `pipes`), but not in a gap: while a class that was short of capacity within
KEPT_MS does not wait, a class with a greater virtual time starts only where a channel is free. The other class may
return before one would be. That holds from the moment when its last waiting request starts.

The order of classes: first the always-available classes, oldest request first; then by virtual time; last the classes
without a share, because classes of higher priority demand everything: they get what no other class can use.
When no class has waited within KEPT_MS, all virtual times are reset, because the starts then took nothing from other
classes. A new era begins; charges of an earlier era are not refunded.
Subclasses choose the request of a class and its place, and know what a place is.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from heapq import heapify, heappop, heapreplace
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from qosweb.engine.replicated.pipes import NEVER
from qosweb.webqos.values import PPM

if TYPE_CHECKING:
    from cluster.names import ProcessId
    from qosweb.engine.replicated.bound_policy import BoundPolicy
    from qosweb.engine.replicated.buckets import Bucket
    from qosweb.engine.replicated.classes import ClassState

KEPT_MS = 1000
CREDIT_MS = 4000


class Place(Protocol):
    """Where requests run."""

    @property
    def has_room(self) -> bool:
        """A request may be granted this place."""

    @property
    def has_free_channel(self) -> bool:
        """A request may start here at once."""


class Charged(Protocol):
    """The charge for a start."""

    @property
    def number(self) -> int: ...  # of the class
    @property
    def weight_ppm(self) -> int: ...
    @property
    def era(self) -> int: ...


PlaceId = TypeVar("PlaceId")
AnyPlace = TypeVar("AnyPlace", bound=Place)
AnyStart = TypeVar("AnyStart")


class FairScheduler(ABC, Generic[PlaceId, AnyPlace, AnyStart]):
    """Chooses which waiting requests start."""

    __slots__ = ("bound", "buckets", "buckets_of", "classes", "era", "places", "queued", "shares", "short", "spare",
                 "virtual", "wake_ms", "weights")  # fmt: skip

    def __init__(self) -> None:
        self.classes: list[ClassState] = []
        self.places: dict[PlaceId, AnyPlace] = {}
        self.queued: set[int] = set()  # the classes with waiting requests, and some whose last one has just left
        self.short: list[ClassState] = []  # the classes that demanded more than their shares within KEPT_MS
        self.bound: BoundPolicy  # set by `bind`, with the buckets of each class
        self.buckets_of: list[tuple[int, ...]] = []
        self.shares: tuple[int, ...] = ()
        self.weights: tuple[int, ...] = ()  # divisors of the charges for starts
        self.buckets: list[Bucket] = []  # one for each rule of the bound policy
        self.virtual = 0  # the greatest virtual time at which a request started
        self.spare = 0  # the same for classes without a share, which are served evenly
        self.era = 0  # number of resets of the virtual times
        self.wake_ms: int | None = None  # when a bucket admits a request that waits only for tokens

    def bind(self, bound: BoundPolicy) -> None:
        self.bound = bound
        self.buckets_of = bound.buckets_of

    def begins_to_wait(self, number: int, now_ms: int) -> None:
        """The first request of a class waits; it may be the first of all."""
        chosen = self.classes[number]
        self.queued.add(number)
        if chosen.has_waited_since(now_ms - KEPT_MS):
            chosen.virtual = max(chosen.virtual, self._virtual_min)
        elif any(one.has_waited_since(now_ms - KEPT_MS) for one in self.classes):
            self._join(chosen, now_ms)
        else:
            self.forget()
        chosen.spare_cost = max(chosen.spare_cost, self.spare)

    @property
    @abstractmethod
    def capacity_per_s(self) -> int:
        """Work that all places do in a second."""

    @property
    def _virtual_min(self) -> int:
        """The virtual time of a class with the greatest credit."""
        return self.virtual - self.capacity_per_s * CREDIT_MS // 1000

    def classes_changed(self, classes: list[ClassState]) -> None:
        """Use other classes, with the requests that wait in them."""
        self.classes = classes
        self.queued = {number for number, one in enumerate(classes) if one.waiting}
        self.short = classes

    def waiting(self) -> list[int]:
        """The classes with waiting requests."""
        classes = self.classes
        found = [number for number in self.queued if classes[number].waiting]
        if len(found) < len(self.queued):
            self.queued = set(found)
        return found

    def _join(self, chosen: ClassState, now_ms: int) -> None:
        """A class has no credit: it starts with the class that is furthest behind, and just before it."""
        since_ms = now_ms - KEPT_MS
        others = [
            one.virtual
            for one, always in zip(self.classes, self.bound.always, strict=True)
            if one is not chosen and not always and one.has_waited_since(since_ms)
        ]
        chosen.virtual = max(chosen.virtual, self._virtual_min, min([self.virtual, *others]) - 1)

    def forget(self) -> None:
        """Reset all virtual times: no class has credit or debt."""
        self.era += 1
        for one in self.classes:
            one.virtual, one.spare_cost = self.virtual, self.spare

    def divide(self, demand_ppm: list[int], now_ms: int) -> None:
        """Divide the capacity. A class that waited without a share and has one now gets no credit for the time between.

        A class that was short of capacity within KEPT_MS counts as one that demands everything.
        """
        since_ms, classes, always = now_ms - KEPT_MS, self.classes, self.bound.always
        asked = [
            PPM if one.short_ms > since_ms and not first else ask
            for one, ask, first in zip(classes, demand_ppm, always, strict=True)
        ]
        shares = self._divided(asked)
        for one, share, ask in zip(classes, shares, demand_ppm, strict=True):
            if share < ask:
                one.short_ms = now_ms
        self.short = [one for one in classes if one.short_ms > since_ms]
        for one, before, now in zip(classes, self.shares, shares, strict=False):
            if now and not before and one.waiting:
                self._join(one, now_ms)
        self.set_shares(shares)

    def _divided(self, demand_ppm: list[int]) -> tuple[int, ...]:
        return self.bound.shares(demand_ppm)

    def set_shares(self, shares: tuple[int, ...]) -> None:
        self.shares = shares
        guaranteed = self.bound.guaranteed
        self.weights = tuple([share and max(share, least) for share, least in zip(shares, guaranteed, strict=True)])

    def charge(self, number: int, cost: int) -> tuple[int, int]:
        """Charge a start to its class. Returns the weight and the era of the charge.

        Always-available classes come first in any case, and are not charged.
        """
        if self.bound.always[number]:
            return 0, NEVER
        weight, virtual = self.weights[number], self.classes[number].virtual
        if weight and virtual > self.virtual:
            self.virtual = virtual
        self._pay(number, cost, weight)
        return weight, self.era

    def settle(self, channel: Charged, more: int) -> None:
        """Charge or refund the difference to the real cost."""
        if channel.era == self.era:
            self._pay(channel.number, more, channel.weight_ppm)

    def _pay(self, number: int, cost: int, weight_ppm: int) -> None:
        if weight_ppm > 0:
            paid = abs(cost) * PPM // weight_ppm  # rounded alike both ways, so that a refund equals its charge
            self.classes[number].virtual += paid if cost > 0 else -paid
        else:
            self.classes[number].spare_cost += cost

    def take_tokens(self, number: int, requests: int, cost: int, now_ms: int) -> None:
        for at in self.buckets_of[number]:
            bucket, rule = self.buckets[at], self.bound.rules[at]
            bucket.fill(rule, now_ms)
            bucket.take(rule, requests, cost)

    def has_tokens(self, number: int, now_ms: int) -> bool:
        bound = self.bound
        return all(self.buckets[at].level_at(bound.rules[at], now_ms) > 0 for at in self.buckets_of[number])

    def starts(self, now_ms: int, waiting: list[int]) -> list[AnyStart]:
        """Start all requests that may start now: take each out of its queue, and give it its channel.

        `waiting` are the classes that have any.

        Room and tokens only shrink meanwhile, so a full node or a blocked class need not be examined again.
        """
        self.wake_ms = None
        started: list[AnyStart] = []
        roomy = [at for at, place in self.places.items() if place.has_room] if waiting else []
        if not roomy:
            return started
        since_ms = now_ms - KEPT_MS
        awaited = self._awaited_virtual(since_ms)
        order = [self._key(number, self.classes[number]) for number in waiting]
        heapify(order)
        classes, places = self.classes, self.places
        free: list[PlaceId] | None = None  # where a channel is free
        while order and roomy:
            rank, virtual, number = order[0]
            chosen = classes[number]
            usable = roomy
            if awaited is not None and (rank == 2 or (rank == 1 and virtual > awaited)):
                if free is None:
                    free = [at for at in roomy if places[at].has_free_channel]
                if not free:
                    break  # the classes after it are in debt, too
                usable = free
            found = self._place(chosen, usable) if self._is_open(number, now_ms) else None
            if found is None:
                heappop(order)
                continue
            owner, at = found
            place = places[at]
            started.append(self._start(number, chosen, owner, at, place, now_ms))
            free = None
            if not place.has_room:
                roomy.remove(at)
            if chosen.waiting:
                heapreplace(order, self._key(number, chosen))
            else:
                heappop(order)
                if chosen.short_ms > since_ms and (awaited is None or chosen.virtual < awaited):
                    awaited = chosen.virtual
        return started

    def _awaited_virtual(self, since_ms: int) -> int | None:
        """The least virtual time of the classes that are short of capacity, and whose queue is empty for a moment."""
        return min(
            [one.virtual for one in self.short if one.short_ms > since_ms and not one.waiting],
            default=None,
        )

    def _key(self, number: int, one: ClassState) -> tuple[int, int, int]:
        """Sort key of a class: the smallest is next."""
        if self.bound.always[number]:
            return 0, min(one.oldest(owner)[1].seq for owner in one.queues), number
        if self.shares[number]:
            return 1, one.virtual, number
        return 2, one.spare_cost, number

    def _is_open(self, number: int, now_ms: int) -> bool:
        opens_ms = now_ms
        for at in self.buckets_of[number]:
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

    @abstractmethod
    def _place(self, chosen: ClassState, roomy: list[PlaceId]) -> tuple[ProcessId, PlaceId] | None:
        """The owner of the request to start, and the place where it starts."""

    @abstractmethod
    def _start(
        self, class_number: int, chosen: ClassState, owner: ProcessId, at: PlaceId, place: AnyPlace, now_ms: int
    ) -> AnyStart:
        """Start the oldest request of this owner in the class."""

    def _take(self, class_number: int, chosen: ClassState, owner: ProcessId, now_ms: int) -> tuple[int, int, int, int]:
        """Take a request out of its queue and charge its class. Returns its number and cost, the weight and the era."""
        number, waiter = chosen.take_oldest(owner)
        cost = waiter.cost
        chosen.got.now += cost
        bound = self.bound
        if bound.always[class_number]:
            return number, cost, 0, NEVER
        weight = self.weights[class_number]
        if weight:
            virtual = chosen.virtual
            if virtual > self.virtual:
                self.virtual = virtual
            chosen.virtual = virtual + cost * PPM // weight  # as in _pay
        else:
            if chosen.spare_cost > self.spare:
                self.spare = chosen.spare_cost
            chosen.spare_cost += cost
        if self.buckets_of[class_number]:
            self.take_tokens(class_number, 1, cost, now_ms)
        return number, cost, weight, self.era
