"""Row format of a store: tables, values and checksums.

| table    | a row is                                   | key                                    | body              |
|----------|--------------------------------------------|----------------------------------------|-------------------|
| meta     | one value                                  | its name, as in `Meta`                 | msgpack           |
| runs     | a run of the order                         | position of its first entry            | msgpack of `Run`  |
| labelled | an own run that is not ordered yet         | a number                               | msgpack of `Run`  |
| snapshot | a piece of the state machine's snapshot    | 0, 1, ...                              | up to 256 KiB     |
| interim  | a state or operation of the interim service| a number, in the order of the records  | msgpack of record |

The table `interim` exists from the first record of the interim service on.

Every row ends with a CRC-32 over its key and body. SQLite detects a truncated file and inconsistent pages, but not a
changed byte within a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from zlib import crc32

import msgspec

from cluster.durable import InterimOperation, InterimState
from cluster.names import Label, ProcessId, View, ViewId
from cluster.run_log import Run

if TYPE_CHECKING:
    from collections.abc import Iterator

PIECE_BYTES = 256 * 1024  # bytes of a snapshot per row
RECOVERIES_MAX = 64
RECOVERY_LEN_MAX = 64 * 1024  # bytes per recovery, as reported by peers

SCHEMA = """
CREATE TABLE meta (key TEXT PRIMARY KEY, body BLOB NOT NULL, sum INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE runs (position INTEGER PRIMARY KEY, length INTEGER NOT NULL, body BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE labelled (number INTEGER PRIMARY KEY, body BLOB NOT NULL, sum INTEGER NOT NULL);
CREATE TABLE snapshot (piece INTEGER PRIMARY KEY, body BLOB NOT NULL, sum INTEGER NOT NULL);
"""

INTERIM_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS interim (number INTEGER PRIMARY KEY, body BLOB NOT NULL, sum INTEGER NOT NULL)"
)


class DiskIdentity(msgspec.Struct, frozen=True):
    """Owner of a disk. Written once at creation; a recovery changes only the cluster id."""

    cluster_id: str
    name: str
    incarnation: int
    founder: bool

    @property
    def process(self) -> ProcessId:
        return ProcessId(self.name, self.incarnation)


class Recovery(msgspec.Struct, frozen=True):
    """Permanent record of an operator recovery without a majority."""

    at: str  # UTC, ISO 8601
    old_cluster_id: str
    new_cluster_id: str
    founding: str  # the new founding, to which the continuing disks belong
    view: View  # the single-member view that replaces the last primary view
    kept: tuple[ProcessId, ...]  # processes whose disks continued
    given_up: tuple[ProcessId, ...]  # members of views in use whose disks were given up
    position: int  # end of the order that continued
    confirmed: int  # how much of it was known to be confirmed

    def __str__(self) -> str:
        lost = ", ".join(process.name for process in self.given_up) or "losses"
        return f"at {self.at}, without {lost}: '{self.old_cluster_id}' became '{self.new_cluster_id}'"

    @property
    def length(self) -> int:
        return len(msgspec.msgpack.encode(self))


def all_recoveries(ours: tuple[Recovery, ...], theirs: tuple[Recovery, ...]) -> tuple[Recovery, ...]:
    """The union of both lists, oldest first; only the newest if there are too many to be plausible."""
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
    """All values of the table `meta`. The defaults stand for values that were never written."""

    identity: DiskIdentity
    founding: str = ""  # founding that the process belongs to; empty while unknown
    in_use: bool = False  # not closed cleanly, so the write-ahead log must exist
    boot: int = 0
    epoch: int = 0
    primaries: PrimariesRow = PrimariesRow(None, ())
    high_primary: ViewId | None = None
    next_confirm: int = 0
    base: int = 0  # position of the first run
    snapshot: SnapshotHead | None = None
    recoveries: tuple[Recovery, ...] = ()


META_KEYS = Meta.__struct_fields__

encode = msgspec.msgpack.Encoder().encode
decode_run = msgspec.msgpack.Decoder(Run).decode
decode_interim = msgspec.msgpack.Decoder(InterimOperation | InterimState).decode


class CorruptRow(Exception):
    """A row differs from what was written."""


def number_sum(number: int, body: bytes) -> int:
    """The checksum of a row with an integer key."""
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
        raise CorruptRow("meta has no identity")
    try:
        return msgspec.convert(values, Meta)
    except msgspec.ValidationError as error:
        raise CorruptRow(f"meta has a value of the wrong type: {error}") from error


def interim_of(number: int, body: bytes, checksum: int) -> InterimOperation | InterimState:
    if number_sum(number, body) != checksum:
        raise CorruptRow(f"the checksum of row {number} of interim is wrong")
    try:
        record: InterimOperation | InterimState = decode_interim(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptRow(f"row {number} of interim is not a record: {error}") from error
    return record


def run_of(table: str, number: int, body: bytes, checksum: int) -> Run:
    if number_sum(number, body) != checksum:
        raise CorruptRow(f"the checksum of row {number} of {table} is wrong")
    try:
        run = decode_run(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CorruptRow(f"row {number} of {table} is not a run: {error}") from error
    if not run.pack.is_sound:
        raise CorruptRow(f"row {number} of {table} does not have the {run.pack.count} entries that it declares")
    return run
