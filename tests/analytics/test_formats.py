"""Formats of a follower's checkpoint: golden bytes of its JSON files, and the columns of its tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from qosweb.analytics.follow import batches, checkpoint, log_tail
from qosweb.analytics.read import slot_sums
from qosweb.analytics.read.rows import LogEvent
from tests.support.golden import Case, assert_all_types_occur, check

DATA = Path(__file__).parent / "data"
EVENT = LogEvent("view", 12.5, "a", 41, "3:ab", ("a", "b"), True, "p1", "text", 2_000_000, "b", True)
VALUES: dict[str, Any] = {
    "tail.json": log_tail.TailState(7, True, [log_tail.Log("access.log", 1, 2, 300, "ab", 256)], ["access.log"]),
    "note.json": batches.BatchNote(
        12.5, 12.25, ["000000000007-end"], [EVENT], {"r": ["1", "2"]}, [batches.Sample(["a", 1], ["b1244dbf-17"])], 9
    ),
    "note.json.empty": batches.BatchNote(),
    "options.json": checkpoint.CheckpointOptions(60, 1, 5.0, 2.5, "100ms", "ab"),
}


def test_files_of_a_checkpoint(write_golden: bool) -> None:
    cases = {
        name: Case(value, msgspec.json.encode, msgspec.json.Decoder(type(value)).decode)
        for name, value in VALUES.items()
    }
    tables = {**batches._SCHEMAS, batches.SLOTS: slot_sums.schema((100, 2_000))}
    cases |= {f"table.{name}": Case(columns, str.encode, bytes.decode) for name, columns in tables.items()}
    check(DATA / "checkpoint.txt", cases, write=write_golden)


def test_events_of_checkpoints_before_log_files_began_with_copies() -> None:
    old = b'["view",12.5,"a",41,"3:ab",["a","b"],true,"p1","text",2000000,"b"]'
    assert msgspec.json.decode(old, type=LogEvent) == EVENT._replace(repeated=False)


def test_every_type_has_a_golden_value() -> None:
    assert_all_types_occur([type(value) for value in VALUES.values()], VALUES.values())
