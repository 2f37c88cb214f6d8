"""Spool of the multicast transport: messages as files, so that memory does not grow with their length."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PACKET_LEN = 1392  # bytes of content in each packet but the last of a message: 1,496 with IPv6, UDP and our headers
BATCH_MAX = 64  # packets that are written together


class SpoolFile:
    """One file of packets. `size` is known when the last packet is there."""

    __slots__ = ("_descriptor", "path", "size")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def write_packets(self, packet: int, payloads: list[bytes]) -> None:
        """Writes consecutive packets."""
        offset, length = packet * PACKET_LEN, sum(map(len, payloads))
        written = os.pwritev(self._descriptor, payloads, offset)
        if written < length:  # a full disk takes a part, and says why at the next attempt
            os.pwrite(self._descriptor, b"".join(payloads)[written:], offset + written)
        self.size = max(self.size, offset + length)

    def append(self, content: bytes) -> None:
        view = memoryview(content)
        while view:
            written = os.pwrite(self._descriptor, view, self.size)
            self.size += written
            view = view[written:]

    def read(self, packet: int) -> bytes:
        offset = packet * PACKET_LEN
        return os.pread(self._descriptor, min(PACKET_LEN, self.size - offset), offset)

    def remove(self) -> None:
        os.close(self._descriptor)
        self.path.unlink(missing_ok=True)


class DiskSpool:
    """The messages that this process receives. Removes what an earlier process left in its directory.

    Consecutive packets are written together: `flush` writes what waits. A message of this process is not written a
    second time: `adopt` takes the file that it is sent from.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in directory.iterdir():
            if old.suffix in (".in", ".out", ".done"):
                old.unlink()
        self._files: dict[int, SpoolFile] = {}
        self._own: dict[int, OutgoingFile] = {}
        self._waiting: list[bytes] = []  # packets _waiting_packet, ... of message _waiting_number
        self._waiting_number = 0
        self._waiting_packet = 0

    def write(self, number: int, packet: int, payload: bytes) -> None:
        if number in self._own:
            return
        waiting = self._waiting
        if number != self._waiting_number or packet != self._waiting_packet + len(waiting) or len(waiting) >= BATCH_MAX:
            self.flush()
            self._waiting_number, self._waiting_packet = number, packet
        self._waiting.append(payload)

    def flush(self) -> None:
        """Writes the waiting packets. Raises OSError."""
        if self._waiting:
            payloads, self._waiting = self._waiting, []
            file = self._files.get(self._waiting_number)
            if file is None:
                file = SpoolFile(self.directory / f"{self._waiting_number}.in")
                self._files[self._waiting_number] = file
            file.write_packets(self._waiting_packet, payloads)

    def adopt(self, number: int, source: OutgoingFile) -> None:
        """The message with this number is sent from this file."""
        if number not in self._own:
            self._own[number] = source.share()

    def read(self, number: int, packet: int) -> bytes:
        self.flush()
        return (self._own.get(number) or self._files[number]).read(packet)

    def deliver(self, number: int) -> tuple[Path, int]:
        """A file with the content of a complete message, which stays until the application removes it."""
        self.flush()
        file, path = self._own.get(number) or self._files[number], self.directory / f"{number}.done"
        os.link(file.path, path)
        return path, file.size

    def discard(self, number: int) -> None:
        if number == self._waiting_number:
            self._waiting.clear()
        for file in (self._files.pop(number, None), self._own.pop(number, None)):
            if file is not None:
                file.remove()

    def close(self) -> None:
        for number in [*self._files, *self._own]:
            self.discard(number)


class OutgoingFile:
    """The content of a message to send. It can be sent while it is still being written.

    The file stays until the producer and the spool that shares it have removed it.
    """

    __slots__ = ("_file", "_owners", "is_ended")

    def __init__(self, path: Path) -> None:
        self._file = SpoolFile(path)
        self._owners = 1
        self.is_ended = False

    def share(self) -> OutgoingFile:
        self._owners += 1
        return self

    @property
    def path(self) -> Path:
        return self._file.path

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, content: bytes) -> None:
        self._file.append(content)

    @property
    def available(self) -> int:
        """Only the last packet may be shorter than the others; an empty message has one empty packet."""
        whole, rest = divmod(self._file.size, PACKET_LEN)
        return whole if not self.is_ended else max(1, whole + bool(rest))

    def read(self, packet: int) -> bytes:
        return self._file.read(packet)

    def remove(self) -> None:
        self._owners -= 1
        if not self._owners:
            self._file.remove()
