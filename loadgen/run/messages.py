"""Messages between a run and its worker processes, as frames on pipes.

A worker receives one ``Job`` and, when all workers are ready, a ``StartSignal``, as lines of JSON on its standard
input; the end of that input tells it to stop. It replies with frames on its standard output: one byte for the kind,
four bytes for the length, and the content.
"""

import struct
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from loadgen.options import LoadOptions
from loadgen.results.tally import RunTally
from loadgen.send.targets import Target

READY, RESULTS, PROGRESS, DONE = b"R", b"L", b"P", b"D"
FRAME = struct.Struct(">cI")
FRAME_LEN_MAX = 256 << 20


class Job(msgspec.Struct):
    """The part of one worker process in a run."""

    trace: str  # a file
    part: int
    parts: int
    targets: list[Target]
    weights: list[float]  # of the targets
    options: LoadOptions  # with this process's share of the connections and clients
    want_results: bool
    tell_every_s: float  # interval of progress messages; adding them up costs processor time


class StartSignal(msgspec.Struct):
    """``start_s`` on the monotonic clock is time zero of the trace."""

    start_s: float


class Progress(msgspec.Struct):
    """Increments since the last progress message."""

    tally: RunTally
    in_flight: int
    waiting: int


class Done(msgspec.Struct):
    """The last message of a worker process."""

    not_run: int  # requests that were not due yet when it stopped
    ended_s: float  # when the last request had its outcome, on the monotonic clock
    cpu_s: float  # processor time of the run


def frames(file: BinaryIO) -> Iterator[tuple[bytes, bytes]]:
    """Frames until the end; an incomplete last frame is left out."""
    while len(head := file.read(FRAME.size)) == FRAME.size:
        kind, length = FRAME.unpack(head)
        if length > FRAME_LEN_MAX:
            return
        content = file.read(length)
        if len(content) < length:
            return
        yield kind, content
