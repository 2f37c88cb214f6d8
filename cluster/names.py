"""Identifiers shared by all layers: processes, views and entry labels.

Papers: views and their start-change ids, Khazan's thesis, ch. 4; labels, De Prisco et al., PODC 1998, section 6.
Departs: a view id is (epoch, digest of the view's contents), so two views with the same id are the same view (invariant
3.1) without any agreement on ids. Ids are totally ordered, which is more than the thesis requires.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import NamedTuple

import msgspec

NAME_LEN_MAX = 64  # characters in the name of a process


class ProcessId(NamedTuple):
    """A process: a name and an incarnation. A process that keeps its disk keeps its incarnation."""

    name: str
    incarnation: int = 0

    def __str__(self) -> str:
        return f"{self.name}.{self.incarnation}" if self.incarnation else self.name


class ViewId(NamedTuple):
    epoch: int
    digest: str

    def __str__(self) -> str:
        return f"{self.epoch}:{self.digest[:4]}"


class View(msgspec.Struct, frozen=True, array_like=True):
    """A triple (id, set, startId): members in rank order, and the start-change id of each."""

    id: ViewId
    members: tuple[ProcessId, ...]
    start_ids: tuple[int, ...]

    def start_id(self, member: ProcessId) -> int:
        """startId(p) of the thesis."""
        return self.start_ids[self.members.index(member)]

    def __str__(self) -> str:
        return f"<{self.id} {' '.join(map(str, self.members))}>"


class Label(NamedTuple):
    """The system-wide name of an entry, in label order: the view it was labelled in, its number there, its origin."""

    view_id: ViewId
    seqno: int
    origin: ProcessId

    def __str__(self) -> str:
        return f"{self.view_id}/{self.seqno}@{self.origin}"


NOBODY = ProcessId("", 0)  # the origin of entries that all members add alike, such as a change of the primary view


def make_view(epoch: int, start_ids: dict[ProcessId, int]) -> View:
    """The view that these members form in this epoch. A pure function: all members compute the same view."""
    members = tuple(sorted(start_ids))
    numbers = tuple(start_ids[member] for member in members)
    text = "\n".join(f"{m.name}\t{m.incarnation}\t{n}" for m, n in zip(members, numbers, strict=True))
    digest = blake2b(f"{epoch}\n{text}".encode(), digest_size=8).hexdigest()
    return View(ViewId(epoch, digest), members, numbers)


def initial_view(process: ProcessId) -> View:
    """v_p of the thesis: the view of a process before it was given any (epoch 0, alone)."""
    return make_view(0, {process: 0})


def founding_view(process: ProcessId) -> View:
    """v_0 of DVS: the first primary view, made once, by the process that founds the group."""
    return initial_view(process)
