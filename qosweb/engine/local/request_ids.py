"""The name of a request in the access logs, ``b1244dbf-17``: a life of the node where it came first, its number there.

It is one name wherever the request goes: a ticket carries it to the next node. Bytes and a number rather than text, so
that whatever a ticket says, nothing else can stand in a log line.
Neighbours: ``qosweb.server.accesslog.recorder`` gives names, ``tickets`` carries them.
"""

from __future__ import annotations

from typing import NamedTuple

LIFE_LEN = 4


class RequestId(NamedTuple):
    life: bytes  # random, of one process
    number: int

    def __str__(self) -> str:
        return f"{self.life.hex()}-{self.number}"
