"""Interface of the object that the interim-atomic service replicates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from cluster.names import ProcessId


class SharedObject(Protocol):
    """The object of one replica. Deterministic, except for time limits that each replica counts by its own clock.

    All states and operations are bytes, which come from other processes too. No method may raise an exception because
    of them: an operation that is malformed has a result that says so, at every replica alike.
    """

    def apply(self, origin: ProcessId, body: bytes, age: float) -> object:
        """Apply an operation and return its result. `age`: seconds since it was first applied here (0: now)."""

    def snapshot(self) -> bytes:
        """The state, for other replicas and for the disk. Time limits are in it as the time that remains."""

    def restore(self, state: bytes, age: float) -> None:
        """Replace the state by a snapshot that was made `age` seconds ago."""

    def merge(self, states: Sequence[bytes]) -> None:
        """Replace the state by the merge of these snapshots, of which one is of this replica.

        The merge of equal states is that state. The order of the snapshots must not matter.
        """

    def digest(self) -> str:
        """The same for equal states, whatever time remains. Compared between replicas."""
