"""Keeps the trace of a living process, in the form that `cluster.specs.traces` reads.

An action is written when all effects before it have taken place, and before those behind it do: so what is in the file
after a crash is what happened, and nothing that others saw of this process is missing from it. What the state machine
was given is written at once: it stays seen, whatever a crash undoes.
Above: driver.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING

from cluster.actions import SEEN
from cluster.runtime.observe.line_file import end_torn_line
from cluster.specs.traces import FORMAT, Life, action_line, life_line

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.actions import Action
    from cluster.names import ProcessId


class TraceRecorder:
    __slots__ = ("_descriptor", "_notes")

    def __init__(self, path: Path, process: ProcessId, boot: int, founder: ProcessId | None) -> None:
        end_torn_line(path)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._notes: deque[tuple[int, bytes]] = deque()  # how many effects come before it, and its line
        self._write(life_line(Life(FORMAT, process, boot, time.monotonic(), founder)))

    def note(self, action: Action, effects: int) -> None:
        """Record an action that follows the first `effects` effects of this life."""
        line = action_line(time.monotonic(), action)
        if isinstance(action, SEEN):
            self._write(line)
        else:
            self._notes.append((effects, line))

    def write_up_to(self, done: int) -> None:
        """The first `done` effects of this life took place, or need nothing but to be done."""
        notes, lines = self._notes, []
        while notes and notes[0][0] <= done:
            lines.append(notes.popleft()[1])
        if lines:
            self._write(b"".join(lines))

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._descriptor, data) :]

    def close(self) -> None:
        os.close(self._descriptor)
