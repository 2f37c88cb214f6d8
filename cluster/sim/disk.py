"""The disk of a simulated node: the records written so far, as the image that they leave.

A record is there when its write took place, and a write takes place before the next effect of the process does. A crash
in the middle of a write leaves no part of that record: a store tells a torn record by its checksum and drops it.
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
    __slots__ = ("_coded", "image", "lost_count", "written_count")

    def __init__(self, *, coded: bool = False) -> None:
        self._coded = coded  # records pass through their wire form, so that what cannot be stored is found
        self.image = Image()  # to be looked at; `read` gives a copy
        self.written_count = 0
        self.lost_count = 0

    def write(self, record: Record) -> None:
        self.written_count += 1
        if self._coded:
            back = _DECODER.decode(_ENCODER.encode(record))
            if back != record:
                raise ValueError(f"a record changed on its way to the disk: {record!r} became {back!r}")
            record = back
        self.image.apply(record)

    def read(self) -> Image:
        """What is there now, apart from what will be written later."""
        image = Image()
        for name in Image.__slots__:
            value = getattr(self.image, name)
            setattr(image, name, value.copy() if isinstance(value, dict | RunLog) else value)
        return image

    def found(self, founder: ProcessId) -> None:
        """The disk of a process that founds a group: it was alone in v_0, and registered it."""
        self.image = founding_image(founder)

    @property
    def boot(self) -> int:
        return self.image.boot

    def lose(self) -> None:
        """All gone."""
        self.image = Image()
        self.lost_count += 1
