"""Release ledger: the replicated list of releases. A state machine over the total order; every node has a replica.

A release becomes current in three steps, each an entry of the order:

    ProposeRelease    a node has all files of a release; the other nodes fetch what they lack
    HoldRelease       a node has all files, complete and verified (or RefuseRelease: it cannot get them, and says why)
    ActivateRelease   all nodes switch; applied only if a majority of the primary view holds the release

Activations are numbered. The number of an activation only grows, also if an operator returns to an earlier release. It
is the index of the state that a client has seen (`last(c)` of the paper): a client never gets a page of an activation
with a smaller number than one it has seen.

Paper: Khazan, Fekete and Lynch, "Multicast Group Communication as a Base for a Load-Balancing Replicated Data Service"
(1998): updates only in a primary view and in one order, reads everywhere, each at a state not older than its client has
seen. Departs: the state is the site, and the reads are HTTP requests, which the nodes answer themselves.
Deterministic: times are in the entries. Bounded: PROPOSALS_MAX, IN_GRACE_MAX, and the `KeepRule` of each activation.
Above: `qosweb.server.releases.release_service`.  Below: the total order, through apply, snapshot and restore.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from cluster.names import ProcessId

PROPOSALS_MAX = 16
IN_GRACE_MAX = 100
TEXT_LEN_MAX = 500


class ProposeRelease(msgspec.Struct, frozen=True, array_like=True, tag="propose"):
    """The sender has all files of this release."""

    manifest: str
    files: int
    size: int
    at_s: int


class HoldRelease(msgspec.Struct, frozen=True, array_like=True, tag="hold"):
    """The sender has all files of this release, complete and verified."""

    manifest: str


class RefuseRelease(msgspec.Struct, frozen=True, array_like=True, tag="refuse"):
    """The sender cannot store this release."""

    manifest: str
    reason: str


class KeepRule(msgspec.Struct, frozen=True, array_like=True):
    """Which old releases remain."""

    count: int  # releases that are kept for a rollback
    age_s: int  # how long they are kept
    grace_s: int = 0  # also kept: all that were replaced less than this ago, for clients that began with them


class ActivateRelease(msgspec.Struct, frozen=True, array_like=True, tag="activate"):
    """Switch all nodes to this release: a proposed one, or one that was current before."""

    manifest: str
    message: str
    by: str
    at_s: int
    keep: KeepRule
    is_forced: bool = False  # although a node refused it


ReleaseEntry = ProposeRelease | HoldRelease | RefuseRelease | ActivateRelease


class Activation(msgspec.Struct, frozen=True, array_like=True):
    """A release while it is or was current."""

    number: int
    manifest: str
    message: str
    by: str
    at_s: int
    files: int
    size: int


class ProposedRelease(msgspec.Struct, array_like=True):
    """A release that nodes are fetching."""

    manifest: str
    files: int
    size: int
    at_s: int
    holders: list[str]  # process ids, in the order of their entries
    refusals: dict[str, str]  # reasons, by process id


class LedgerState(msgspec.Struct, array_like=True):
    """The replicated state, and its snapshot format."""

    activations: list[Activation]  # kept ones, oldest first; the last one is current
    proposals: dict[str, ProposedRelease]


class Refused(Exception):
    """An entry had no effect; the text says why. Returned as a result, not raised, by `ReleaseLedger.apply`."""


_encode = msgspec.msgpack.Encoder().encode
_decode_entry = msgspec.msgpack.Decoder(ReleaseEntry).decode
_decode_state = msgspec.msgpack.Decoder(LedgerState).decode


def encode_entry(entry: ReleaseEntry) -> bytes:
    return _encode(entry)


class ReleaseLedger:
    """One replica of the ledger. `on_change` is called after each change; it is not part of the state."""

    def __init__(self, members: Callable[[], Sequence[ProcessId]], on_change: Callable[[], None]) -> None:
        """`members`: those of the last primary view in the order, the same at all replicas."""
        self.state = LedgerState([], {})
        self._members = members
        self._on_change = on_change

    @property
    def current(self) -> Activation | None:
        return self.state.activations[-1] if self.state.activations else None

    @property
    def is_empty(self) -> bool:
        return not self.state.activations and not self.state.proposals

    def activation_of(self, manifest: str) -> Activation | None:
        """The last activation of a release that is still kept."""
        return next((one for one in reversed(self.state.activations) if one.manifest == manifest), None)

    def holders(self, manifest: str) -> list[ProcessId]:
        """Members of the primary view that hold a proposed release."""
        proposal = self.state.proposals.get(manifest)
        return [] if proposal is None else [one for one in self._members() if str(one) in proposal.holders]

    def refusals(self, manifest: str) -> dict[str, str]:
        """Members of the primary view that refused a proposed release, by name, with their reasons."""
        proposal = self.state.proposals.get(manifest)
        if proposal is None:
            return {}
        return {one.name: proposal.refusals[str(one)] for one in self._members() if str(one) in proposal.refusals}

    def is_held_by_majority(self, manifest: str) -> bool:
        return 2 * len(self.holders(manifest)) > len(self._members())

    # ---- the order

    def apply(self, origin: ProcessId, body: bytes) -> Activation | Refused | None:
        """Apply an entry. Returns the activation, a refusal, or None."""
        try:
            entry = _decode_entry(body)
        except msgspec.MsgspecError as error:
            return Refused(f"not an entry of the release ledger: {error}")
        result = self._apply(str(origin), entry)
        if not isinstance(result, Refused):
            self._on_change()
        return result

    def _apply(self, origin: str, entry: ReleaseEntry) -> Activation | Refused | None:
        proposals = self.state.proposals
        if isinstance(entry, ProposeRelease):
            proposals.pop(entry.manifest, None)
            while len(proposals) >= PROPOSALS_MAX:
                del proposals[next(iter(proposals))]
            proposals[entry.manifest] = ProposedRelease(
                entry.manifest, entry.files, entry.size, entry.at_s, [origin], {}
            )
            return None
        if isinstance(entry, ActivateRelease):
            return self._activate(entry)
        proposal = proposals.get(entry.manifest)
        if proposal is None:
            return Refused("this release is not proposed any more")
        if isinstance(entry, HoldRelease):
            proposal.refusals.pop(origin, None)
            if origin not in proposal.holders:
                proposal.holders.append(origin)
        else:
            proposal.refusals[origin] = entry.reason[:TEXT_LEN_MAX]
            if origin in proposal.holders:
                proposal.holders.remove(origin)
        return None

    def _activate(self, entry: ActivateRelease) -> Activation | Refused:
        proposal, before = self.state.proposals.get(entry.manifest), self.activation_of(entry.manifest)
        if proposal is not None:
            refusals = self.refusals(entry.manifest)
            if refusals and not entry.is_forced:
                return Refused(say_refusals(refusals))
            if not self.is_held_by_majority(entry.manifest):
                held, members = len(self.holders(entry.manifest)), len(self._members())
                return Refused(f"{held} of {members} nodes hold the release; a majority is needed")
            files, size = proposal.files, proposal.size
        elif before is not None:
            files, size = before.files, before.size
        else:
            return Refused("this release is neither proposed nor kept")
        current = self.current
        number = 1 if current is None else current.number + 1
        made = Activation(
            number, entry.manifest, entry.message[:TEXT_LEN_MAX], entry.by[:TEXT_LEN_MAX], entry.at_s, files, size
        )
        self.state.proposals.pop(entry.manifest, None)
        self.state.activations = [*self._kept([*self.state.activations, made], entry.keep), made]
        return made

    def _kept(self, activations: list[Activation], keep: KeepRule) -> list[Activation]:
        """The activations before the last that remain."""
        now_s, last = activations[-1].at_s, len(activations) - 1
        kept = []
        for at, (one, following) in enumerate(pairwise(activations)):
            is_for_rollback = at >= last - max(1, keep.count) and one.at_s >= now_s - keep.age_s
            is_in_grace = at >= last - IN_GRACE_MAX and following.at_s + keep.grace_s >= now_s
            if is_for_rollback or is_in_grace or at == last - 1:
                kept.append(one)
        return kept

    # ---- snapshots

    def snapshot(self) -> bytes:
        return _encode(self.state)

    def restore(self, state: bytes) -> None:
        """Take a snapshot; empty bytes are the empty ledger. Raises msgspec.DecodeError."""
        self.state = _decode_state(state) if state else LedgerState([], {})
        self._on_change()


def say_refusals(refusals: dict[str, str]) -> str:
    return "; ".join(f"node {name}: {reason}" for name, reason in refusals.items())
