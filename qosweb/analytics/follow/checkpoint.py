"""Checkpoint folder of a follower: locks it for one process and checks that the options have not changed.

Neighbours: ``log_tail``, ``batches`` and ``stream`` (Spark's own checkpoint) keep their files in this folder.
"""

from __future__ import annotations

import fcntl
import hashlib
from contextlib import contextmanager
from typing import TYPE_CHECKING

import msgspec

from qosweb.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from qosweb.analytics.read.rows import AnalysisRequest


class CheckpointOptions(msgspec.Struct):
    """The options that determine the sums of a checkpoint. Fields are named like the options."""

    window: int
    slot: int
    waited: float
    slack: float
    response: str
    spec: str


@contextmanager
def locked(checkpoint: Path) -> Iterator[None]:
    """Locks the checkpoint. Raises UsageError if another process uses it."""
    try:
        checkpoint.mkdir(parents=True, exist_ok=True)
        file = (checkpoint / "lock").open("w")
    except OSError as error:
        raise UsageError(f"--checkpoint {checkpoint}: {error.strerror}") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UsageError(f"--checkpoint {checkpoint}: another process uses it") from None
        yield


def check_fixed(checkpoint: Path, request: AnalysisRequest) -> None:
    """Stores the options in a new checkpoint. Raises UsageError if an existing one was made with other options."""
    limits, file = request.limits, checkpoint / "options.json"
    spec = hashlib.sha256(request.spec.text.encode()).hexdigest()[:16] if request.spec else ""
    now = CheckpointOptions(limits.window_s, limits.slot_s, limits.waited_ms, limits.slack_ms, request.response, spec)
    try:
        before = msgspec.json.decode(file.read_bytes(), type=CheckpointOptions)
    except FileNotFoundError:
        file.write_bytes(msgspec.json.encode(now))
        return
    except msgspec.MsgspecError:
        raise UsageError(f"{file}: is damaged; use a new folder for --checkpoint") from None
    for name in CheckpointOptions.__struct_fields__:
        if getattr(before, name) != getattr(now, name):
            raise UsageError(
                f"--checkpoint {checkpoint}: was created with a different --{name}; use the same value or a new folder"
            )
