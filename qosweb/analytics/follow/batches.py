"""Checkpointed sums of a stream: one folder per micro-batch on disk, so that repeating a batch is idempotent.

    batches/N/        sums of one batch as Parquet, and note.json, which is written last
    batches/sum-N/    the merged sums of all batches up to N, so that there are never many folders
    recent/N/         the lines of one batch, as long as a query may still need them

The batches up to N are the newest sum-M with M at most N, and the single batches after M. A batch is merged only when a
later batch has begun: from then on Spark never repeats it.
Neighbours: ``stream`` makes the batches, ``slot_sums`` and ``tables`` define the sums.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql import functions as f

from qosweb.analytics.read import slot_sums
from qosweb.analytics.read.rows import LogEvent
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SINGLE_MAX = 24  # batches that are not merged into a sum
SLOTS, TIMES, ASKED_FOR, ACCESSED = "slots", "times", "asked_for", "accessed"
_SCHEMAS = {
    TIMES: "window_s long, node string, name string, what int, step int, requests long",
    ASKED_FOR: "what string, name string, requests long, served long, sent_bytes long",
    ACCESSED: "policy string, pages int, slot long, first double, last double",
}
_SUM = "sum-"


class Sample(msgspec.Struct, frozen=True):
    """Request ids that show a violation. ``of`` identifies the verdict."""

    of: list[str | int]
    rids: list[str]


class BatchNote(msgspec.Struct):
    """Facts about one batch, or about all batches up to one, besides the sums."""

    watermark_s: float | None = None
    latest_s: float | None = None
    cuts: list[str] = []
    events: list[LogEvent] = []
    twice: dict[str, list[str]] = {}
    samples: list[Sample] = []
    named: int = 0  # lines that end a request and have its rid


class Batches:
    """The batches of one checkpoint."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._folder = folder / "batches"
        self._recent = folder / "recent"
        self._of_lines: StructType | None = None
        self._folder.mkdir(exist_ok=True)
        self._recent.mkdir(exist_ok=True)

    def note(self, until: int) -> BatchNote:
        """The merged note of all batches up to ``until``."""
        whole = BatchNote()
        for folder in self._up_to(until):
            batch = _read(folder)
            whole.watermark_s = batch.watermark_s
            whole.cuts += batch.cuts
            whole.events += batch.events
            whole.twice |= batch.twice
            whole.samples += batch.samples
            whole.named += batch.named
        return whole

    def _table(self, name: str, until: int, schema: str) -> DataFrame:
        """A table over all batches up to ``until``; columns that a batch lacks are null.

        The explicit schema saves Spark from reading the files to infer one.
        """
        paths = [str(folder / name) for folder in self._up_to(until) if (folder / name).exists()]
        return self._spark.read.schema(schema).parquet(*paths) if paths else self._spark.createDataFrame([], schema)

    def begin(self, number: int) -> Path:
        """Creates the folder of a batch, without the files of an earlier attempt."""
        folder = self._folder / f"{number:09d}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        return folder

    def end(self, number: int, note: BatchNote) -> None:
        """Writes the note: from here on the batch counts. May be called again with a longer note."""
        folder = self._folder / f"{number:09d}"
        new = folder / "note.new"
        try:
            with new.open("wb") as file:
                file.write(msgspec.json.encode(note))
                file.flush()
                os.fsync(file.fileno())
            new.replace(folder / "note.json")
        except OSError as error:
            raise UsageError(f"{new}: {error.strerror}") from None

    def keep_lines(self, number: int, lines: DataFrame) -> None:
        self._of_lines = lines.schema
        lines.coalesce(1).write.mode("overwrite").parquet(str(self._recent / f"{number:09d}"))

    def lines(self) -> DataFrame:
        """The lines of recent batches."""
        reader = self._spark.read.schema(self._of_lines) if self._of_lines else self._spark.read
        return reader.parquet(*(str(folder) for folder in sorted(self._recent.iterdir())))

    def forget_lines(self, number: int, before_s: float) -> None:
        """Deletes the lines of finished batches whose requests are all older than ``before_s``."""
        for folder in self._recent.iterdir():
            note = self._folder / folder.name
            if int(folder.name) < number and (
                not note.exists() or ((latest_s := _read(note).latest_s) is None or latest_s < before_s)
            ):
                shutil.rmtree(folder)
        self._sweep()

    def merge(self, until: int, responses_ms: Sequence[int]) -> None:
        """Merges all batches up to ``until``, which must have ended, if there are many."""
        if len(self._up_to(until)) <= SINGLE_MAX:
            return
        making = self._folder / f".{_SUM}{until:09d}"
        shutil.rmtree(making, ignore_errors=True)
        for name, table in self.sums(until, responses_ms).items():
            table.coalesce(1).write.parquet(str(making / name))
        note = self.note(until)
        note.cuts = []
        (making / "note.json").write_bytes(msgspec.json.encode(note))
        making.rename(self._folder / f"{_SUM}{until:09d}")
        self._sweep()

    def _sweep(self) -> None:
        """Deletes merged batches, except notes that are needed to decide when lines can be deleted."""
        sums = sorted(_number(folder) for folder in self._folder.glob(f"{_SUM}*"))
        if not sums:
            return
        keep = {folder.name for folder in self._recent.iterdir()}
        for folder in self._folder.iterdir():
            is_single = folder.name[0].isdigit() and folder.name not in keep and _number(folder) <= sums[-1]
            if is_single or folder.name in {f"{_SUM}{number:09d}" for number in sums[:-1]}:
                shutil.rmtree(folder)

    def sums(self, until: int, responses_ms: Sequence[int]) -> Mapping[str, DataFrame]:
        times, asked, accessed = (self._table(name, until, schema) for name, schema in _SCHEMAS.items())
        return {
            SLOTS: slot_sums.added_up(self._table(SLOTS, until, slot_sums.schema(responses_ms)), responses_ms),
            TIMES: times.groupBy("window_s", "node", "name", "what", "step").agg(f.sum("requests").alias("requests")),
            ASKED_FOR: asked.groupBy("what", "name").agg(
                *(f.sum(name).alias(name) for name in ("requests", "served", "sent_bytes"))
            ),
            ACCESSED: accessed.groupBy("policy", "pages", "slot").agg(
                f.min("first").alias("first"), f.max("last").alias("last")
            ),
        }

    def last(self) -> int | None:
        """The newest batch that has ended."""
        found = [one for one in self._folder.iterdir() if one.name[0] != "." and (one / "note.json").exists()]
        return max(map(_number, found), default=None)

    def _up_to(self, until: int) -> list[Path]:
        named = [folder for folder in self._folder.iterdir() if (folder / "note.json").exists()]
        sums = [folder for folder in named if folder.name.startswith(_SUM) and _number(folder) <= until]
        base = max(sums, key=_number, default=None)
        after = -1 if base is None else _number(base)
        single = [folder for folder in named if folder.name[0].isdigit() and after < _number(folder) <= until]
        return ([base] if base else []) + sorted(single)


def _number(folder: Path) -> int:
    return int(folder.name.removeprefix(_SUM))


def _read(folder: Path) -> BatchNote:
    file = folder / "note.json"
    try:
        return msgspec.json.decode(file.read_bytes(), type=BatchNote)
    except (OSError, msgspec.MsgspecError) as error:
        raise UsageError(f"{file}: is damaged ({error}); use a new folder for --checkpoint") from None
