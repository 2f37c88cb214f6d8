"""Trace files: JSON lines, compressed if the name ends in .gz, read and written as streams.

An error in a file is reported with its line. The output depends on the requests alone: the same requests give the same
bytes, compressed or not.
"""

from __future__ import annotations

import contextlib
import gzip
import io
import sys
import zlib
from typing import TYPE_CHECKING, BinaryIO, NamedTuple, cast

import msgspec

from loadgen.trace.request import WITH_BODY, TraceRequest, fault_in
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

LINE_LEN_MAX = 64 << 10
BODY_FILES_MAX = 10_000  # checked before a run; further missing files show up as failed requests
EXAMPLE = '{"t":0.25,"method":"GET","url":"/page.html","class":"A"}'

_decoder = msgspec.json.Decoder(TraceRequest)
_encoder = msgspec.json.Encoder()


class TraceFacts(NamedTuple):
    """Facts of a trace, from reading it once."""

    requests: int
    duration_s: float  # until the last request is due
    peak_per_s: int  # requests in the busiest second
    classes: dict[str, int]  # requests by class
    takes_bodies: bool  # some request has a method that allows a body
    body_files: dict[str, int]  # with the first request that sends each file


@contextlib.contextmanager
def reading(name: str) -> Iterator[BinaryIO]:
    """Open a file for reading, ``-`` for standard input; decompress it if its name ends in .gz."""
    try:
        if name == "-":
            yield sys.stdin.buffer
            return
        with open(name, "rb") as raw:
            if name.endswith(".gz"):
                with gzip.GzipFile(fileobj=raw) as unzipped:
                    yield cast("BinaryIO", io.BufferedReader(unzipped, 1 << 16))
            else:
                yield raw
    except (gzip.BadGzipFile, zlib.error, EOFError) as error:
        raise UsageError(f"{name}: cannot be decompressed: {error}") from None
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror or error}") from None


@contextlib.contextmanager
def writing(name: str) -> Iterator[BinaryIO]:
    """Open a file for writing, ``-`` for standard output; compress it if its name ends in .gz."""
    try:
        if name == "-":
            yield sys.stdout.buffer
            sys.stdout.buffer.flush()
            return
        with open(name, "wb") as raw:
            if name.endswith(".gz"):
                # No name and time in the gzip header, so that equal content gives equal files.
                with gzip.GzipFile(filename="", fileobj=raw, mode="wb", compresslevel=6, mtime=0) as zipped:
                    yield cast("BinaryIO", zipped)
            else:
                yield raw
    except BrokenPipeError:
        raise
    except OSError as error:
        raise UsageError(f"{name}: {error.strerror or error}") from None


def lines_of(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers, none longer than ``LINE_LEN_MAX``."""
    number = 0
    while line := file.readline(LINE_LEN_MAX + 1):
        number += 1
        if len(line) > LINE_LEN_MAX:
            raise UsageError(
                f"{name}:{number}: the line is longer than {LINE_LEN_MAX} bytes; is this a file of JSON lines?"
            )
        yield number, line


def read_trace(name: str) -> Iterator[TraceRequest]:
    """The requests of a trace, checked and in order of time."""
    with reading(name) as file:
        before_s = 0.0
        for number, line in lines_of(file, name):
            if line.isspace():
                continue
            request = decode(line, name, number)
            if request.t < before_s:
                raise UsageError(
                    f"{name}:{number}: t is {request.t:g}, but the request before it is due at {before_s:g}; a trace "
                    f"is in order of time"
                )
            before_s = request.t
            yield request


def decode(line: bytes, name: str, number: int) -> TraceRequest:
    try:
        request = _decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{name}:{number}: not a request: {error}; a valid line is {EXAMPLE}") from None
    if fault := fault_in(request):
        raise UsageError(f"{name}:{number}: {fault}")
    return request


def read_share(name: str, *, part: int, parts: int) -> Iterator[tuple[int, TraceRequest]]:
    """Every ``parts``-th request of a valid trace, with its number in the trace."""
    decode_line = _decoder.decode
    with reading(name) as file:
        number = 0
        for line in file:
            if line.isspace():
                continue
            if number % parts == part:
                yield number, decode_line(line)
            number += 1


class Surveyor:
    """Passes requests on and collects facts about them."""

    def __init__(self, requests: Iterable[TraceRequest]) -> None:
        self._requests = requests
        self._count, self._last_s = 0, 0.0
        self._second, self._in_second, self._peak = -1, 0, 0
        self._classes: dict[str, int] = {}
        self._takes_bodies = False
        self._body_files: dict[str, int] = {}

    def __iter__(self) -> Iterator[TraceRequest]:
        for request in self._requests:
            self._count += 1
            self._last_s = request.t
            self._classes[request.class_name] = self._classes.get(request.class_name, 0) + 1
            self._takes_bodies = self._takes_bodies or request.method in WITH_BODY
            if isinstance(request.body, str) and len(self._body_files) < BODY_FILES_MAX:
                self._body_files.setdefault(request.body, self._count - 1)
            if int(request.t) != self._second:
                self._second, self._in_second = int(request.t), 0
            self._in_second += 1
            self._peak = max(self._peak, self._in_second)
            yield request

    def facts(self) -> TraceFacts:
        return TraceFacts(self._count, self._last_s, self._peak, self._classes, self._takes_bodies, self._body_files)


def survey(requests: Iterable[TraceRequest]) -> TraceFacts:
    """Read a trace once and collect its facts; this also checks every line."""
    surveyor = Surveyor(requests)
    for _ in surveyor:
        pass
    return surveyor.facts()


def write_trace(file: BinaryIO, requests: Iterable[TraceRequest]) -> TraceFacts:
    surveyor = Surveyor(requests)
    pending: list[bytes] = []
    for request in surveyor:
        pending.append(_encoder.encode(request))
        if len(pending) >= 1000:
            file.write(b"\n".join(pending) + b"\n")
            pending.clear()
    if pending:
        file.write(b"\n".join(pending) + b"\n")
    return surveyor.facts()
