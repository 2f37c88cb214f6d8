"""What the rows of a store hold, and how a row is known to be what was written.

| table    | a row is                                   | key                                    | body              |
|----------|--------------------------------------------|----------------------------------------|-------------------|
| meta     | one value                                  | its name, as in `Meta`                 | msgpack           |
| runs     | a run of the order                         | position of its first entry            | msgpack of `Run`  |
| labelled | an own run that no order has yet           | a number                               | msgpack of `Run`  |
| snapshot | a piece of the state machine's snapshot    | 0, 1, ...                              | up to 256 KiB     |

Every row ends with a CRC-32 over its key and its body: SQLite notices a file that is cut or whose pages do not fit
together, but not a changed byte in the middle of a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from cluster.names import Label, ProcessId, View, ViewId
from cluster.run_log import Run

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE_BYTES = 256 * 1024  # of a snapshot, in one row
RECOVERIES_MAX = 64
RECOVERY_LEN_MAX = 64 * 1024  # bytes of one, as others may tell of it

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, body BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (position INTEGER PRIMARY KEY, length INTEGER NOT NULL, body BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE labelled (number INTEGER PRIMARY KEY, body BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE snapshot (piece INTEGER PRIMARY KEY, body BLOB NOT NULL, sum INTEGER NOT NULL);
"""


class DiskIdentity(msgspec.Struct, frozen=True):
    """Whose disk this is. Written once, when the disk is made; a recovery changes the cluster id and nothing else."""

    cluster_id: str
    name: str
    incarnation: int
    founder: bool

    @property
    def process(self) -> ProcessId:
        return ProcessId(self.name, self.incarnation)


class Recovery(msgspec.Struct, frozen=True):
    """The mark that `python -m cluster recover` leaves for ever."""

    at: str  # UTC, ISO 8601
    old_cluster_id: str
    new_cluster_id: str
    founding: str  # those who went on belong to this one since
    view: View  # the view of one that counts as the last primary view since
    kept: tuple[ProcessId, ...]  # whose disks went on
    given_up: tuple[ProcessId, ...]  # members of views in use whose disks did not
    position: int  # how far the order that went on reached
    confirmed: int  # how much of it was known to be confirmed

    @property
    def length(self) -> int:
        return len(msgspec.msgpack.encode(self))


def all_recoveries(ours: tuple[Recovery, ...], theirs: tuple[Recovery, ...]) -> tuple[Recovery, ...]:
    """What either knows, oldest first; the last ones, where there are too many to be true."""
    marks = {(mark.at, mark.new_cluster_id): mark for mark in (*theirs, *ours)}
    return tuple(marks[key] for key in sorted(marks))[-RECOVERIES_MAX:]


class PrimariesRow(msgspec.Struct, frozen=True):
    act: View | None
    amb: tuple[View, ...]


class SnapshotHead(msgspec.Struct, frozen=True):
    position: int
    highest: tuple[Label, ...]
    size: int


class Meta(msgspec.Struct, frozen=True, kw_only=True):
    """All values of the table `meta`. What was never written is what it is here."""

    identity: DiskIdentity
    founding: str = ""  # which founding of the cluster it belongs to, as far as it was told
    in_use: bool = False  # a process was running on this disk, so its write-ahead log belongs to it
    boot: int = 0
    epoch: int = 0
    primaries: PrimariesRow = PrimariesRow(None, ())
    high_primary: ViewId | None = None
    next_confirm: int = 0
    base: int = 0  # where the first run begins, or would
    snapshot: SnapshotHead | None = None
    recoveries: tuple[Recovery, ...] = ()


META_KEYS = Meta.__struct_fields__

encode = msgspec.msgpack.Encoder().encode
decode_run = msgspec.msgpack.Decoder(Run).decode


class CorruptRow(Exception):
    """A row is not what was written."""


def number_sum(number: int, body: bytes) -> int:
    """The checksum of a row whose key is a number."""
    return crc32(body, number & 0xFFFFFFFF)


def meta_row(key: str, value: object) -> tuple[str, bytes, int]:
    body = encode(value)
    return key, body, crc32(body, crc32(key.encode()))


def meta_of(rows: Iterator[tuple[str, bytes, int]]) -> Meta:
    values: dict[str, Any] = {}
    for key, body, checksum in rows:
        if key not in META_KEYS:
            raise CorruptRow(f"meta has a value '{key}' that no version of this schema writes")
        if crc32(body, crc32(key.encode())) != checksum:
            raise CorruptRow(f"the checksum of the value '{key}' in meta is wrong")
        values[key] = msgspec.msgpack.decode(body)
    if "identity" not in values:
        raise CorruptRow("meta does not say whose disk it is")
    try:
        return msgspec.convert(values, Meta)
    except msgspec.ValidationError as error:
        raise CorruptRow(f"meta has a value of the wrong type: {error}") from error


def run_of(table: str, number: int, body: bytes, checksum: int) -> Run:
    if number_sum(number, body) != checksum:
        raise CorruptRow(f"the checksum of row {number} of {table} is wrong")
    try:
        run = decode_run(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptRow(f"row {number} of {table} is no run: {error}") from error
    if not run.pack.is_sound:
        raise CorruptRow(f"row {number} of {table} has not the {run.pack.count} entries that it says")
    return run
