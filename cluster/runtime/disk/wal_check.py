"""Detects committed transactions that a damaged SQLite write-ahead log has lost.

SQLite reads a log up to the first frame with a wrong checksum and takes the rest for the remains of a crash. After a
crash that is right. But a changed byte in the middle looks the same, and then transactions that were acknowledged long
ago silently disappear. The two cases differ: every commit here waits for the disk, so a transaction is written only
when the one before is complete. A crash can tear at most one transaction. Two more commit frames behind the first wrong
frame mean that the log was damaged later.

Format: sqlite.org/fileformat2.html, section 4. A header of 32 bytes; frames of 24 bytes and a page. A frame belongs to
the log if it has the header's salts, and commits a transaction if its second number is not zero.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_HEADER = struct.Struct(">IIII8s8s")  # magic, version, page size, checkpoint number, salts, checksum
_FRAME = struct.Struct(">II8s8s")  # page, pages of the database after a commit or 0, salts, checksum
_MAGIC = (0x377F0682, 0x377F0683)


def lost_commits(file: Path, frames_taken: int) -> int:
    """Number of transactions that this log certainly commits behind the `frames_taken` frames that SQLite accepted."""
    with file.open("rb") as log:
        _, _, page_size, _, salts, _ = _HEADER.unpack(log.read(_HEADER.size))
        log.seek(_HEADER.size + frames_taken * (_FRAME.size + page_size))
        ends = 0
        while len(frame := log.read(_FRAME.size)) == _FRAME.size:
            _, pages_after, its_salts, _ = _FRAME.unpack(frame)
            ends += pages_after != 0 and its_salts == salts  # other salts: from an earlier round of the same file
            log.seek(page_size, 1)
        return max(0, ends - 1)


def has_sound_header(file: Path) -> bool:
    """Whether the header is valid. SQLite syncs it before any frame and ignores a log without it."""
    with file.open("rb") as log:
        head = log.read(_HEADER.size)
    if len(head) < _HEADER.size:
        return False
    magic = _HEADER.unpack(head)[0]
    if magic not in _MAGIC:
        return False
    words = struct.unpack((">" if magic & 1 else "<") + "6I", head[:24])
    first = second = 0
    for i in range(0, 6, 2):
        first = (first + words[i] + second) & 0xFFFFFFFF
        second = (second + words[i + 1] + first) & 0xFFFFFFFF
    return head[24:] == struct.pack(">II", first, second)
