"""Wire messages of semantically reliable broadcast, one frame each, on a stream of their own beside the links.

Paper: Pereira, Rodrigues, Oliveira: Semantically Reliable Broadcast, sections 2.3 and 2.5.
A stream is FIFO and belongs to one life of each of its two processes.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from cluster.names import ProcessId, ViewId


class Origin(NamedTuple):
    """One life of a process: the sender snd(m) of reports. Its reports are numbered from 1."""

    process: ProcessId
    life: int

    def __str__(self) -> str:
        return f"{self.process}/{self.life}"


class Report(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A message m: `number` is seq(m). A later report of the same origin and item makes it obsolete."""

    number: int
    item: str
    value: bytes
    age_ms: int  # how long ago it was published when this frame was written


class ReportMessage(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all frames. The tag names the type on the wire, so it never changes."""


class Greeting(ReportMessage, frozen=True, tag="H"):
    """First frame on a stream and in a view. Everything before it on the stream belongs to an earlier view.

    `base`: what the sender's log skips up to this number was safe in earlier views only, so the receiver takes the
    sender's reports up to `base` all at once or not at all. `numbers`: how far the sender holds each origin's reports.
    """

    view_id: ViewId
    life: int
    base: int
    numbers: tuple[tuple[Origin, int], ...]


class OwnWindow(ReportMessage, frozen=True, tag="W"):
    """The sender's own reports with numbers in `after` + 1 .. `upto`. Numbers without a report were purged.

    So the receiver infers purged numbers from the bounds of the window. A window without reports is an empty one.
    `safe`: more than f members of the sender's view hold all numbers up to this one.
    """

    after: int
    upto: int
    safe: int
    reports: tuple[Report, ...]


class ForwardedWindow(ReportMessage, frozen=True, tag="F"):
    """The same for the reports of an origin that is gone. The receiver takes them all at once, up to `whole`."""

    origin: Origin
    whole: int
    companions: tuple[ProcessId, ...]  # of the sender's log, see `ReportLog`
    after: int
    upto: int
    reports: tuple[Report, ...]


class Taken(ReportMessage, frozen=True, tag="T"):
    """Acknowledgement: the sender has the reports of this origin up to this number."""

    origin: Origin
    number: int


ReportFrame = Greeting | OwnWindow | ForwardedWindow | Taken
