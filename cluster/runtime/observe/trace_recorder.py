"""Records the action trace of a running process, in the format that `cluster.specs.traces` reads.

An action is written after all effects before it are performed, and before the effects behind it. So the file after a
crash holds what happened, and lacks nothing that other processes saw of this one. What the state machine received is
written at once: a crash does not undo it.
A disk transaction holds no record from beyond the next action of a view change. Otherwise a process that is killed
between transaction and trace would return from its disk in a view that it never attempted, by its trace.
Above: driver.
"""

from __future__ import annotations

import os
import time
from collections import deque
from typing import TYPE_CHECKING

from cluster.actions import SEEN, DvsNewView, DvsRegister, Established, VsNewView
from cluster.runtime.observe.line_file import end_torn_line
from cluster.specs.traces import FORMAT, Life, action_line, life_line

if TYPE_CHECKING:
    from pathlib import Path

    from cluster.actions import Action
    from cluster.names import ProcessId


VIEW_CHANGE = (VsNewView, DvsNewView, DvsRegister, Established)


class TraceRecorder:
    """Appends actions to a trace file, in step with the effects that were performed."""

    __slots__ = ("_descriptor", "_notes", "_view_changes")

    def __init__(self, path: Path, process: ProcessId, boot: int, founder: ProcessId | None) -> None:
        end_torn_line(path)
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self._notes: deque[tuple[int, bytes]] = deque()  # (number of effects before the action, its line)
        self._view_changes: deque[int] = deque()  # number of effects before each action of a view change
        self._write(life_line(Life(FORMAT, process, boot, time.monotonic(), founder)))

    def note(self, action: Action, effects: int) -> None:
        """Record an action that follows the first `effects` effects of this life."""
        line = action_line(time.monotonic(), action)
        if isinstance(action, SEEN):
            self._write(line)
        else:
            self._notes.append((effects, line))
            if isinstance(action, VIEW_CHANGE):
                self._view_changes.append(effects)

    def transaction_length(self, done: int, count: int) -> int:
        """How many of the `count` effects behind the first `done` effects may share a disk transaction."""
        while self._view_changes and self._view_changes[0] <= done:
            self._view_changes.popleft()
        return min(count, self._view_changes[0] - done) if self._view_changes else count

    def write_up_to(self, done: int) -> None:
        """Write the actions up to the first `done` effects of this life: these are performed, or about to be."""
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
