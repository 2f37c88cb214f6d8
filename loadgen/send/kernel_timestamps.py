"""Arrival times of responses from kernel timestamps, independent of what this process was doing then.

A busy process reads a response some time after it arrived. That delay belongs to the generator and not to the server,
so it is not part of a latency but a separate figure. Without a kernel timestamp (TLS, systems other than Linux, the
first packets after the first socket enables timestamps) the time of reading counts as the time of arrival.

The kernel uses the time of day, which can be set, while latencies use the monotonic clock. So a timestamp only tells
how long the response had been waiting when it was read. If that is impossible (it arrived later than now, or before
the request was sent), the clock was set meanwhile, and the timestamp is not used. A clock change smaller than the
duration of a request goes unnoticed and distorts the figures of the requests in flight.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys

Ancillary = list[tuple[int, int, bytes]]  # as socket.recvmsg returns it

_ASK = getattr(socket, "SO_TIMESTAMPNS", 35)
_STAMP = struct.Struct("@ll")  # seconds and nanoseconds
_unpack = _STAMP.unpack
_DRIFT = 0.001  # clock adjustments change the speed of the time of day by at most half of this

ROOM = socket.CMSG_SPACE(_STAMP.size) if hasattr(socket, "CMSG_SPACE") else 0  # for a timestamp


def enable_timestamps(sock: socket.socket) -> None:
    """Let the kernel timestamp received data, if it can."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, _ASK, 1)


def buffered_s(ancillary: Ancillary, read_at: float, since_asked_s: float) -> float | None:
    """How long data had been waiting when it was read at ``read_at`` (time of day); None if unknown."""
    if not ancillary:
        return None
    seconds, nanoseconds = _unpack(ancillary[0][2])
    found_s: float = read_at - seconds - nanoseconds * 1e-9
    if 0.0 <= found_s <= since_asked_s:
        return found_s
    if 0.0 < found_s <= since_asked_s * (1.0 + _DRIFT):
        return since_asked_s
    return None
