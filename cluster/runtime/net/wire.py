"""Wire format: frames are a four-byte length and typed msgpack, size-checked before they are parsed.

A payload for several peers is encoded once: `Data` is an array whose last element is the payload, so a peer's frame is
a header of a few bytes and the shared payload bytes.
Above: connections.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

import msgspec

from cluster.messages import Data, Hello, LinkAck, Message, Proposal
from cluster.runtime.disk.rows import Recovery

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from cluster.messages import Frame, Payload

LENGTH = Struct(">I")
# The length of the frame; an array of four whose first element is the tag; stream and seqno as msgpack integers of
# eight bytes. The payload follows: see messages.Data
DATA_HEAD = Struct(">I6sBQBQ")
DATA_TAG = b"\x94\xa4Data"
UINT64 = 0xCF
ROOM = 256 * 1024  # bytes per read
ADDRESSES_MAX = 256  # processes in one frame, and in the address book
# What a decoder raises on invalid input. Input nested too deeply does not raise a MsgspecError.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError, MemoryError)


class Addresses(Message, frozen=True, tag="Addresses"):
    """Addresses of processes by name: all that the sender knows, its own included. Not part of the protocol."""

    of: tuple[tuple[str, tuple[str, ...]], ...]


class RecoveryNotice(Message, frozen=True, tag="Past"):
    """Recoveries without a majority, sent to every peer. Not part of the protocol."""

    recoveries: tuple[Recovery, ...]


Travelling = Hello | Data | LinkAck | Proposal | Addresses | RecoveryNotice


class BadFrame(Exception):
    """The bytes are not a valid frame."""


class FrameWriter:
    """Encodes frames. It caches the last payload, which usually goes to the next peer too."""

    __slots__ = ("_body", "_body_bytes", "_encode", "frame_len_max")

    def __init__(self, frame_len_max: int) -> None:
        self.frame_len_max = frame_len_max
        self._encode = msgspec.msgpack.Encoder().encode
        self._body: Payload | None = None
        self._body_bytes = b""

    def parts(self, frame: Frame | Addresses | RecoveryNotice) -> tuple[bytes, ...]:
        """The bytes of a frame, in consecutive pieces."""
        encode = self._encode
        if type(frame) is Data:
            if frame.body is not self._body:
                self._body_bytes = encode(frame.body)
                self._body = frame.body
            body = self._body_bytes
            length = DATA_HEAD.size - LENGTH.size + len(body)
            if length > self.frame_len_max:
                self._check_length(length, frame)
            return DATA_HEAD.pack(length, DATA_TAG, UINT64, frame.stream, UINT64, frame.seqno), body
        text = encode(frame)
        self._check_length(len(text), frame)
        return (LENGTH.pack(len(text)) + text,)

    def _check_length(self, length: int, frame: Frame | Addresses | RecoveryNotice) -> None:
        if length > self.frame_len_max:
            what = type(frame.body if type(frame) is Data else frame).__name__
            raise BadFrame(f"cannot send {what} of {length} bytes; frames have at most {self.frame_len_max} bytes")


_decode: Callable[[bytes | memoryview], Travelling] = msgspec.msgpack.Decoder(Travelling).decode


def decode_frame(data: bytes | memoryview) -> Travelling:
    try:
        return _decode(data)
    except UNREADABLE as error:
        raise BadFrame(f"not a frame of the protocol: {error}") from None


class Splitter:
    """Splits a byte stream into frames in place: bytes are read into `room`, and frames are views of it.

    An incomplete frame grows the buffer as its bytes arrive, up to the limit, not when its length is announced.
    Afterwards the buffer shrinks to its usual size.
    """

    __slots__ = ("_buffer", "_bytes_needed", "_filled", "frame_len_max")

    def __init__(self, frame_len_max: int) -> None:
        self.frame_len_max = frame_len_max
        self._buffer = memoryview(bytearray(self._usual))
        self._filled = 0
        self._bytes_needed = LENGTH.size  # bytes needed before the next frame can be split off

    @property
    def _usual(self) -> int:
        return min(ROOM, LENGTH.size + self.frame_len_max)

    @property
    def held(self) -> int:
        return self._filled

    def room(self) -> memoryview:
        """The buffer space for the next bytes. Never empty."""
        if self._filled == len(self._buffer):
            self._move(self._filled, min(self._bytes_needed, 2 * len(self._buffer)))
        return self._buffer[self._filled :]

    def _move(self, count: int, size: int) -> None:
        """Move the first `count` bytes to a buffer of another size."""
        buffer = memoryview(bytearray(size))
        buffer[:count] = self._buffer[:count]
        self._buffer = buffer

    def frames(self, count: int) -> Iterator[memoryview]:
        """The frames completed by the last `count` bytes. Each view is valid until the next one is requested.

        The limit may change between two frames.
        """
        self._filled = end = self._filled + count
        if end < self._bytes_needed:
            return
        view, at = self._buffer, 0
        while True:
            if end - at < LENGTH.size:
                self._bytes_needed = LENGTH.size
                break
            (length,) = LENGTH.unpack_from(view, at)
            if length > self.frame_len_max:
                raise BadFrame(f"a frame of {length} bytes is announced; at most {self.frame_len_max} are allowed")
            if end - at - LENGTH.size < length:
                self._bytes_needed = LENGTH.size + length
                break
            at += LENGTH.size + length
            yield view[at - length : at]
        if at:
            self._filled = left = end - at
            if left:
                view[:left] = bytes(view[at:end])
            if len(view) != self._usual and left <= self._usual:
                self._move(left, self._usual)

    def feed(self, data: bytes) -> Iterator[memoryview]:
        """The frames completed by these bytes."""
        rest = memoryview(data)
        while rest:
            room = self.room()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            rest = rest[count:]
            yield from self.frames(count)
