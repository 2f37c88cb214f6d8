"""Tails growing logs: copies new lines into immutable files, each line exactly once, across restarts.

Spark's file streams only read complete files. So new lines of the logs are copied, complete lines only, into a new
folder (a cut) with one file per log. A cut appears atomically, by a rename, and never changes afterwards.

    1. ``cuts/.making-N/``     is written and synced; no reader looks at it
    2. ``tail.json``           stores N and the offset of each log: from here on the cut counts
    3. ``cuts/N-end/``         is the new name of the folder of step 1 (``N-more`` if a log has more lines to read)

After a crash before step 2, cut N is written again from the same offsets. After a crash between 2 and 3, 3 is done.

A log is identified by device, inode and a fingerprint of its first bytes. A rotated log (``access.log.1`` and so on) is
read to its end under its new name. A log that became shorter, or whose first bytes changed, is read from its beginning.
Rotated files that existed before their log was first seen are skipped. An incomplete last line waits for its end,
except in a rotated file that no longer grows.
Neighbours: ``sources`` resolves names to files, ``stream`` reads the cuts.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import stat
from typing import TYPE_CHECKING

import msgspec

from qosweb.analytics.read import sources
from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CUT_BYTES_MAX = 64 << 20  # per log and cut
HEAD_BYTES = 256
END, MORE = "end", "more"
SUFFIX = ".jsonl"

_ROTATED = re.compile(r"(.+)\.[0-9]{1,6}")
_MAKING = ".making-"


class Log(msgspec.Struct):
    """One log file and the offset up to which it was read. Its index in the list is its number."""

    path: str
    device: int
    inode: int
    offset: int = 0
    head: str = ""
    head_bytes: int = 0


class TailState(msgspec.Struct):
    cut: int = 0
    more: bool = False
    logs: list[Log] = []
    seen: list[str] = []  # logs whose rotated files were checked


class LogTail:
    """Copies new lines of the logs that ``names`` match into cuts in ``folder``. One instance at a time may use it."""

    def __init__(self, names: Sequence[str], folder: Path, *, cut_bytes_max: int = CUT_BYTES_MAX) -> None:
        self._names = list(names)
        self._folder = folder
        self._max = cut_bytes_max
        self.cuts = folder / "cuts"
        self.cuts.mkdir(parents=True, exist_ok=True)
        self._file = folder / "tail.json"
        self._state = self._read()
        self._torn: dict[int, int] = {}  # size of rotated logs that end in the middle of a line, at the last look
        self._recover()

    @property
    def paths(self) -> list[str]:
        """The paths of the logs, by number."""
        return [log.path for log in self._state.logs]

    @property
    def has_more(self) -> bool:
        """True if the last cut could not take all new lines."""
        return self._state.more

    def cut(self) -> bool:
        """Makes a cut of the new lines; returns False if there are none."""
        state = msgspec.json.decode(msgspec.json.encode(self._state), type=TailState)
        number = state.cut + 1
        making = self.cuts / f"{_MAKING}{number}"
        shutil.rmtree(making, ignore_errors=True)
        more, taken, done = False, False, set()
        for path in self._candidates(state):
            try:
                with path.open("rb") as file:
                    at = self._known(state, path, file.fileno())
                    if at is None or at in done:
                        continue
                    done.add(at)
                    data, has_more = self._gained(state.logs[at], at, file.fileno())
            except FileNotFoundError:
                continue  # it was just rotated: it will be found under its new name
            except OSError as error:
                raise UsageError(f"{path}: {error.strerror or error}") from None
            more |= has_more
            if data:
                making.mkdir(exist_ok=True)
                _write(making / f"{at:06d}{SUFFIX}", data)
                taken = True
        if not taken:
            if state.seen != self._state.seen:
                self._commit(state)
            return False
        state.cut, state.more = number, more
        _sync(making)
        self._commit(state)
        self._publish(making)
        return True

    def _commit(self, state: TailState) -> None:
        new = self._file.with_suffix(".new")
        _write(new, msgspec.json.encode(state))
        new.replace(self._file)
        _sync(self._folder)
        self._state = state

    def _publish(self, making: Path) -> None:
        making.rename(self.cuts / f"{self._state.cut:012d}-{MORE if self._state.more else END}")
        _sync(self.cuts)

    def _read(self) -> TailState:
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=TailState)
        except FileNotFoundError:
            return TailState()
        except msgspec.MsgspecError as error:
            raise UsageError(f"{self._file}: is damaged ({error}); use a new folder for --checkpoint") from None

    def _recover(self) -> None:
        for making in self.cuts.glob(f"{_MAKING}*"):
            if making.name == f"{_MAKING}{self._state.cut}":
                self._publish(making)
            else:
                shutil.rmtree(making)

    def _candidates(self, state: TailState) -> list[Path]:
        """Logs and their rotated files, oldest first. The rotated files of a new log are marked as read."""
        found: dict[Path, None] = {}
        named = dict.fromkeys(sources.growing(self._names))
        for path in named:
            rotated = _rotated_files(path)
            if str(path) not in state.seen:
                state.seen.append(str(path))
                for old in rotated:
                    if old not in named:
                        self._take_as_read(state, old)
            found |= dict.fromkeys(rotated)
            found[path] = None
        return list(found)

    def _take_as_read(self, state: TailState, path: Path) -> None:
        try:
            with path.open("rb") as file:
                at = self._known(state, path, file.fileno())
                if at is not None and not state.logs[at].offset:
                    log = state.logs[at]
                    log.offset = os.fstat(file.fileno()).st_size
                    log.head, log.head_bytes = _head(file.fileno(), log.offset)
        except OSError:
            return  # not a log that the user named

    def _known(self, state: TailState, path: Path, descriptor: int) -> int | None:
        """The number of the log that this file is, registering new logs; None if it is not a regular file."""
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return None
        for at, log in enumerate(state.logs):
            if (log.device, log.inode) == (status.st_dev, status.st_ino):
                log.path = str(path)
                if status.st_size < log.offset or _head(descriptor, log.head_bytes)[0] != log.head:
                    log.offset, log.head, log.head_bytes = 0, _head(descriptor, 0)[0], 0
                return at
        if len(state.logs) >= sources.FILES_MAX:
            raise UsageError(f"more than {sources.FILES_MAX} logs; start with a new --checkpoint")
        state.logs.append(Log(str(path), status.st_dev, status.st_ino, head=_head(descriptor, 0)[0]))
        return len(state.logs) - 1

    def _gained(self, log: Log, at: int, descriptor: int) -> tuple[bytes, bool]:
        """New complete lines, and whether there are more of them than fit."""
        data = os.pread(descriptor, self._max, log.offset)
        is_full = len(data) == self._max
        whole = data.rfind(b"\n") + 1
        if not whole and data:
            size = log.offset + len(data)
            if not is_full and not self._has_ended(log, at, size):
                return b"", False
            whole = len(data)  # a line longer than one read, or one that will never be completed
        taken = data[:whole]
        if taken:
            log.offset += len(taken)
            log.head, log.head_bytes = _head(descriptor, min(HEAD_BYTES, log.offset))
            self._torn.pop(at, None)
            if not taken.endswith(b"\n"):
                taken += b"\n"
        return taken, is_full and os.fstat(descriptor).st_size > log.offset

    def _has_ended(self, log: Log, at: int, size: int) -> bool:
        """True for a rotated file that ends in the middle of a line and has not grown since the last look."""
        if not _ROTATED.fullmatch(log.path):
            return False
        before = self._torn.get(at)
        self._torn[at] = size
        return before == size


def _rotated_files(path: Path) -> list[Path]:
    """``access.log.2``, ``access.log.1``: the oldest first."""
    try:
        near = [one for one in path.parent.iterdir() if _ROTATED.fullmatch(one.name)]
    except OSError:
        return []
    ours = [one for one in near if one.name.rpartition(".")[0] == path.name]
    return sorted(ours, key=lambda one: -int(one.name.rpartition(".")[2]))


def _head(descriptor: int, size: int) -> tuple[str, int]:
    data = os.pread(descriptor, min(size, HEAD_BYTES), 0)
    return hashlib.sha256(data).hexdigest()[:16], len(data)


def _write(path: Path, data: bytes) -> None:
    try:
        with path.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
