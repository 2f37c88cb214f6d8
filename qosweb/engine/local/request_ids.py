"""Request identifiers in access logs, such as ``b1244dbf-17``: a random id of the first node's process, and a number.

A request keeps its identifier when it is redirected: the ticket carries it to the next node. It is stored as bytes and
a number rather than as text, so that no ticket can put other text into a log line.
Neighbours: ``qosweb.server.accesslog.recorder`` creates identifiers, ``tickets`` carries them.
"""

from __future__ import annotations

from typing import NamedTuple

LIFE_LEN = 4


class RequestId(NamedTuple):
    life: bytes  # random, one per process
    number: int

    def __str__(self) -> str:
        return f"{self.life.hex()}-{self.number}"
