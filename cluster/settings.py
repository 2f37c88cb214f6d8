"""The numbers that the stack runs by. Times in seconds."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True):
    # membership
    heartbeat: float = 0.1  # how often a process says that it lives
    suspect_min: float = 0.35  # silence for less than this is never held against anybody
    suspect_max: float = 2.0  # silence for longer always is
    settle: float = 0.05  # how long a view that nothing is wrong with waits before it grows
    retry: float = 0.5  # a view that did not form in this time is tried again

    # links
    link_len_max: int = 10_000  # payloads waiting for one peer from which on it counts as gone

    # order in a view
    order: str = "atop"  # or "sequencer"
    window: int = 32  # own messages on their way that not everybody has acknowledged yet
    stable_step: int = 64  # messages that became safe after which what everybody has is dropped
    atop_window_factor: int = 20  # N of section 6.1: the book-keeper looks at the last N * |v| messages
    atop_epsilon: float = 0.1  # the weight of somebody silent, in messages
    atop_threshold: float = 0.2  # sum of differences from which on a new distribution is worth it

    # total order and replica
    batch_len_max: int = 256  # entries in one message
    delay_len_max: int = 10_000  # entries waiting for a label; more are refused
    snapshot_every: int = 1_000  # positions between two snapshots
    report_len_max: int = 32  # entries of the past that one who comes back takes in at once, before it looks around
    supply_bytes: int = 256 * 1024  # size of one piece of a snapshot or of supplied entries


DEFAULT = Settings()
