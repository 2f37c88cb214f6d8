"""Socket buffers: limits the bytes that wait in the kernel, so that the order of sending decides and not the kernel.

A send buffer grows to megabytes. Bytes in it are sent in no order of ours, and a client that does not read would get
megabytes of the capacity before the pacer notices. TCP_NOTSENT_LOWAT (Linux, macOS) limits the bytes that the kernel
has taken and not sent yet, not those on their way. Accepted sockets inherit it from the listening socket.
"""

from __future__ import annotations

import contextlib
import socket

UNSENT_MAX = 64 << 10
SYSTEM_DEFAULT = 0


def limit_unsent(listener: socket.socket, size: int = UNSENT_MAX) -> bool:
    """Limit the unsent bytes of each connection that ``listener`` accepts. False: the system cannot do that."""
    option = getattr(socket, "TCP_NOTSENT_LOWAT", None)
    if option is None:
        return False
    with contextlib.suppress(OSError):
        listener.setsockopt(socket.IPPROTO_TCP, option, size)
        return True
    return False
