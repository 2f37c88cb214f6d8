"""Log file: a writer thread appends batches of lines, rotates and reopens the file, and never tears a line.

The event loop hands over lists of lines and never waits for the disk. The backlog is bounded: when the disk is too
slow, complete batches are dropped, counted and reported. If a write stops in the middle of a line (a full disk), the
file is truncated to its last complete line, and the write of that line is retried later.

Each batch comes with its heading: the event lines in force before its first line. A new file begins with the heading of
its first batch, so that every file can be analysed without the earlier ones.
"""

import contextlib
import errno
import fcntl
import os
import queue
import stat
import threading
from collections.abc import Sequence
from pathlib import Path

from qosweb.server.process.console import log_message

BACKLOG_LINES_MAX = 200_000
TRY_AGAIN_S = 0.5

_STDOUT = 1


class LogFile:
    """An append-only file with its writer thread. ``path`` None is standard output: never rotated or reopened."""

    def __init__(
        self,
        path: Path | None,
        *,
        rotate_bytes: int,
        keep: int,
    ) -> None:
        self.lines_written = 0
        self.lines_lost = 0
        self._path = path
        self._rotate_bytes = rotate_bytes
        self._keep = keep
        self._failing = False
        self._lines_put = 0  # written only by the event loop; lines_written only by the thread
        self._inbox: queue.SimpleQueue[tuple[list[str], Sequence[str]] | None] = queue.SimpleQueue()
        self._is_new = False  # the file is a new one, which lacks its heading
        self._reopen = threading.Event()
        self._stopping = threading.Event()
        self._descriptor = _STDOUT if path is None else _open(path)
        status = os.fstat(self._descriptor)
        self._size = status.st_size
        # Only regular files are rotated: there must be no /dev/null.1.
        self._rotates = rotate_bytes > 0 and path is not None and stat.S_ISREG(status.st_mode)
        self._thread = threading.Thread(target=self._run, name="log-writer", daemon=True)
        self._thread.start()

    @property
    def lines_waiting(self) -> int:
        return self._lines_put - self.lines_written

    def put(self, lines: list[str], heading: Sequence[str] = ()) -> None:
        """Queue ``lines``, each with its newline, for the writer thread. Never blocks."""
        if self.lines_waiting + len(lines) > BACKLOG_LINES_MAX:
            self.lines_lost += len(lines)
            return
        self._lines_put += len(lines)
        self._inbox.put((lines, heading))

    def reopen(self, heading: Sequence[str] = ()) -> None:
        """Continue in a new file of the same name, after the old file was moved away."""
        self._reopen.set()
        self._inbox.put(([], heading))

    def close(self, timeout_s: float) -> None:
        """Write the remaining lines, for at most ``timeout_s``, and stop the thread."""
        self._stopping.set()
        self._inbox.put(None)
        self._thread.join(timeout_s)
        if self.lines_waiting:
            self.lines_lost += self.lines_waiting
            log_message(f"access log: {self.lines_lost} lines lost")

    def _run(self) -> None:
        while (batch := self._inbox.get()) is not None:
            lines, heading = batch
            data = "".join(lines).encode()
            if self._reopen.is_set():
                self._reopen.clear()
                self._change_file(rotate=False)
            elif self._rotates and self._size and self._size + len(data) > self._rotate_bytes:
                self._change_file(rotate=True)
            if self._is_new:
                self._is_new = False
                self._write("".join(heading).encode())
            written = self._write(data)
            if written < len(data):
                self.lines_written += data.count(b"\n", 0, written)
                break
            self.lines_written += len(lines)
        if self._path is not None:
            os.close(self._descriptor)

    def _write(self, batch: bytes) -> int:
        """Write the complete batch, with retries. Returns its size, or less if a write fails while the log closes."""
        if not batch:
            return 0
        rest = memoryview(batch)
        while rest:
            try:
                written = os.write(self._descriptor, rest)
            except OSError as error:
                written = self._cut_back(batch, len(batch) - len(rest))
                self._report_failure(error)
                if self._stopping.is_set():  # this was the last try
                    return written
                self._stopping.wait(TRY_AGAIN_S)
                rest = memoryview(batch)[written:]
                continue
            self._size += written
            rest = rest[written:]
        if self._failing:
            self._failing = False
            log_message(f"access log: writing again; {self.lines_lost} lines lost so far")
        return len(batch)

    def _cut_back(self, batch: bytes, written: int) -> int:
        """Truncate the file to its last complete line; returns how many bytes of the batch stay written."""
        complete = batch.rfind(b"\n", 0, written) + 1
        if written > complete and self._path is not None:
            with contextlib.suppress(OSError):
                size = os.fstat(self._descriptor).st_size  # not self._size: the file may have been truncated
                os.ftruncate(self._descriptor, max(0, size - (written - complete)))
                self._size -= written - complete
                return complete
        return written

    def _report_failure(self, error: OSError) -> None:
        if not self._failing:
            self._failing = True
            name = self._path or "standard output"
            log_message(f"access log: cannot write {name}: {error.strerror}; lines are kept and writing is retried")

    def _change_file(self, *, rotate: bool) -> None:
        if self._path is None:
            return
        if not rotate and self._is_in_place():
            self._size = os.fstat(self._descriptor).st_size
            self._is_new = self._size == 0
            return
        try:
            if rotate:
                for number in range(self._keep - 1, 0, -1):
                    with contextlib.suppress(FileNotFoundError):
                        Path(f"{self._path}.{number}").replace(f"{self._path}.{number + 1}")
                with contextlib.suppress(FileNotFoundError):  # the file was moved away; a new file follows anyway
                    self._path.replace(f"{self._path}.1")
            descriptor = _open(self._path)
        except OSError as error:
            log_message(f"access log: cannot open a new {self._path}: {error.strerror}; still writing the old file")
            self._size = 0  # retry after another `rotate_bytes`, not with every batch
            return
        os.close(self._descriptor)
        self._descriptor = descriptor
        self._size = os.fstat(descriptor).st_size
        self._is_new = self._size == 0

    def _is_in_place(self) -> bool:
        """The open file still has its name: it was not moved away, but perhaps copied and truncated."""
        assert self._path is not None
        try:
            return os.path.samestat(os.fstat(self._descriptor), self._path.stat())
        except OSError:
            return False


def _open(path: Path) -> int:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
    status = os.fstat(descriptor)
    size = status.st_size
    if stat.S_ISREG(status.st_mode):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            raise OSError(errno.EBUSY, "another process writes to this file") from None
    try:
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            os.write(descriptor, b"\n")  # end a line torn by a crash: the first new line must not join it
    except OSError:
        pass  # not a regular file
    return descriptor
