"""TCP_INFO: reads the kernel's figures of a TCP connection (Linux 5.5 and later)."""

from __future__ import annotations

import socket
import struct
import sys

from qosweb.engine.laws.line_samples import TcpInfo

# From struct tcp_info, in this order: snd_mss, unacked, sacked, lost, retrans, rtt, bytes_acked, segs_in,
# notsent_bytes, min_rtt, data_segs_in, busy_time, rwnd_limited, bytes_sent, bytes_retrans, dsack_dups.
_LAYOUT = struct.Struct("=16xI4xIIII28xI48xQ12xIIII12xQQ16xQQI")
SIZE = _LAYOUT.size


def is_available() -> bool:
    """Whether the kernel has all figures."""
    if not sys.platform.startswith("linux"):
        return False
    with socket.socket() as one:
        try:
            return len(one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SIZE)) == SIZE
        except OSError:
            return False


def read(connection: socket.socket) -> TcpInfo:
    """Raises OSError if the connection is closed."""
    return TcpInfo._make(_LAYOUT.unpack(connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, SIZE)))
