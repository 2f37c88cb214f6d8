"""Disk of a simulated node: applies records to an in-memory image.

A record is durable when its write is performed, and a write is performed before the next effect of the process. A crash
in the middle of a write leaves no part of the record: a store detects a torn record by its checksum and drops it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from cluster.durable import Image, Record, Records, founding_image
from cluster.run_log import RunLog

if TYPE_CHECKING:
    from cluster.names import ProcessId

_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[Records] = msgspec.msgpack.Decoder(Records)


class SimDisk:
    """The disk of one node."""

    __slots__ = ("_coded", "image")

    def __init__(self, *, coded: bool = False) -> None:
        self._coded = coded  # encode and decode every record, to find records that cannot be stored
        self.image = Image()  # for inspection; `read` gives a copy

    def write(self, record: Record) -> None:
        if self._coded:
            back = _DECODER.decode(_ENCODER.encode(record))
            if back != record:
                raise ValueError(f"a record changed when it was encoded and decoded: {record!r} became {back!r}")
            record = back
        self.image.apply(record)

    def read(self) -> Image:
        """A copy of the current content."""
        image = Image()
        for name in Image.__slots__:
            value = getattr(self.image, name)
            setattr(image, name, value.copy() if isinstance(value, dict | list | RunLog) else value)
        return image

    def found(self, founder: ProcessId) -> None:
        """Initialise the disk of a founder: alone in v_0, which is registered."""
        self.image = founding_image(founder)

    def lose(self) -> None:
        """Lose all content."""
        self.image = Image()
