"""``python -m cluster inspect DIR``: shows the content of a node's data directory as text or JSON.

Read-only, also while a node uses the directory: it then shows the last committed transaction.
"""

from __future__ import annotations

import sqlite3
import tempfile
from codecs import getincrementaldecoder
from pathlib import Path
from shutil import copyfile
from typing import TYPE_CHECKING

import msgspec

from cluster.entries import APPLICATION, CHECKPOINT, VIEW
from cluster.names import Label, ProcessId, View, ViewId
from cluster.replica import Checkpoint
from cluster.runtime.disk import database_file
from cluster.runtime.disk.image_reader import read_image
from cluster.runtime.disk.rows import Recovery
from cluster.runtime.disk.store_errors import DamagedDisk, DiskUnwritable, refusal
from cluster.state_exchange import view_of_entry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cluster.durable import Image
    from cluster.entries import Entry
    from cluster.runtime.disk.rows import Meta

ENTRIES_SHOWN = 5
BODY_SHOWN = 60


class EntryView(msgspec.Struct, frozen=True):
    """One entry of the order."""

    position: int
    label: Label
    kind: str
    size: int
    text: str


class SnapshotView(msgspec.Struct, frozen=True):
    """Position and size of the snapshot."""

    position: int
    size: int


class DiskContents(msgspec.Struct, frozen=True):
    """Content of a data directory. `--json` prints this."""

    directory: str
    damage: str  # what is damaged; the rest is what could still be read
    in_use: bool  # a node uses it now
    clean: bool  # the last node closed it cleanly
    cluster_id: str
    process: ProcessId
    founder: bool
    founding: str
    boot: int
    epoch: int
    act: View | None
    amb: tuple[View, ...]
    high_primary: ViewId | None
    log_base: int
    log_end: int
    next_confirm: int
    runs: int
    labelled: int  # own entries that are not ordered yet
    snapshot: SnapshotView | None
    file_sizes: dict[str, int]
    recoveries: tuple[Recovery, ...]
    last_entries: tuple[EntryView, ...]


def inspect(directory: Path, entries: int = ENTRIES_SHOWN) -> DiskContents:
    """Read the content of a data directory. Raises a `StoreError` if it has no disk or a damaged one."""
    in_use = database_file.is_locked(directory)
    sizes = {file.name: file.stat().st_size for file in sorted(directory.glob(database_file.FILE + "*"))}
    try:
        meta, image, runs, damage = _read(directory, in_use)
    except DiskUnwritable:  # SQLite needs to write beside the file even for reading
        with tempfile.TemporaryDirectory() as copy:
            for name in (database_file.FILE, database_file.FILE + "-wal"):
                if (directory / name).exists():
                    copyfile(directory / name, Path(copy) / name)
            meta, image, runs, damage = _read(Path(copy), in_use)
    log = image.log
    return DiskContents(
        directory=str(directory),
        damage=damage,
        in_use=in_use,
        clean=not meta.in_use,
        cluster_id=meta.identity.cluster_id,
        process=meta.identity.process,
        founder=meta.identity.founder,
        founding=meta.founding,
        boot=image.boot,
        epoch=image.epoch,
        act=image.act,
        amb=image.amb,
        high_primary=image.high_primary,
        log_base=log.base,
        log_end=log.end,
        next_confirm=max(image.next_confirm, image.snapshot.position if image.snapshot else 0),
        runs=runs,
        labelled=sum(run.pack.count for run in image.labelled.values()),
        snapshot=SnapshotView(image.snapshot.position, len(image.snapshot.state)) if image.snapshot else None,
        file_sizes=sizes,
        recoveries=meta.recoveries,
        last_entries=tuple(_last(image, entries)),
    )


