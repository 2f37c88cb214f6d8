"""Limits how many forwarded requests of one client run at a time. The others wait, first come, first served."""

from __future__ import annotations

import asyncio

from qosweb.server.connection.client_share import client_key


class ClientTurns:
    """The turns of all clients. Needs a running event loop."""

    def __init__(self, per_client_max: int, patience_s: float) -> None:
        self._per_client_max = per_client_max
        self._patience_s = patience_s
        self._turns: dict[str, asyncio.Semaphore] = {}
        self._users: dict[str, int] = {}  # requests of a client that have a turn or wait for one

    async def take(self, client: str) -> None:
        """Wait for a turn. Raises TimeoutError if that takes too long."""
        key = client_key(client)
        turns = self._turns.setdefault(key, asyncio.Semaphore(self._per_client_max))
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with asyncio.timeout(self._patience_s):
                await turns.acquire()
        except BaseException:  # also if it is cancelled
            self._forget(key)
            raise

    def give_back(self, client: str) -> None:
        key = client_key(client)
        self._turns[key].release()
        self._forget(key)

    def _forget(self, key: str) -> None:
        self._users[key] -= 1
        if not self._users[key]:
            del self._users[key], self._turns[key]
