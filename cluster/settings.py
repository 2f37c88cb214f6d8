"""Tuning parameters of the protocol stack. Times in seconds."""

from __future__ import annotations

import msgspec


class Settings(msgspec.Struct, frozen=True):
    # membership
    heartbeat: float = 0.1  # interval between heartbeats
    suspect_min: float = 0.35  # lower bound of the failure detector's timeout
    suspect_max: float = 2.0  # upper bound of the failure detector's timeout
    settle: float = 0.05  # how long a fully connected view waits before it grows
    retry: float = 0.5  # timeout after which a view that did not form is tried again

    # links
    link_len_max: int = 10_000  # length of a peer's send queue from which on the peer counts as gone

    # order in a view
    order: str = "atop"  # or "sequencer"
    window: int = 32  # own messages in flight that not all members have acknowledged
    stable_step: int = 64  # number of safe messages after which messages that all members have are dropped
    atop_window_factor: int = 20  # N of section 6.1: the book-keeper considers the last N * |v| messages
    atop_epsilon: float = 0.1  # the weight of a silent member, in messages
    atop_threshold: float = 0.2  # sum of differences from which on the distribution changes

    # total order and replica
    batch_len_max: int = 256  # entries in one message
    delay_len_max: int = 10_000  # limit of entries waiting for a label; more are refused
    snapshot_every: int = 1_000  # positions between two snapshots
    report_len_max: int = 32  # entries that a member catching up delivers in one step
    supply_bytes: int = 256 * 1024  # size of one piece of a state transfer

    # interim-atomic service
    interim_window: int = 32  # own operations in flight that were not applied here yet
    interim_chunk_bytes: int = 64 * 1024  # size of one chunk of a state
    interim_chunks_ahead: int = 8  # chunks sent that not all members have yet
    interim_journal_bytes: int = 64 * 1024  # operations on disk from which on they are replaced by the whole state

    # data service
    query_sharing: str = "round robin"  # or "least loaded": which member answers a query of this process
    query_window: int = (
        2  # own messages with queries that not all members have acknowledged; more queries wait for them
    )
    query_batch_max: int = 64  # queries in one message


DEFAULT = Settings()
