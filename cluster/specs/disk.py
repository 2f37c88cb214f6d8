"""DISK: a state machine receives only entries and snapshots that are on the disk of its process.

No paper has this specification: their processes do not crash. A process that forgets what its state machine saw may
continue with an order without it. Checked in the simulator, where disks can be read. A trace alone shows a violation
only if the process crashes and the position goes to another entry (REPLICA).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cluster.names import Label
from cluster.specs.spec import Spec

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.actions import Applied, Restored
    from cluster.durable import Image
    from cluster.names import ProcessId


class DiskSpec(Spec):
    NAME = "DISK"

    def __init__(self, image_of: Callable[[ProcessId], Image]) -> None:
        super().__init__()
        self._image_of = image_of

    def applied_pre(self, act: Applied, at: ProcessId) -> None:
        log = self._image_of(at).log
        found = None
        if log.base <= act.position < log.end:
            run, offset = log.find(act.position)
            found = Label(run.view_id, run.seqno + offset, run.origin)
        self.require(found == act.label, "apply: the entry is on the disk of p", found, log.base, log.end)

    def restored_pre(self, act: Restored, at: ProcessId) -> None:
        snapshot = self._image_of(at).snapshot
        found = snapshot.position if snapshot is not None else None
        self.require(found == act.position, "restore: the snapshot is on the disk of p", found)
