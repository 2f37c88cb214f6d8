"""What a member is told: who it is, where it listens, whom it knows, the key, and the bounds it keeps."""

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

# Faster heartbeats than the simulator's: a process that is busy for 300 ms is not missed, a silent one is after 400 ms.
# Larger batches and rarer snapshots: at 100,000 entries a second a snapshot each 1,000 would be all that is done.
RUNTIME_SETTINGS = Settings(heartbeat=0.05, suspect_min=0.4, batch_len_max=512, snapshot_every=20_000)


class Tls(msgspec.Struct, frozen=True):
    """Mutual TLS: one context for each role, both of which ask for the certificate of the other side."""

    server: ssl.SSLContext
    client: ssl.SSLContext


class Bounds(msgspec.Struct, frozen=True):
    """What a member holds at most."""

    entry_len_max: int = 1024 * 1024  # bytes of one entry
    outstanding_len_max: int = 8192  # entries that were submitted here and have no end yet
    outstanding_bytes_max: int = 8 * 1024 * 1024  # of these (one entry always fits)
    deliveries_len_max: int = 65_536  # entries that an iterator has not taken yet
    frame_len_max: int = 64 * 1024 * 1024
    unsent_bytes_max: int = 64 * 1024 * 1024  # waiting for one connection; more than that closes it
    strangers_max: int = 64  # connections that have not proved themselves yet
    handshake_s: float = 3.0  # how long they may take to
    ejected_s: float = 30.0  # how long a peer that does not keep to the protocol is shut out
    silence_s: float = 6.0  # a connection on which nothing arrives for so long is closed
    disk_wait_s: float = 30.0  # how long a member waits for a disk that is full before it stops
    dial_s: float = 3.0  # how long a connection may take to be made
    forget_s: float = 600.0  # how long a process is called that the group no longer needs and nobody reaches
    backoff_min_s: float = 0.05  # between two attempts to reach a peer, doubled each time
    backoff_max_s: float = 2.0


class Options(msgspec.Struct, frozen=True, kw_only=True):
    name: str  # of this process; no other process of the cluster has it
    key: bytes  # of the cluster
    listen: tuple[str, ...]  # addresses such as 127.0.0.1:7000 or [::1]:7000; port 0 takes a free one
    cluster: str = "cluster"  # its name: members of different clusters refuse each other
    advertise: tuple[str, ...] = ()  # where others reach this process; else what it listens on
    contacts: tuple[str, ...] = ()  # addresses of members
    data: Path | None = None  # the directory of the disk; None: volatile, a process that ends comes back as another one
    settings: Settings = RUNTIME_SETTINGS
    bounds: Bounds = Bounds()
    tls: Tls | None = None
    dialect: Dialect = Dialect()  # of the state machine
    order_log: Path | None = None  # a file for a line about each entry delivered
    trace: Path | None = None  # a file for every action of every layer, for `python -m cluster check`; slow

    def judge(self) -> None:
        """Raises ValueError for what no member can be."""
        if not 0 < len(self.name) <= NAME_LEN_MAX:
            raise ValueError(f"the name of a process has 1 to {NAME_LEN_MAX} characters, not {len(self.name)}")
        if len(self.key) < KEY_LEN_MIN:
            raise ValueError(f"a cluster key has at least {KEY_LEN_MIN} bytes, not {len(self.key)}")
        if not self.listen:
            raise ValueError("a process has to listen somewhere: listen is empty")
        settings = self.settings
        if not 0 < settings.heartbeat < settings.suspect_min <= settings.suspect_max < inf:
            raise ValueError(
                f"a heartbeat of {settings.heartbeat:g} s and suspicion after {settings.suspect_min:g} to "
                f"{settings.suspect_max:g} s make no sense: heartbeat < suspect_min <= suspect_max"
            )
        for address in (*self.listen, *self.advertise, *self.contacts):
            parse_address(address)
