"""Events of one node at one pool of upstream servers, as a part of its batch."""

from __future__ import annotations

import msgspec

from qosweb.engine.laws.service_samples import SampleBatch


class PoolBatch(msgspec.Struct, array_like=True):
    """Events of one node at one pool. Fields are in the order in which they are applied. Costs are microseconds."""

    servers: tuple[str, ...]  # of the pool
    running: list[tuple[int, int, int, str]] = []  # restated: number, class, cost, server
    served: list[tuple[int, int, int]] = []  # class, requests, cost: started at once, and finished
    started: list[tuple[int, int, int, str]] = []  # the same as running: started at once
    submitted: list[tuple[int, int, int]] = []  # number, class, cost: waiting
    denied: list[tuple[int, int]] = []  # class, cost: denied on arrival
    cancelled: list[int] = []  # no longer waiting, or giving back their slots unused
    finished: list[tuple[int, int]] = []  # number, real cost
    samples: list[tuple[str, SampleBatch]] = []  # service times at servers, for the laws