def _read(directory: Path, in_use: bool) -> tuple[Meta, Image, int, str]:
    file = directory / database_file.FILE
    damage = ""
    if not in_use:
        try:
            database_file.check(directory)
        except DamagedDisk as error:
            damage = str(error)
    connection = database_file.connect_read_only(directory)
    try:
        connection.execute("BEGIN")  # one consistent snapshot for all reads
        database_file.check_pages(file, connection)
        meta = database_file.read_meta(file, connection)
        runs = connection.execute("SELECT count(*) FROM runs WHERE position >= ?", (meta.base,)).fetchone()[0]
        return meta, read_image(file, connection, meta)[0], runs, damage
    except sqlite3.Error as error:
        raise refusal(file, error, "reading") from error
    finally:
        connection.close()


def _last(image: Image, count: int) -> Iterator[EntryView]:
    start = max(image.log.base, image.log.end - count)
    for position, (label, entry) in enumerate(image.log.since(start), start):
        yield EntryView(position, label, KINDS.get(entry.kind, entry.kind), len(entry.body), _text(entry))


_decode_checkpoint = msgspec.msgpack.Decoder(Checkpoint).decode

KINDS = {APPLICATION: "entry", VIEW: "view", CHECKPOINT: "checkpoint"}


def _text(entry: Entry) -> str:
    if entry.kind == VIEW:
        return str(view_of_entry(entry))
    if entry.kind == CHECKPOINT:
        checkpoint = _decode_checkpoint(entry.body)
        return f"of {checkpoint.position}, digest {checkpoint.digest}"
    shown, end = entry.body[:BODY_SHOWN], "..." if len(entry.body) > BODY_SHOWN else ""
    try:
        return ascii(getincrementaldecoder("utf-8")().decode(shown))[1:-1] + end  # the last character may be cut
    except UnicodeDecodeError:
        return shown.hex() + end


def as_json(holding: DiskContents) -> str:
    return msgspec.json.format(msgspec.json.encode(holding)).decode()


def as_text(holding: DiskContents) -> str:
    return "\n".join(_lines(holding))


def _lines(holding: DiskContents) -> Iterator[str]:
    if holding.damage:
        yield f"DAMAGED       {holding.damage}"
    for recovery in holding.recoveries:
        yield from recovery_lines(recovery)
    state = "in use by a node" if holding.in_use else "closed cleanly" if holding.clean else "left by a crash"
    yield f"directory     {holding.directory} ({state})"
    yield f"cluster       {holding.cluster_id}"
    founder = ", the founder" if holding.founder else ""
    yield f"process       {holding.process.name}, incarnation {holding.process.incarnation}{founder}"
    yield f"founding      {holding.founding or 'not known'}"
    yield f"boot          {holding.boot}"
    yield f"epoch         {holding.epoch}"
    yield f"act           {holding.act or 'none: no primary view is known'}"
    yield "amb           " + (", ".join(map(str, holding.amb)) or "none")
    yield f"high primary  {holding.high_primary or 'none'}"
    yield f"order         {holding.log_base}..{holding.log_end} in {holding.runs} runs"
    yield f"confirmed     below {holding.next_confirm}, as far as the disk knows"
    yield f"not ordered   {holding.labelled} own entries"
    if holding.snapshot is not None:
        yield f"snapshot      at {holding.snapshot.position}, {holding.snapshot.size:,} bytes"
    else:
        yield "snapshot      none"
    yield "files         " + ", ".join(f"{name} {size:,} bytes" for name, size in holding.file_sizes.items())
    if holding.last_entries:
        yield "last entries"
    for entry in holding.last_entries:
        yield f"  {entry.position:>10}  {entry.label}  {entry.kind}, {entry.size} bytes: {entry.text}"


def recovery_lines(recovery: Recovery) -> Iterator[str]:
    """The lines about a recovery, as every status shows them."""
    lost = ", ".join(map(str, recovery.given_up)) or "losses"
    yield f"RECOVERED     at {recovery.at} by an operator, without {lost}"
    yield f"              '{recovery.old_cluster_id}' became '{recovery.new_cluster_id}'"
    yield f"              entries that only they had are lost; the order continued from {recovery.position}"
