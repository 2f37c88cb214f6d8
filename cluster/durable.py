"""Durability rules: which record must be on disk before which message leaves, and the contents of a disk.

The layers put `Persist(record)` into the outbox before the message that depends on it. Effects take place in order. A
crash leaves on disk the records of some prefix of the outbox.

Calls of the state machine are not effects: they happen inside a step, before the effects of the step take place. So the
total order makes them only for entries that are already on disk. The runner of the process reports how many effects
took place (`Process.performed`), and the total order delivers entries up to the last record among them.

Invariant: every entry that a state machine, a delivery stream or an order log has seen at a member is on the disk of
that member. `specs/disk.py` checks it in the simulator, at every call.

| record      | content                                     | on disk before                                         |
|-------------|---------------------------------------------|--------------------------------------------------------|
| Boot        | which life of the process this is           | its first Hello                                        |
| Epoch       | the greatest epoch it proposed in           | the Proposal in that epoch                             |
| Primaries   | act and amb                                 | Info; the attempt of a view (all that follows from it) |
| Labelled    | entries it labelled                         | nothing (see below)                                    |
| Appended    | order and content as they arrived           | the Ack that covers them; `apply` of these entries     |
| Rebuilt     | order, content, high primary of a new view  | Registered; the Ack that covers the summaries; `apply` |
|             | (and the snapshot it continues from)        | of these entries, `restore` of the snapshot            |
| Snapshotted | the state machine at a position             | its Checkpoint; truncation below the base              |
| Truncated   | the new base                                | nothing (dropped entries are never requested)          |
| InterimOp.  | an operation of the interim service         | its response                                           |
| InterimState| the merged state of the interim service     | its refresh                                            |

Why `apply` waits for the local disk: of two members the lower-ranked one may continue without the other. An entry that
only the other one has on disk is not in the order of the continuing group, and its position goes to another entry.

Why a Batch need not wait for the disk of its sender: it is confirmed only when all members have acknowledged it, the
sender included. The sender counts its own acknowledgement at once, but neither other members nor its state machine
learn anything that follows from it before its `Appended` is on disk. If the sender forgets the batch before that, it
was the only one waiting for its outcome. It never gives its label to another entry (it labels in views that are new to
it), and remains of the batch at other members are dropped as soon as it labels again (`state_exchange`). `Labelled`
only lets an entry survive that no other member received.
"""

from __future__ import annotations

import msgspec

from cluster.names import Label, ProcessId, View, ViewId, founding_view
from cluster.run_log import Run, RunLog


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of all disk records. The tag names the type on disk, so it never changes; the class may be renamed."""


class Boot(Record, frozen=True, tag="Boot"):
    boot: int


class Epoch(Record, frozen=True, tag="Epoch"):
    epoch: int


class Primaries(Record, frozen=True, tag="Primaries"):
    act: View | None
    amb: tuple[View, ...]


class Labelled(Record, frozen=True, tag="Labelled"):
    """Entries that this process labelled and that are in no order yet."""

    run: Run


class Appended(Record, frozen=True, tag="Appended"):
    """A run of entries was appended to the order at `position`."""

    position: int
    run: Run


class Rebuilt(Record, frozen=True, tag="Rebuilt"):
    """Replaces the order from `position` on by these runs and drops all other content beyond it.

    With a snapshot (of another process, at `position`) everything below `position` is dropped too. It is a single
    record, because writing half of it would discard acknowledged entries before their replacement is there.
    """

    position: int
    runs: tuple[Run, ...]
    high_primary: ViewId
    next_confirm: int
    snapshot: Snapshotted | None


class Snapshotted(Record, frozen=True, tag="Snapshotted"):
    """The state after everything below `position`, with what the total order needs to continue from there."""

    position: int
    highest: tuple[Label, ...]
    state: bytes


class Truncated(Record, frozen=True, tag="Truncated"):
    """Positions below `base` are dropped from the order and the content."""

    base: int


class InterimOperation(Record, frozen=True, tag="InterimOperation"):
    """The interim service applied this operation. `at`: wall-clock time, so that a restart knows its age."""

    origin: ProcessId
    body: bytes
    at: float


class InterimState(Record, frozen=True, tag="InterimState"):
    """The whole state of the interim service. Replaces what was written before."""

    state: bytes
    at: float


Records = (
    Boot | Epoch | Primaries | Labelled | Appended | Rebuilt | Snapshotted | Truncated | InterimOperation | InterimState
)


class Image:
    """The contents of a disk after the records written to it. This simple version is the reference for others."""

    __slots__ = (
        "act", "amb", "boot", "epoch", "high_primary", "interim", "labelled", "log", "next_confirm", "snapshot",
    )  # fmt: skip

    def __init__(self) -> None:
        self.boot = 0
        self.epoch = 0
        self.act: View | None = None
        self.amb: tuple[View, ...] = ()
        self.labelled: dict[Label, Run] = {}  # own entries that are in no order yet, by first label
        self.log = RunLog()
        self.high_primary: ViewId | None = None
        self.next_confirm = 0
        self.snapshot: Snapshotted | None = None
        self.interim: list[InterimOperation | InterimState] = []  # the last state, and the operations since

    def apply(self, record: Record) -> None:
        match record:
            case Boot(boot=boot):
                self.boot = boot
            case Epoch(epoch=epoch):
                self.epoch = epoch
            case Primaries(act=act, amb=amb):
                self.act, self.amb = act, amb
            case Labelled(run=run):
                self.labelled[run.first] = run
            case Appended(position=position, run=run):
                self.log.cut(position)
                self.log.append(run)
                self.labelled.pop(run.first, None)
            case Rebuilt():
                if record.snapshot is not None:
                    self.snapshot = record.snapshot
                    self.log = RunLog(record.position)
                self.log.cut(record.position)
                self.log.extend(record.runs)
                self.high_primary, self.next_confirm = record.high_primary, record.next_confirm
                self.labelled.clear()
            case Snapshotted():
                self.snapshot = record
            case Truncated(base=base):
                self.log.drop_below(base)
            case InterimOperation():
                self.interim.append(record)
            case InterimState():
                self.interim = [record]
            case _:
                raise TypeError(f"unknown record type: {record!r}")


def founding_image(founder: ProcessId) -> Image:
    """The disk of a process that founds a group: it was alone in v_0 and registered it. Made once for a group."""
    image = Image()
    image.act = founding_view(founder)
    image.high_primary = image.act.id
    return image
