"""Measures true latencies from the kernel's packet timestamps on the loopback device, independent of the tools.

The kernel writes every packet with data to or from one port, with its timestamp, into a ring buffer. The ring is read
only after a round, so that the only disturbance is the recording, which is the same for both tools. Needs Linux and the
right to open packet sockets (root, or CAP_NET_RAW).

The latency of a request is the time from when it passed the device until the last packet of its response did. A tool
that measures until the arrival of a response should report this, plus the time to hand a request to the kernel. Assumes
one request at a time on a connection, as both tools send them.
"""

from __future__ import annotations

import mmap
import socket
import struct
import sys
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from typing import Self

_IP_ONLY = 0x0800  # and not all protocols: whoever asks for all sees packets of the loopback device twice
_SOL_PACKET, _RX_RING, _STATISTICS, _VERSION, _TPACKET_V2 = 263, 5, 6, 10, 1
_SO_ATTACH_FILTER = 26
_FRAME, _BLOCK = 128, 1 << 16  # bytes; a frame has room for the kernel's notes and both heads
_HEAD = np.dtype(
    {
        "names": ["status", "net", "s", "ns"],
        "formats": ["<u4", "<u2", "<u4", "<u4"],
        "offsets": [0, 14, 16, 20],
        "itemsize": _FRAME,
    }
)


class Passed(NamedTuple):
    """Answered requests, in the order in which they passed the device."""

    sent_s: np.ndarray  # time of day
    took_ms: np.ndarray
    ahead: np.ndarray  # how many were on their way when it passed
    lost: int  # packets for which there was no room

    @property
    def ahead_p99(self) -> float:
        return float(np.percentile(self.ahead, 99))

    def percentile_ms(self, percent: float) -> float:
        """Nearest-rank percentile, as loadgen computes it."""
        return float(np.percentile(self.took_ms, percent, method="inverted_cdf"))


def may_listen() -> bool:
    if sys.platform != "linux":
        return False
    try:
        socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0).close()
    except OSError:
        return False
    return True


class Wire:
    """``with Wire(port, packets) as wire: ...``, then ``wire.passed()`` before the block ends."""

    def __init__(self, port: int, packets_max: int) -> None:
        self._port = port
        self._blocks = packets_max * _FRAME // _BLOCK + 1

    def __enter__(self) -> Self:
        # Bound late, so that nothing comes before the filter is there.
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)
        try:
            self._socket.setsockopt(_SOL_PACKET, _VERSION, _TPACKET_V2)
            frames = self._blocks * (_BLOCK // _FRAME)
            self._socket.setsockopt(_SOL_PACKET, _RX_RING, struct.pack("IIII", _BLOCK, self._blocks, _FRAME, frames))
            self._attach_filter()
            self._ring = mmap.mmap(self._socket.fileno(), self._blocks * _BLOCK)
            self._socket.bind(("lo", _IP_ONLY))
        except BaseException:
            self._socket.close()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._socket.close()
        self._ring.close()

    def passed(self) -> Passed:
        """The requests captured until now; call it once."""
        _, lost = struct.unpack("II", self._socket.getsockopt(_SOL_PACKET, _STATISTICS, 8))
        raw = np.frombuffer(bytes(self._ring), np.uint8).reshape(-1, _FRAME)
        heads = raw.view(_HEAD)[:, 0]
        used = (heads["status"] & 1).astype(bool)
        raw, heads = raw[used], heads[used]
        at_s = heads["s"].astype(np.float64) + heads["ns"] * 1e-9
        ip = heads["net"].astype(np.int64)
        tcp = ip + (raw[np.arange(len(raw)), ip] & 15).astype(np.int64) * 4
        ports = [_two_bytes(raw, tcp + offset) for offset in (0, 2)]
        asks = ports[1] == self._port
        return _matched(at_s, asks, np.where(asks, ports[0], ports[1]), lost)

    def _attach_filter(self) -> None:
        """Captures only TCP segments with data, to or from the port."""
        program = (
            (0x30, 0, 0, 9),  # the protocol
            (0x15, 0, 12, 6),  # is TCP, else drop
            (0xB1, 0, 0, 0),  # X = length of the IP head
            (0x48, 0, 0, 0),  # source port
            (0x15, 2, 0, self._port),
            (0x48, 0, 0, 2),  # destination port
            (0x15, 0, 7, self._port),
            (0x50, 0, 0, 12),  # the length of the TCP head, in its upper half
            (0x54, 0, 0, 0xF0),
            (0x74, 0, 0, 2),
            (0x0C, 0, 0, 0),  # and X
            (0x07, 0, 0, 0),
            (0x28, 0, 0, 2),  # the whole length
            (0x1D, 0, 1, 0),  # is that of the heads: drop
            (0x06, 0, 0, 0),
            (0x06, 0, 0, _FRAME),
        )
        code = b"".join(struct.pack("=HBBI", *line) for line in program)
        room = np.frombuffer(code, np.uint8).copy()
        self._socket.setsockopt(
            socket.SOL_SOCKET, _SO_ATTACH_FILTER, struct.pack("@HP", len(program), room.ctypes.data)
        )


def _two_bytes(raw: np.ndarray, at: np.ndarray) -> np.ndarray:
    row = np.arange(len(raw))
    found: np.ndarray = raw[row, at].astype(np.int64) << 8 | raw[row, at + 1]
    return found


def _matched(at_s: np.ndarray, asks: np.ndarray, client: np.ndarray, lost: int) -> Passed:
    order = np.lexsort((at_s, client))
    at_s, asks, client = at_s[order], asks[order], client[order]
    # A request is over with the last packet before its connection's next one.
    begins = np.flatnonzero(asks)
    ends = np.append(begins[1:], len(asks)) - 1
    answered = (ends > begins) & (client[np.minimum(ends, len(client) - 1)] == client[begins])
    begins, ends = begins[answered], ends[answered]
    sent_s, came_s = at_s[begins], at_s[ends]
    order = np.argsort(sent_s, kind="stable")
    sent_s, came_s = sent_s[order], came_s[order]
    ahead = np.arange(len(sent_s)) - np.searchsorted(np.sort(came_s), sent_s)
    return Passed(sent_s, (came_s - sent_s) * 1e3, ahead, lost)
