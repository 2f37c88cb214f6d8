"""The total order in which the transport's master is replicated: a group of its own, or one that it shares.

A group with another state machine can carry the master as well: that machine passes the entries of the transport to a
`MasterMachine`, and `SharedOrder` marks them with a prefix by which it knows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId, View
    from cluster.runtime.api.replica import Replica


class SharedOrder:
    """The order of a replica, of which the transport uses the entries with `prefix`.

    One transport at a time: each call of `follow` replaces the one before.
    """

    def __init__(self, replica: Replica, prefix: bytes = b"") -> None:
        self.replica = replica
        self._prefix = prefix
        self._on_primary: Callable[[View | None], None] | None = None
        replica.on_primary(self._changed)

    @property
    def me(self) -> ProcessId:
        return self.replica.me

    @property
    def address(self) -> str:
        return self.replica.addresses[0]

    def address_of(self, name: str) -> str | None:
        addresses = self.replica.group.driver.transport.book[name]
        return addresses[0] if addresses else None

    def submit(self, entry: bytes) -> None:
        """Raises Full, NotDelivered."""
        self.replica.submit_nowait(self._prefix + entry)

    def follow(self, on_primary: Callable[[View | None], None] | None) -> None:
        """Call `on_primary` with the present primary view, if there is one, and at each change. None: no more."""
        self._on_primary = on_primary
        if self.replica.primary is not None:
            self._changed(self.replica.primary)

    def _changed(self, view: View | None) -> None:
        if self._on_primary is not None:
            self._on_primary(view)
