"""Frames as bytes: a length of four bytes, then msgpack; bounded before it is parsed, decoded with types.

A payload that goes to several peers is encoded once: `Data` is an array whose last element is the payload, so a peer's
frame is a header of a few bytes and the payload's bytes as they are.
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
# The length of the frame; an array of four, the first of which is the tag; stream and seqno as msgpack integers of
# eight bytes. The payload is what is left: see messages.Data
DATA_HEAD = Struct(">I6sBQBQ")
DATA_TAG = b"\x94\xa4Data"
UINT64 = 0xCF
ROOM = 256 * 1024  # bytes that are read at a time
ADDRESSES_MAX = 256  # processes named in one frame, and known at all
# What bytes of a peer make a decoder raise, whatever they are: those nested too deep are no MsgspecError.
UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError, MemoryError)


class Addresses(Message, frozen=True, tag="Addresses"):
    """Where processes can be reached, by name: what the sender knows, itself included. No part of the protocol."""

    of: tuple[tuple[str, tuple[str, ...]], ...]


class RecoveryNotice(Message, frozen=True, tag="Past"):
    """When an operator went on without a majority: told to all, for ever. No part of the protocol."""

    recoveries: tuple[Recovery, ...]


Travelling = Hello | Data | LinkAck | Proposal | Addresses | RecoveryNotice


class BadFrame(Exception):
    """Bytes that are no frame."""


class FrameWriter:
    """Encodes frames; remembers the last payload, since the same one usually leaves for the next peer too."""

    __slots__ = ("_body", "_body_bytes", "_encode", "frame_len_max")

    def __init__(self, frame_len_max: int) -> None:
        self.frame_len_max = frame_len_max
        self._encode = msgspec.msgpack.Encoder().encode
        self._body: Payload | None = None
        self._body_bytes = b""

    def parts(self, frame: Frame | Addresses | RecoveryNotice) -> tuple[bytes, ...]:
        """The bytes of a frame, in pieces that belong one behind the other."""
        encode = self._encode
        if type(frame) is Data:
            if frame.body is not self._body:
                self._body_bytes = encode(frame.body)
                self._body = frame.body
            body = self._body_bytes
            length = DATA_HEAD.size - LENGTH.size + len(body)
            if length > self.frame_len_max:
                self._judge(length, frame)
            return DATA_HEAD.pack(length, DATA_TAG, UINT64, frame.stream, UINT64, frame.seqno), body
        text = encode(frame)
        self._judge(len(text), frame)
        return (LENGTH.pack(len(text)) + text,)

    def _judge(self, length: int, frame: Frame | Addresses | RecoveryNotice) -> None:
        if length > self.frame_len_max:
            what = type(frame.body if type(frame) is Data else frame).__name__
            raise BadFrame(f"a {what} of {length} bytes would leave; frames have at most {self.frame_len_max} bytes")


_decode: Callable[[bytes | memoryview], Travelling] = msgspec.msgpack.Decoder(Travelling).decode


def decode_frame(data: bytes | memoryview) -> Travelling:
    try:
        return _decode(data)
    except UNREADABLE as error:
        raise BadFrame(f"no frame of the protocol: {error}") from None


class Splitter:
    """Cuts a stream of bytes into frames, where it arrives: the bytes are read into `room`, frames are views of it.

    A frame that is not whole grows the room as its bytes come, up to what is allowed, and not as soon as it is
    announced. When it is done with, the room is as large as usual again.
    """

    __slots__ = ("_buffer", "_filled", "_wanted", "frame_len_max")

    def __init__(self, frame_len_max: int) -> None:
        self.frame_len_max = frame_len_max
        self._buffer = memoryview(bytearray(self._usual))
        self._filled = 0
        self._wanted = LENGTH.size  # bytes that have to be there before it is worth looking

    @property
    def _usual(self) -> int:
        return min(ROOM, LENGTH.size + self.frame_len_max)

    @property
    def held(self) -> int:
        return self._filled

    def room(self) -> memoryview:
        """Where the next bytes are to be put: some of them, at least."""
        if self._filled == len(self._buffer):
            self._move(self._filled, min(self._wanted, 2 * len(self._buffer)))
        return self._buffer[self._filled :]

    def _move(self, count: int, size: int) -> None:
        """The first bytes, to a buffer of another size."""
        buffer = memoryview(bytearray(size))
        buffer[:count] = self._buffer[:count]
        self._buffer = buffer

    def frames(self, count: int) -> Iterator[memoryview]:
        """The frames that are whole with the bytes that were put there. Each is good until the next one is asked for.

        The limit may be changed between two of them.
        """
        self._filled = end = self._filled + count
        if end < self._wanted:
            return
        view, at = self._buffer, 0
        while True:
            if end - at < LENGTH.size:
                self._wanted = LENGTH.size
                break
            (length,) = LENGTH.unpack_from(view, at)
            if length > self.frame_len_max:
                raise BadFrame(f"a frame of {length} bytes is announced; at most {self.frame_len_max} are taken")
            if end - at - LENGTH.size < length:
                self._wanted = LENGTH.size + length
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
        """The frames that are whole with these bytes."""
        rest = memoryview(data)
        while rest:
            room = self.room()
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            rest = rest[count:]
            yield from self.frames(count)
