"""A file of lines that is written in batches by a thread of its own, rotated and reopened; no line torn or doubled.

The event loop hands over lists of lines and never waits for the disk. What waits is bounded: when the disk does
not take more, whole batches are dropped, counted and announced. If a write stops in the middle of a line (a full
disk), the file is cut back to its last whole line and that line is tried again later.
"""

import contextlib
import errno
import fcntl
import os
import queue
import stat
import sys
import threading
from collections.abc import Callable
from pathlib import Path

BACKLOG_LINES_MAX = 200_000
TRY_AGAIN_S = 0.5

_STDOUT = 1


class LogFile:
    """Where the lines go. ``path`` None is standard output, which is neither rotated nor reopened."""

    def __init__(
        self,
        path: Path | None,
        *,
        rotate_bytes: int,
        keep: int,
        complain: Callable[[str], None] | None = None,
    ) -> None:
        self.lines_written = 0
        self.lines_lost = 0
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._keep = keep
        self._complain = complain or _to_stderr
        self._failing = False
        self._lines_put = 0  # only the event loop counts here, only the thread in lines_written
        self._inbox: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()
        self._reopen = threading.Event()
        self._stopping = threading.Event()
        self._descriptor = _STDOUT if path is None else _open(path)
        status = os.fstat(self._descriptor)
        self._size = status.st_size
        # Only what we made ourselves: nobody wants a /dev/null.1.
        self._rotates = rotate_bytes > 0 and path is not None and stat.S_ISREG(status.st_mode)
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    @property
    def lines_waiting(self) -> int:
        return self._lines_put - self.lines_written

    def put(self, lines: list[str]) -> None:
        """Take over ``lines``, each with its end. Never waits."""
        if self.lines_waiting + len(lines) > BACKLOG_LINES_MAX:
            self.lines_lost += len(lines)
            return
        self._lines_put += len(lines)
        self._inbox.put(lines)

    def reopen(self) -> None:
        """Go on in a new file of the same name (the old one was moved away)."""
        self._reopen.set()
        self._inbox.put([])

    def close(self, timeout_s: float) -> None:
        """Write what is left, within the time given."""
        self._stopping.set()
        self._inbox.put(None)
        self._thread.join(timeout_s)
        if self.lines_waiting:
            self.lines_lost += self.lines_waiting
            self._complain(f"access log: {self.lines_lost} lines lost")

    def _run(self) -> None:
        while (lines := self._inbox.get()) is not None:
            if self._reopen.is_set():
                self._reopen.clear()
                self._change_file(rotate=False)
            if lines and not self._write("".join(lines).encode()):
                break
            self.lines_written += len(lines)
        if self._path is not None:
            os.close(self._descriptor)

    def _write(self, batch: bytes) -> bool:
        """Write it all, however often that has to be tried; False if that must end because we are stopping."""
        if self._rotates and self._size and self._size + len(batch) > self._rotate_bytes:
            self._change_file(rotate=True)
        rest = memoryview(batch)
        while rest:
            try:
                written = os.write(self._descriptor, rest)
            except OSError as error:
                written = self._cut_back(batch, len(batch) - len(rest))
                self._report_failure(error)
                if self._stopping.is_set():  # this was the last try
                    self.lines_written += batch.count(b"\n", 0, written)
                    return False
                self._stopping.wait(TRY_AGAIN_S)
                rest = memoryview(batch)[written:]
                continue
            self._size += written
            rest = rest[written:]
        if self._failing:
            self._failing = False
            self._complain(f"access log: writing again; {self.lines_lost} lines lost so far")
        return True

    def _cut_back(self, batch: bytes, written: int) -> int:
        """Take a torn line out of the file again; returns how much of the batch stays written."""
        whole = batch.rfind(b"\n", 0, written) + 1
        if written > whole and self._path is not None:
            with contextlib.suppress(OSError):
                size = os.fstat(self._descriptor).st_size  # not our own count: somebody may have emptied the file
                os.ftruncate(self._descriptor, max(0, size - (written - whole)))
                self._size -= written - whole
                return whole
        return written

    def _report_failure(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            name = self._path or "standard output"
            self._complain(f"access log: cannot write {name}: {error.strerror}; trying again, lines are held")

    def _change_file(self, *, rotate: bool) -> None:
        if self._path is None:
            return
        try:
            if rotate:
                for number in range(self._keep - 1, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        Path(f"{self._path}.{number}").replace(f"{self._path}.{number + 1}")
                with contextlib.suppress(FileNotFoundError):  # somebody took it away; a new one is what we want
                    self._path.replace(f"{self._path}.1")
            descriptor = _open(self._path)
        except OSError as error:
            self._complain(f"access log: cannot start a new {self._path}: {error.strerror}; going on in the old one")
            self._size = 0  # tried again after as much again, not with every batch
            return
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    status = os.fstat(descriptor)
    size = status.st_size
    if stat.S_ISREG(status.st_mode):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise OSError(errno.EBUSY, "another process writes to it") from None
    try:
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            os.write(descriptor, b"\n")  # a line that a crash tore must not swallow our first one
    except OSError:
        pass  # not a regular file
    return descriptor


def _to_stderr(message: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it; the log goes on
        print(f"qosweb: {message}", file=sys.stderr, flush=True)
