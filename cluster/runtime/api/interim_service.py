"""Interim service API: an object that every side of a partition may change, merged when the sides meet.

    service = InterimService(shared)                              # shared: a `SharedObject`
    group = await Group.join(options, machine, interim=service)   # or Replica, or found
    result = await service.request(b"operation")                  # the result of `shared.apply` at this member
    service.on_refresh(print)                                     # the members with which it now has a common state

An operation needs no primary view: it is applied at all members of the current view, however few they are. If the group
has a disk, operations and merged states are on it before they are answered, and a restarted member continues with them.
Below: driver.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from cluster.interim.replica import ST
from cluster.runtime.api.attached_service import AttachedService
from cluster.runtime.api.group import Full, InDoubt, NotDelivered

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.interim.shared_object import SharedObject
    from cluster.names import ProcessId

OUTSTANDING_MAX = 1024  # operations of this member without a response
OPERATION_BYTES_MAX = 1024 * 1024

log = logging.getLogger("cluster.interim")


class InterimService(AttachedService):
    """The interim service of one member. It belongs to the group (or replica) that it was passed to."""

    LOST = InDoubt

    def __init__(self, shared: SharedObject) -> None:
        super().__init__()
        self.shared = shared
        self.members: tuple[ProcessId, ...] = ()  # those with which it had a common state last
        self.refreshes = 0
        self._callbacks: list[Callable[[tuple[ProcessId, ...]], None]] = []

    # ---- operations

    async def request(self, body: bytes) -> object:
        """Apply an operation at all members of the current view. Returns the result of `apply` at this member.

        Raises `Full` if too many operations wait, `NotDelivered` if this member does not run, and `InDoubt` if it
        stops before the operation is applied here. An operation cannot be taken back: if the caller is cancelled, the
        operation is applied nevertheless.
        """
        driver = self._driver
        if driver is None:
            raise NotDelivered("this member does not run: the service is not attached to a group")
        if len(body) > OPERATION_BYTES_MAX:
            raise ValueError(f"the operation has {len(body)} bytes; at most {OPERATION_BYTES_MAX} are allowed")
        if len(self._waiting) >= OUTSTANDING_MAX:
            raise Full(f"{len(self._waiting)} operations of this member wait for their response")
        return await self.wait_for(driver.request(body))

    # ---- observation

    @property
    def is_merging(self) -> bool:
        """Whether this member waits for the states of others. Operations are applied when it has them."""
        replica = self._driver.process.interim if self._driver is not None else None
        return replica is not None and replica.mode == ST

    @property
    def hindered_by(self) -> tuple[ProcessId, ...]:
        """Members of the current view that do not have this service. While there are any, operations wait."""
        replica = self._driver.process.interim if self._driver is not None else None
        if replica is None:
            return ()
        return tuple(member for member in replica.myview.members if member in replica.incapable)

    @property
    def view(self) -> tuple[ProcessId, ...]:
        """The members of the current view, primary or not."""
        replica = self._driver.process.interim if self._driver is not None else None
        return replica.myview.members if replica is not None else ()

    def on_refresh(self, callback: Callable[[tuple[ProcessId, ...]], None]) -> None:
        """Call `callback` with the members of a view when this member has their common state.

        The callback runs inside the member. If it raises, the member stops; if it is slow, the member is slow.
        """
        self._callbacks.append(callback)

    # ---- for the driver

    def on_refreshed(self, members: tuple[ProcessId, ...]) -> None:
        self.members = members
        self.refreshes += 1
        log.info("common state of %s", " ".join(map(str, members)))
        for callback in self._callbacks:
            callback(members)
