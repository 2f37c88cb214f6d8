"""Turn order: which waiting request a full processor answers next, by start-time fair queueing.

Each class has a queue and a virtual time. A request that costs ``c`` advances the virtual time of its class by
``c / w``, where ``w`` is the weight of the class; the class with the least virtual time is next. So classes that always
have requests get work in proportion to their weights. (Goyal, Vin, Cheng: Start-time Fair Queueing, 1996.)
Always-available classes come first, and are not charged. Classes without weight come last.

Departs: in a closed loop the next requests of a class arrive only after its last ones were answered. A class whose
queue is empty for a moment must not lose its share for that. So:

- Memory. A class that returns starts at ``max(F, V - credit)``, not at ``max(F, V)``: it makes up for what it missed,
  at most the `credit`. ``F`` is its own virtual time, ``V`` the greatest at which a request started.
- Early end. A turn ends when the class that is behind runs out of requests: sockets are read, and it may have more.
- Owed. While a class that is behind is empty and was served within OWED_S, turns are short: OWED_REQUESTS.

A class that is next is answered until it is QUANTUM ahead of the next one: small requests need fewer changes of class.
A turn takes at most REQUESTS_MAX requests or WORK_MAX bytes. Requests whose lifetime has ended are denied first, at
most DENIED_MAX per turn; those that come to their turn late count as taken.
Within a class requests keep their order.
Pure: times are arguments, and requests act through `Turn`. Neighbours: `qosweb.admission.processor_queue`.
Derivation of virtual time: `qosweb.engine.replicated.fair_queueing`.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from math import inf
from typing import Protocol

REQUESTS_MAX = 8
WORK_MAX = 1 << 20
QUANTUM = 16 << 10
DENIED_MAX = 8
OWED_S = 0.005
OWED_REQUESTS = 2

_ALWAYS, _WEIGHTED, _SPARE = range(3)


class Turn(Protocol):
    """A request that waits for its turn."""

    deadline: float  # set by `TurnOrder.add`

    def take_turn(self, now: float) -> int:
        """Start. Returns the cost; 0 if the request is gone."""

    def miss_turn(self, now: float) -> None:
        """The lifetime has ended: deny the request."""


class TurnClass:
    """The waiting requests of one class. Invariant: it is in the heap, once, if it has any."""

    __slots__ = ("came_at", "in_heap", "index", "lifetime_s", "queue", "rank", "served_at", "virtual", "weight")

    def __init__(self, index: int) -> None:
        self.index = index  # breaks ties
        self.queue: deque[Turn] = deque()
        self.in_heap = False
        self.rank = _SPARE
        self.weight = 1.0
        self.virtual = 0.0
        self.lifetime_s = inf
        self.served_at = 0.0
        self.came_at = 0.0  # when its last request arrived

    def set_weight(self, weight: float | None) -> None:
        """`weight` is its part of the whole; None: it is always available; 0: it gets leftover turns."""
        self.rank = _ALWAYS if weight is None else _WEIGHTED if weight else _SPARE
        self.weight = inf if weight is None else weight or 1.0


class TurnOrder:
    def __init__(self) -> None:
        self.waiting = 0
        self.work = 0  # that was answered, in all
        self.denied = 0
        self.credit = 0.0  # virtual time that a class which was empty may be behind
        self.classes: dict[str, TurnClass] = {}
        self._virtual = [0.0, 0.0, 0.0]  # by rank: the greatest at which a request started
        self._heap: list[tuple[int, float, int, TurnClass]] = []
        self._emptied: list[TurnClass] = []  # classes that were served until they were empty, recently
        self._expires_at = inf  # no deadline is earlier

    def class_of(self, name: str) -> TurnClass:
        found = self.classes.get(name)
        if found is None:
            found = self.classes[name] = TurnClass(len(self.classes))
        return found

    def add(self, chosen: TurnClass, request: Turn, now: float) -> None:
        queue = chosen.queue
        chosen.came_at = now
        if not queue:
            least = self._virtual[chosen.rank] - self.credit
            if chosen.virtual < least:
                chosen.virtual = least
            if not chosen.in_heap:
                chosen.in_heap = True
                heappush(self._heap, (chosen.rank, chosen.virtual, chosen.index, chosen))
            if now + chosen.lifetime_s < self._expires_at:
                self._expires_at = now + chosen.lifetime_s
        request.deadline = now + chosen.lifetime_s
        queue.append(request)
        self.waiting += 1

    def run(self, now: float) -> None:
        """One turn: answer some requests."""
        if now >= self._expires_at:
            self._deny_late(now)
        heap = self._heap
        left = OWED_REQUESTS if self._emptied and self._owes(now) else REQUESTS_MAX
        work_left = WORK_MAX
        while heap and left and work_left > 0:
            chosen = heappop(heap)[3]
            queue = chosen.queue
            if not queue:  # its requests were denied
                chosen.in_heap = False
                continue
            work_before, next_request, weight = work_left, queue.popleft, chosen.weight
            until = heap[0][1] + QUANTUM / weight if heap and heap[0][0] == chosen.rank else inf
            cost = taken = 0
            try:
                for taken in range(1, left + 1):  # noqa: B007  # used below
                    request = next_request()
                    if request.deadline > now:
                        cost = request.take_turn(now)
                        work_left -= cost
                        chosen.virtual += cost / weight
                    else:
                        self.denied += 1
                        request.miss_turn(now)
                    if chosen.virtual > until or work_left <= 0 or not queue:
                        break
            finally:
                left -= taken
                self.waiting -= taken
                if work_left < work_before:
                    self.work += work_before - work_left
                    chosen.served_at = now
                    started = chosen.virtual - cost / weight
                    if started > self._virtual[chosen.rank]:
                        self._virtual[chosen.rank] = started
                if queue:
                    heappush(heap, (chosen.rank, chosen.virtual, chosen.index, chosen))
                else:
                    chosen.in_heap = False
            if not queue and chosen.rank == _WEIGHTED:
                self._emptied.append(chosen)
                if heap and heap[0][0] == _WEIGHTED and chosen.virtual < heap[0][1]:
                    break  # it is behind: perhaps its clients have sent more

    def charge(self, name: str, cost: int) -> None:
        """Charge the cost of a request in addition to that which `Turn.take_turn` returned."""
        chosen = self.classes.get(name)
        if chosen is not None:
            chosen.virtual += cost / chosen.weight
        self.work += cost

    def _owes(self, now: float) -> bool:
        """Whether a class that is behind is empty for a moment."""
        virtual, since = self._virtual[_WEIGHTED], now - OWED_S
        self._emptied = [one for one in self._emptied if not one.queue and one.served_at > since]
        return any(one.virtual < virtual for one in self._emptied)

    def _deny_late(self, now: float) -> None:
        left = DENIED_MAX
        earliest = inf
        for one in self.classes.values():
            queue = one.queue
            while queue and queue[0].deadline <= now and left:
                left -= 1
                self.waiting -= 1
                self.denied += 1
                queue.popleft().miss_turn(now)
            if queue and queue[0].deadline < earliest:
                earliest = queue[0].deadline
        self._expires_at = earliest
