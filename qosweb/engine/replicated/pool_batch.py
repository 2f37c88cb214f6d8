"""Events of one node at one pool of upstream servers, as a part of its batch.

Costs are microseconds. Requests that have ended carry one more number if the cost of their class is not time: the
amount by its measure (see `cost_scale`).
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from qosweb.engine.laws.service_samples import SampleBatch

Ended = Annotated[tuple[int, ...], msgspec.Meta(min_length=2, max_length=3)]
EndedOfClass = Annotated[tuple[int, ...], msgspec.Meta(min_length=3, max_length=4)]


class PoolBatch(msgspec.Struct, array_like=True):
    """Events of one node at one pool. Fields are in the order in which they are applied."""

    servers: tuple[str, ...]  # of the pool
    running: list[tuple[int, int, int, str]] = []  # restated: number, class, cost, server
    served: list[EndedOfClass] = []  # class, requests, cost, perhaps amount: started at once, and finished
    started: list[tuple[int, int, int, str]] = []  # the same as running: started at once
    submitted: list[tuple[int, int, int]] = []  # number, class, cost: waiting
    denied: list[tuple[int, int]] = []  # class, cost: denied on arrival
    cancelled: list[int] = []  # no longer waiting, or giving back their slots unused
    finished: list[Ended] = []  # number, real cost, perhaps amount
    samples: list[tuple[str, SampleBatch]] = []  # service times at servers, for the laws
