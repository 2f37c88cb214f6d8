"""Dials peers until they are connected, with exponential backoff and jitter.

There is one task for each contact address until its process is known, and one for each unconnected process by name. A
process that is in no primary view that may still decide is not dialed for ever: it left or was lost for good, and if it
comes back it dials. Members of the last primary views are dialed for ever: after a partition one side has to.
Above: transport.
"""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from typing import TYPE_CHECKING

from cluster.runtime.net.addresses import parse_address
from cluster.runtime.net.wire import ADDRESSES_MAX

if TYPE_CHECKING:
    from cluster.runtime.net.connection import PeerConnection
    from cluster.runtime.net.transport import Transport

COMPLAIN_AFTER_S = 2.0
COMPLAIN_EVERY_S = 60.0

log = logging.getLogger("cluster.transport")


class DialTask:
    """One destination to dial: a contact address or a process name."""

    __slots__ = ("attempts", "began_at", "contact", "name", "task", "told_at")

    def __init__(self, *, contact: str = "", name: str = "") -> None:
        self.contact = contact
        self.name = name  # name of the process at the contact address, once known
        self.attempts = 0
        self.began_at = self.told_at = asyncio.get_running_loop().time()
        self.task: asyncio.Task[None] | None = None


class Dialer:
    """Runs the dial tasks of a transport."""

    __slots__ = ("_closing", "_errands", "_transport")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._errands: dict[str, DialTask] = {}  # by "contact address" or "name name"
        self._closing = False

    def contact(self, address: str) -> None:
        """Dial this address until its process is known."""
        parse_address(address)
        self._begin("contact " + address, DialTask(contact=address))

    def process(self, name: str) -> None:
        """Keep dialing this process until it is connected, as soon as an address is known."""
        if self._transport.of_name(name) is None and self._transport.book[name]:
            self._begin("name " + name, DialTask(name=name))

    def reached(self, name: str) -> None:
        """The process is connected: its dial task may end."""
        errand = self._errands.get("name " + name)
        if errand is not None:
            errand.attempts = 0

    def stop(self) -> None:
        self._closing = True

    async def close(self) -> None:
        self.stop()
        tasks = [errand.task for errand in self._errands.values() if errand.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, key: str, errand: DialTask) -> None:
        if not self._closing and key not in self._errands and len(self._errands) < 2 * ADDRESSES_MAX:
            self._errands[key] = errand
            errand.task = asyncio.get_running_loop().create_task(self._run(key, errand))

    async def _run(self, key: str, errand: DialTask) -> None:
        transport, bounds = self._transport, self._transport.options.bounds
        try:
            while not self._closing and not self._is_done(errand):
                if self._is_in_vain(errand):
                    transport.forget(errand.name)
                    return
                if errand.attempts or errand.name > transport.me.name:
                    pause = min(bounds.backoff_min_s * 2 ** min(errand.attempts, 16), bounds.backoff_max_s)
                    await asyncio.sleep(pause * (0.5 + random.random()))
                    if self._is_done(errand):
                        return
                addresses = (errand.contact,) if errand.contact else transport.book[errand.name]
                if addresses:
                    await self._attempt(errand, addresses[errand.attempts % len(addresses)])
                errand.attempts += 1
        finally:
            if self._errands.get(key) is errand:
                del self._errands[key]
            if errand.name and not self._closing and transport.of_name(errand.name) is None:
                self.process(errand.name)

    def _is_done(self, errand: DialTask) -> bool:
        """Whether the process is connected, or the contact is identified and has its own task by name."""
        if errand.name and (errand.contact or self._transport.of_name(errand.name) is not None):
            return True
        return not errand.contact and not self._transport.book[errand.name]

    def _is_in_vain(self, errand: DialTask) -> bool:
        """Whether the group does not need the process and it was unreachable for `forget_s`."""
        if (
            errand.contact
            or asyncio.get_running_loop().time() - errand.began_at < self._transport.options.bounds.forget_s
        ):
            return False
        return not self._transport.listener.needs(errand.name)

    async def _attempt(self, errand: DialTask, address: str) -> None:
        transport = self._transport
        options, loop = transport.options, asyncio.get_running_loop()
        host, port = parse_address(address)
        tls = options.tls.client if options.tls else None
        connection = transport.make(we_dialed=True, blind=bool(errand.contact))
        transport.counters.dialed += 1
        problem = ""
        try:
            async with asyncio.timeout(options.bounds.dial_s):
                await loop.create_connection(
                    lambda: connection, host, port, ssl=tls, server_hostname=host if tls else None
                )
            await connection.done
        except (OSError, TimeoutError, ssl.SSLError) as error:
            problem = "no answer" if isinstance(error, TimeoutError) else getattr(error, "strerror", None) or str(error)
            log.debug("cannot reach %s: %s", address, problem)
        finally:
            if connection.identity is None:
                connection.close()
        if errand.contact:
            if connection.identity is None:
                self._complain(errand, connection, problem or str(connection.reason or "the connection was closed"))
            errand.name = connection.peer.name if connection.identity is not None else connection.refused_by

    def _complain(self, errand: DialTask, connection: PeerConnection, problem: str) -> None:
        """Log why a contact refuses this process: a refusal at once, other failures soon, then at intervals."""
        now = asyncio.get_running_loop().time()
        pause_s = COMPLAIN_AFTER_S if errand.told_at == errand.began_at else COMPLAIN_EVERY_S
        if refused_by := connection.refused_by:
            pause_s = 0.0 if self._transport.of_name(refused_by) is None else COMPLAIN_EVERY_S
        if now - errand.told_at >= pause_s:
            errand.told_at = now
            log.warning("cannot join through %s: %s", errand.contact, problem)
