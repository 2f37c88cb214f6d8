"""What must be on disk before which message leaves and before the state machine sees it; and what a disk holds.

The layers put `Persist(record)` into the outbox before the message that depends on it, and effects take place in order.
A crash leaves on disk the records of some prefix of the outbox.

Calls of the state machine are no effects: they are made inside a step, before its effects take place. So the total
order makes them only for what is already on disk. Whoever runs the process says how many effects took place
(`Process.performed`), and the total order reports entries up to the last record among them.

Invariant: what a state machine, a delivery stream or an order log has seen at a member is on the disk of that member.
`specs/disk.py` judges it in the simulator, at every call.

| record      | what                                        | on disk before                                         |
|-------------|---------------------------------------------|--------------------------------------------------------|
| Boot        | which life of the process this is           | its first Hello                                        |
| Epoch       | the greatest epoch it proposed in           | the Proposal in that epoch                             |
| Primaries   | act and amb                                 | Info; the attempt of a view (all that follows from it) |
| Labelled    | entries it labelled                         | nothing (see below)                                    |
| Appended    | order and content as they arrived           | the Ack that covers them; `apply` of these entries     |
| Rebuilt     | order, content, high primary of a new view  | Registered; the Ack that covers the summaries; `apply` |
|             | (and the snapshot it continues from)        | of these entries, `restore` of the snapshot            |
| Snapshotted | the state machine at a position             | its Checkpoint; what the base drops                    |
| Truncated   | the new base                                | nothing (what is dropped is never asked for)           |

Why `apply` has to wait for the local disk: of two members the lower-ranked one may go on without the other. An entry
that only the other one has on disk is not in the order of those who go on, and its position goes to another entry.

Why a Batch need not wait for the disk of its sender: it is confirmed only when all have acknowledged it, the sender
too. The sender counts its own acknowledgement at once, but neither others nor its state machine learn anything that
follows from that before its `Appended` is on disk. A sender that forgets it before that was the only one who waited for
its end, never gives its label to anything else (it labels in views that are new to it), and what others still have of
it is dropped as soon as it labels again (`state_exchange`). `Labelled` only lets an entry survive where nobody else got
it.
"""

from __future__ import annotations

import msgspec

from cluster.names import Label, ProcessId, View, ViewId, founding_view
from cluster.run_log import Run, RunLog


class Record(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Base of what goes to disk. The tag names the type there, so it never changes; the class may be renamed."""


class Boot(Record, frozen=True, tag="Boot"):
    boot: int


class Epoch(Record, frozen=True, tag="Epoch"):
    epoch: int


class Primaries(Record, frozen=True, tag="Primaries"):
    act: View | None
    amb: tuple[View, ...]


class Labelled(Record, frozen=True, tag="Labelled"):
    """Entries with labels of this process that no order has yet."""

    run: Run


class Appended(Record, frozen=True, tag="Appended"):
    """The order goes on with these, from `position` on."""

    position: int
    run: Run


class Rebuilt(Record, frozen=True, tag="Rebuilt"):
    """The order from `position` on is this and no more; all other content beyond it is dropped.

    With a snapshot (that of another process, at `position`) nothing below `position` is kept either. It is one record,
    because half of it would be a process that threw away what it had acknowledged before it had what replaces it.
    """

    position: int
    runs: tuple[Run, ...]
    high_primary: ViewId
    next_confirm: int
    snapshot: Snapshotted | None


class Snapshotted(Record, frozen=True, tag="Snapshotted"):
    """The state machine after all below `position`, with what the total order needs to go on from there."""

    position: int
    highest: tuple[Label, ...]
    state: bytes


class Truncated(Record, frozen=True, tag="Truncated"):
    """Positions below `base` are dropped from the order and the content."""

    base: int


Records = Boot | Epoch | Primaries | Labelled | Appended | Rebuilt | Snapshotted | Truncated


class Image:
    """What a disk holds after the records written to it. The plainest implementation, and the reference for others."""

    __slots__ = ("act", "amb", "boot", "epoch", "high_primary", "labelled", "log", "next_confirm", "snapshot")

    def __init__(self) -> None:
        self.boot = 0
        self.epoch = 0
        self.act: View | None = None
        self.amb: tuple[View, ...] = ()
        self.labelled: dict[Label, Run] = {}  # mine, in no order yet, by first label
        self.log = RunLog()
        self.high_primary: ViewId | None = None
        self.next_confirm = 0
        self.snapshot: Snapshotted | None = None

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
            case _:
                raise TypeError(f"no record of the list: {record!r}")


def founding_image(founder: ProcessId) -> Image:
    """The disk of a process that founds a group: it was alone in v_0, and registered it. Made once for a group."""
    image = Image()
    image.act = founding_view(founder)
    image.high_primary = image.act.id
    return image
