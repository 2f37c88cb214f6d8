"""Bounds of semantically reliable broadcast."""

from __future__ import annotations

import msgspec


class ReportSettings(msgspec.Struct, frozen=True):
    """Every buffer of a process is bounded by these.

    `buffer_len_max` above `items_len_max` has a consequence: a peer that takes nothing at all cannot stop a publisher
    whose reports become obsolete, since at most the current value of every item waits for that peer.
    """

    semantic: bool = True  # False: plain reliable broadcast, for comparison: a report stays until all members have it
    window_len: int = 256  # w of section 2.5: reports sent to a peer that it has not acknowledged
    buffer_len_max: int = 4_096  # own reports that a peer has not acknowledged, sent or not
    buffer_bytes_max: int = 8 * 1024 * 1024  # the same in bytes
    items_len_max: int = 2_048  # items of one origin
    pending_len_max: int = 2_048  # items that wait for room in the buffers
    queue_len_max: int = 65_536  # reports that wait for delivery, Q_i
    frame_bytes: int = 64 * 1024  # reports in one frame; one report always fits
    item_len_max: int = 256  # characters in the name of an item
    value_len_max: int = 64 * 1024  # bytes in a value
    departed_len_max: int = 16  # origins that are no longer in the view and whose values are kept
