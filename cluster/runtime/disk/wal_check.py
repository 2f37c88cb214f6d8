"""Whether a write-ahead log of SQLite lost something that had been committed.

SQLite reads such a log up to the first frame whose checksum is wrong and takes the rest for what a crash left behind.
After a crash that is right. But a changed byte in the middle looks the same, and then transactions that were
acknowledged long ago are gone without a word. The two can be told apart: every commit here waits for the disk, so the
next transaction is written only when the one before is whole. At most one transaction can be torn. Two more ends of
transactions behind the first wrong frame mean that the log was damaged later.

Format: sqlite.org/fileformat2.html, section 4. A header of 32 bytes; frames of 24 bytes and a page; a frame belongs to
the log if it has the salts of the header, and ends a transaction if its second number is not zero.
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
    """How many transactions this log ends, for certain, behind the `frames_taken` that SQLite took from it."""
    with file.open("rb") as log:
        _, _, page_size, _, salts, _ = _HEADER.unpack(log.read(_HEADER.size))
        log.seek(_HEADER.size + frames_taken * (_FRAME.size + page_size))
        ends = 0
        while len(frame := log.read(_FRAME.size)) == _FRAME.size:
            _, pages_after, its_salts, _ = _FRAME.unpack(frame)
            ends += pages_after != 0 and its_salts == salts  # other salts: of an earlier round of the same file
            log.seek(page_size, 1)
        return max(0, ends - 1)


def has_sound_header(file: Path) -> bool:
    """Without one SQLite takes nothing from the log. It is written in one piece and synced before any frame."""
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
