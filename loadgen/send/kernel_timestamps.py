"""When an answer reached this machine, as the kernel says, whatever this process was doing then.

A process that is busy looks at an answer some time after it came. That time is the generator's and not the server's, so
it is no part of a latency: it is a figure of its own. Where the kernel says nothing (TLS, systems other than Linux, the
first packets after the first socket asked for it), an answer came when it was read.

The kernel stamps with the time of day, which can be set, while latencies are measured on the monotonic clock. So all
that is taken from a stamp is for how long the answer had lain there when it was read. If that cannot be (it came later
than now, or before it was asked for) the clock was set meanwhile, and the stamp is not used. A clock that is set by
less than a request takes goes unnoticed, and is in the figures of those that were on their way.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys

Ancillary = list[tuple[int, int, bytes]]  # as socket.recvmsg tells it

_ASK = getattr(socket, "SO_TIMESTAMPNS", 35)
_STAMP = struct.Struct("@ll")  # seconds and nanoseconds
_unpack = _STAMP.unpack
_DRIFT = 0.001  # the time of day is adjusted by making it run faster or slower, by half of that at most

ROOM = socket.CMSG_SPACE(_STAMP.size) if hasattr(socket, "CMSG_SPACE") else 0  # that a stamp needs


def enable_timestamps(sock: socket.socket) -> None:
    """From now on the kernel stamps what comes, if it can."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, _ASK, 1)


def buffered_s(ancillary: Ancillary, read_at: float, since_asked_s: float) -> float | None:
    """For how long what was read at a time of day had lain there; None if nobody knows."""
    if not ancillary:
        return None
    seconds, nanoseconds = _unpack(ancillary[0][2])
    found_s: float = read_at - seconds - nanoseconds * 1e-9
    if 0.0 <= found_s <= since_asked_s:
        return found_s
    if 0.0 < found_s <= since_asked_s * (1.0 + _DRIFT):
        return since_asked_s
    return None
