"""Events of the multicast transport for its application: delivered messages, gaps and progress."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cluster.names import ProcessId


class BulkMessage(msgspec.Struct, frozen=True):
    """A delivered message: a file that belongs to the application from now on."""

    number: int  # its place in the order, the same at every member; numbers of rejected messages are missing
    producer: ProcessId
    path: Path
    size: int


class BulkGap(msgspec.Struct, frozen=True):
    """This member missed messages: it was too slow or cut off. It continues with message `first`."""

    first: int


class SendProgress(msgspec.Struct, frozen=True):
    """How far a message is that this member sends. All but the last two are bytes."""

    size: int  # content that was read so far
    is_ended: bool  # that is all of it
    sent: int  # sent at least once
    receivers: dict[str, int]  # by the name of the member: received, as far as it told
    repeated: int  # packets that this member has sent again
    naks: int  # NAKs that this member has got


class ReceiveProgress(msgspec.Struct, frozen=True):
    """How far a message is that this member receives."""

    number: int
    producer: ProcessId
    received: int  # bytes
    begin: bytes  # the first packet, if it is there


class BulkClosed(Exception):
    """The member was closed before the outcome of a message was known."""
