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

LOG_AFTER_S = 2.0
LOG_EVERY_S = 60.0

log = logging.getLogger("cluster.transport")


class DialTask:
    """One destination to dial: a contact address or a process name."""

    __slots__ = ("attempts", "began_at", "contact", "logged_at", "name", "task")

    def __init__(self, *, contact: str = "", name: str = "") -> None:
        self.contact = contact
        self.name = name  # name of the process at the contact address, once known
        self.attempts = 0
        self.began_at = self.logged_at = asyncio.get_running_loop().time()
        self.task: asyncio.Task[None] | None = None


class Dialer:
    """Runs the dial tasks of a transport."""

    __slots__ = ("_closing", "_dials", "_transport")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._dials: dict[str, DialTask] = {}  # by "contact address" or "name name"
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
        """The process is connected: reset the backoff of its dial task, which ends by itself."""
        dial = self._dials.get("name " + name)
        if dial is not None:
            dial.attempts = 0

    def stop(self) -> None:
        self._closing = True

    async def close(self) -> None:
        self.stop()
        tasks = [dial.task for dial in self._dials.values() if dial.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, key: str, dial: DialTask) -> None:
        if not self._closing and key not in self._dials and len(self._dials) < 2 * ADDRESSES_MAX:
            self._dials[key] = dial
            dial.task = asyncio.get_running_loop().create_task(self._run(key, dial))

    async def _run(self, key: str, dial: DialTask) -> None:
        transport, bounds = self._transport, self._transport.options.bounds
        try:
            while not self._closing and not self._is_done(dial):
                if self._is_given_up(dial):
                    transport.forget(dial.name)
                    return
                if dial.attempts or dial.name > transport.me.name:
                    pause = min(bounds.backoff_min_s * 2 ** min(dial.attempts, 16), bounds.backoff_max_s)
                    await asyncio.sleep(pause * (0.5 + random.random()))
                    if self._is_done(dial):
                        return
                addresses = (dial.contact,) if dial.contact else transport.book[dial.name]
                if addresses:
                    await self._attempt(dial, addresses[dial.attempts % len(addresses)])
                dial.attempts += 1
        finally:
            if self._dials.get(key) is dial:
                del self._dials[key]
            if dial.name and not self._closing and transport.of_name(dial.name) is None:
                self.process(dial.name)

    def _is_done(self, dial: DialTask) -> bool:
        """Whether the process is connected, or the contact is identified and has its own task by name."""
        if dial.name and (dial.contact or self._transport.of_name(dial.name) is not None):
            return True
        return not dial.contact and not self._transport.book[dial.name]

    def _is_given_up(self, dial: DialTask) -> bool:
        """Whether the group does not need the process and it was unreachable for `forget_s`."""
        if dial.contact or asyncio.get_running_loop().time() - dial.began_at < self._transport.options.bounds.forget_s:
            return False
        return not self._transport.listener.is_needed(dial.name)

    async def _attempt(self, dial: DialTask, address: str) -> None:
        transport = self._transport
        options, loop = transport.options, asyncio.get_running_loop()
        host, port = parse_address(address)
        tls = options.tls.client if options.tls else None
        connection = transport.make(we_dialed=True, blind=bool(dial.contact))
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
        if dial.contact:
            if connection.identity is None:
                self._log_failure(dial, connection, problem or str(connection.reason or "the connection was closed"))
            dial.name = connection.peer.name if connection.identity is not None else connection.refused_by

    def _log_failure(self, dial: DialTask, connection: PeerConnection, problem: str) -> None:
        """Log why a contact refuses this process: a refusal at once, other failures soon, then at intervals."""
        now = asyncio.get_running_loop().time()
        pause_s = LOG_AFTER_S if dial.logged_at == dial.began_at else LOG_EVERY_S
        if refused_by := connection.refused_by:
            pause_s = 0.0 if self._transport.of_name(refused_by) is None else LOG_EVERY_S
        if now - dial.logged_at >= pause_s:
            dial.logged_at = now
            log.warning("cannot join through %s: %s", dial.contact, problem)
