"""Timer for the event loop that is exact to some microseconds.

Event loops round their timers to milliseconds. At thousands of requests per second this sends requests in bursts and
makes every one of them late. Where the kernel offers timers as file descriptors (Linux), this module uses them;
elsewhere it uses the loop's own timers, and the reported lateness shows the difference.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import struct
import sys
import time
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

_ABSOLUTE = 1
_CLOCK_MONOTONIC = 1
_SETTING = struct.Struct("=qqqq")  # interval and first expiry, each in seconds and nanoseconds
_AT_ONCE_S = 1e-6


class DueTimer(Protocol):
    """Calls back once, at or soon after the time that was set last."""

    def set(self, at_s: float) -> None: ...

    def close(self) -> None: ...


def make_due_timer(loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> DueTimer:
    if sys.platform == "linux":
        with contextlib.suppress(OSError, AttributeError, NotImplementedError):
            return KernelTimer(loop, call)
    return LoopTimer(loop, call)


class KernelTimer:
    """A timerfd on the monotonic clock, which is the clock of ``time.monotonic``."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        library = ctypes.CDLL(None, use_errno=True)
        self._settime = library.timerfd_settime
        self._setting = ctypes.create_string_buffer(_SETTING.size)
        self._file: int = library.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC)
        if self._file < 0:
            raise OSError(ctypes.get_errno(), "timerfd_create")
        self._loop = loop
        self._call = call
        self._is_set = False
        loop.add_reader(self._file, self._on_expiry)

    def set(self, at_s: float) -> None:
        self._is_set = True
        at_s = max(at_s, _AT_ONCE_S)  # zero would disarm it
        whole = int(at_s)
        _SETTING.pack_into(self._setting, 0, 0, 0, whole, int((at_s - whole) * 1e9))
        if self._settime(self._file, _ABSOLUTE, self._setting, None):
            raise OSError(ctypes.get_errno(), "timerfd_settime")

    def close(self) -> None:
        if self._file >= 0:
            self._loop.remove_reader(self._file)
            os.close(self._file)
            self._file = -1

    def _on_expiry(self) -> None:
        """Setting the timer again clears its expiry; otherwise it has to be read, or it would fire again."""
        self._is_set = False
        self._call()
        if not self._is_set and self._file >= 0:
            with contextlib.suppress(BlockingIOError):
                os.read(self._file, 8)


class LoopTimer:
    """The loop's own timer, exact to about a millisecond."""

    def __init__(self, loop: asyncio.AbstractEventLoop, call: Callable[[], None]) -> None:
        self._loop = loop
        self._call = call
        self._handle: asyncio.TimerHandle | None = None

    def set(self, at_s: float) -> None:
        self.close()
        self._handle = self._loop.call_later(max(0.0, at_s - time.monotonic()), self._call)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
