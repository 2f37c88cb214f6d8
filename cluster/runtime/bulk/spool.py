"""Spool of the multicast transport: messages as files, so that memory does not grow with their length."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PACKET_LEN = 1392  # bytes of content in each packet but the last of a message: 1,496 with IPv6, UDP and our headers


class SpoolFile:
    """One file of packets. `size` is known when the last packet is there."""

    __slots__ = ("_descriptor", "path", "size")

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = 0
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)

    def write(self, packet: int, payload: bytes) -> None:
        self.write_at(packet * PACKET_LEN, payload)

    def write_at(self, offset: int, content: bytes) -> None:
        os.pwrite(self._descriptor, content, offset)
        self.size = max(self.size, offset + len(content))

    def read(self, packet: int) -> bytes:
        offset = packet * PACKET_LEN
        return os.pread(self._descriptor, min(PACKET_LEN, self.size - offset), offset)

    def remove(self) -> None:
        os.close(self._descriptor)
        self.path.unlink(missing_ok=True)


class DiskSpool:
    """The messages that this process receives. Removes what an earlier process left in its directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for old in directory.iterdir():
            if old.suffix in (".in", ".out", ".done"):
                old.unlink()
        self._files: dict[int, SpoolFile] = {}

    def write(self, number: int, packet: int, payload: bytes) -> None:
        file = self._files.get(number)
        if file is None:
            file = self._files[number] = SpoolFile(self.directory / f"{number}.in")
        file.write(packet, payload)

    def read(self, number: int, packet: int) -> bytes:
        return self._files[number].read(packet)

    def deliver(self, number: int) -> tuple[Path, int]:
        """A file with the content of a complete message, which stays until the application removes it."""
        file, path = self._files[number], self.directory / f"{number}.done"
        os.link(file.path, path)
        return path, file.size

    def discard(self, number: int) -> None:
        file = self._files.pop(number, None)
        if file is not None:
            file.remove()

    def close(self) -> None:
        for number in list(self._files):
            self.discard(number)


class OutgoingFile:
    """The content of a message to send. It can be sent while it is still being written."""

    __slots__ = ("_file", "is_ended")

    def __init__(self, path: Path) -> None:
        self._file = SpoolFile(path)
        self.is_ended = False

    @property
    def size(self) -> int:
        return self._file.size

    def append(self, content: bytes) -> None:
        self._file.write_at(self._file.size, content)

    @property
    def available(self) -> int:
        """Only the last packet may be shorter than the others; an empty message has one empty packet."""
        whole, rest = divmod(self._file.size, PACKET_LEN)
        return whole if not self.is_ended else max(1, whole + bool(rest))

    def read(self, packet: int) -> bytes:
        return self._file.read(packet)

    def remove(self) -> None:
        self._file.remove()
