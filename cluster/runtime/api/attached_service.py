"""Base of services beside the total order: belongs to a running group, and holds the callers that wait for a result."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

from cluster.runtime.api.group import NotDelivered

if TYPE_CHECKING:
    from cluster.runtime.driver import Driver


class AttachedService:
    """A service of one member. It belongs to the group (or replica) that it was passed to."""

    LOST: ClassVar[type[Exception]] = NotDelivered  # what callers get that still wait when the member stops

    def __init__(self) -> None:
        self._driver: Driver | None = None
        self._waiting: dict[int, asyncio.Future[object]] = {}

    def attach(self, driver: Driver) -> None:
        if self._driver is not None:
            raise ValueError("this service already belongs to a running group")
        self._driver = driver

    def detach(self, driver: Driver, why: str) -> None:
        """The member has stopped."""
        if self._driver is not driver:
            return
        self._driver = None
        waiting, self._waiting = self._waiting, {}
        for response in waiting.values():
            if not response.done():
                response.set_exception(self.LOST(why))
                response.exception()  # mark the exception as retrieved

    def wait_for(self, ticket: int) -> asyncio.Future[object]:
        """The result of the request with this ticket; 0: the member has stopped."""
        if not ticket:
            raise NotDelivered("this member has stopped")
        response: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = response
        return response

    def on_answered(self, ticket: int, result: object) -> None:
        response = self._waiting.pop(ticket, None)
        if response is not None and not response.done():
            response.set_result(result)
