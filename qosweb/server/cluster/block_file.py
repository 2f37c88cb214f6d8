"""Stored block list of a node without a cluster, so that a restart keeps it. The methods block on the disk."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from pathlib import Path


class StoredList(msgspec.Struct, frozen=True, array_like=True):
    """A block list and when it was stored, by the wall clock: time limits count while the node does not run."""

    at_s: float
    state: bytes


_decode = msgspec.msgpack.Decoder(StoredList).decode


class BlockFile:
    """The stored list of one node."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> tuple[bytes, float]:
        """The stored list and its age in seconds; an empty one if none was stored. Raises OSError, DecodeError."""
        try:
            stored = _decode(self._path.read_bytes())
        except FileNotFoundError:
            return b"", 0.0
        return stored.state, max(0.0, time.time() - stored.at_s)

    def write(self, state: bytes) -> None:
        """Raises OSError."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        part = self._path.with_suffix(".part")
        with part.open("wb") as file:
            file.write(msgspec.msgpack.encode(StoredList(time.time(), state)))
            file.flush()
            os.fsync(file.fileno())
        part.replace(self._path)
