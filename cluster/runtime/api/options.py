"""Options of a member: name, addresses, contacts, cluster key and resource bounds."""

from __future__ import annotations

import ssl
from math import inf
from pathlib import Path

import msgspec

from cluster.names import NAME_LEN_MAX
from cluster.runtime.net.addresses import parse_address
from cluster.runtime.net.handshake import Dialect
from cluster.runtime.net.keys import KEY_LEN_MIN
from cluster.settings import Settings

# Faster heartbeats than in the simulator: a process busy for 300 ms is not suspected, one silent for 400 ms is.
# Larger batches and rarer snapshots: at 100,000 entries/s, a snapshot every 1,000 entries would take all the time.
RUNTIME_SETTINGS = Settings(heartbeat=0.05, suspect_min=0.4, batch_len_max=512, snapshot_every=20_000)


class Tls(msgspec.Struct, frozen=True):
    """Mutual TLS: one context per role. Both must require the certificate of the other side."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class Bounds(msgspec.Struct, frozen=True):
    """Resource limits of a member."""

    entry_len_max: int = 1024 * 1024  # bytes per entry
    outstanding_len_max: int = 8192  # entries submitted here without an outcome
    outstanding_bytes_max: int = 8 * 1024 * 1024  # bytes of these (one entry always fits)
    deliveries_len_max: int = 65_536  # deliveries that the iterator has not read
    frame_len_max: int = 64 * 1024 * 1024
    unsent_bytes_max: int = 64 * 1024 * 1024  # queued for one connection; beyond this it is closed
    strangers_max: int = 64  # connections that are not authenticated yet
    handshake_s: float = 3.0  # time limit of a handshake
    ejected_s: float = 30.0  # how long a peer that violated the protocol is refused
    silence_s: float = 6.0  # a connection silent for this long is closed
    disk_wait_s: float = 30.0  # how long a member retries on a full disk before it stops
    dial_s: float = 3.0  # time limit for connecting
    forget_s: float = 600.0  # how long an unreachable process that the group does not need is dialed
    backoff_min_s: float = 0.05  # delay between two attempts to reach a peer; doubles each time
    backoff_max_s: float = 2.0


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Configuration of a member."""

    name: str  # unique name of this process in the cluster
    key: bytes  # the cluster key
    listen: tuple[str, ...]  # addresses such as 127.0.0.1:7000 or [::1]:7000; port 0 takes a free one
    cluster: str = "cluster"  # cluster name: members of different clusters refuse each other
    advertise: tuple[str, ...] = ()  # where peers reach this process; default: the listen addresses
    contacts: tuple[str, ...] = ()  # addresses of members
    data: Path | None = None  # data directory; None: volatile, a restarted process is a new process
    settings: Settings = RUNTIME_SETTINGS
    bounds: Bounds = Bounds()
    tls: Tls | None = None
    dialect: Dialect = Dialect()  # format and language of the state machine
    order_log: Path | None = None  # file with one line per delivered entry
    trace: Path | None = None  # trace file with every action of every layer, for `python -m cluster check`; slow

    def validate(self) -> None:
        """Raises ValueError for invalid options."""
        if not 0 < len(self.name) <= NAME_LEN_MAX:
            raise ValueError(f"the name of a process has 1 to {NAME_LEN_MAX} characters, not {len(self.name)}")
        if len(self.key) < KEY_LEN_MIN:
            raise ValueError(f"a cluster key has at least {KEY_LEN_MIN} bytes, not {len(self.key)}")
        if not self.listen:
            raise ValueError("listen is empty: a process needs at least one address to listen on")
        settings = self.settings
        if not 0 < settings.heartbeat < settings.suspect_min <= settings.suspect_max < inf:
            raise ValueError(
                f"a heartbeat of {settings.heartbeat:g} s and suspicion after {settings.suspect_min:g} to "
                f"{settings.suspect_max:g} s are inconsistent: heartbeat < suspect_min <= suspect_max must hold"
            )
        for address in (*self.listen, *self.advertise, *self.contacts):
            parse_address(address)
