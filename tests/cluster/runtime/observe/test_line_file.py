"""Line files of several process lives: a line torn by a kill stays separate, and readers continue after it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from cluster.actions import Confirm
from cluster.names import ProcessId
from cluster.runtime.observe.line_file import end_torn_line
from cluster.runtime.observe.trace_recorder import TraceRecorder
from cluster.specs.traces import BadTrace, Life, action_line, read_trace

if TYPE_CHECKING:
    from pathlib import Path

ME = ProcessId("a")


@pytest.mark.parametrize(
    ("before", "after"), [(b"", b""), (b"one\n", b"one\n"), (b"one\ntw", b"one\ntw\n"), (b"x", b"x\n")]
)
def test_a_torn_line_gets_its_end(tmp_path: Path, before: bytes, after: bytes) -> None:
    file = tmp_path / "lines"
    file.write_bytes(before)
    end_torn_line(file)
    assert file.read_bytes() == after


def test_a_missing_file_is_not_created(tmp_path: Path) -> None:
    end_torn_line(tmp_path / "lines")
    end_torn_line(tmp_path)
    assert list(tmp_path.iterdir()) == []


def recorded(file: Path, boot: int) -> None:
    TraceRecorder(file, ME, boot, None).close()
    with file.open("ab") as lines:
        lines.write(action_line(float(boot), Confirm(boot)))


def boots_and_actions(file: Path) -> list[object]:
    found = read_trace("t", file.read_bytes().splitlines(keepends=True))
    return [step.boot if isinstance(step, Life) else step[2] for step in found]


def test_a_trace_continues_after_a_torn_line(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    recorded(file, 1)
    whole = file.read_bytes()
    for length in range(len(whole.splitlines(keepends=True)[0]), len(whole)):
        file.write_bytes(whole[:length])
        recorded(file, 2)
        assert boots_and_actions(file) in ([1, 2, Confirm(2)], [1, Confirm(1), 2, Confirm(2)]), length


def test_an_invalid_line_within_a_life_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "trace"
    recorded(file, 1)
    with file.open("ab") as lines:
        lines.write(b'[1.0,"Conf\n' + action_line(2.0, Confirm(2)))
    with pytest.raises(BadTrace, match="t:3: not a valid trace line"):
        boots_and_actions(file)
