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
    from cluster.runtime.net.transport import Transport

REPORT_AFTER_S = 0.7  # a contact that is not reached is reported on standard error after this time,
REPORT_EVERY_S = 60.0  # and again,
REPORT_ALONE_EVERY_S = 10.0  # more often while there is no connection to any other process

log = logging.getLogger("cluster.transport")


class DialTask:
    """One destination to dial: a contact address or a process name."""

    __slots__ = ("attempts", "began_at", "contact", "name", "problem", "report", "task")

    def __init__(self, *, contact: str = "", name: str = "") -> None:
        self.contact = contact
        self.name = name  # name of the process at the contact address, once known
        self.attempts = 0
        self.began_at = asyncio.get_running_loop().time()
        self.problem = ""  # why the last attempt failed
        self.report: asyncio.TimerHandle | None = None
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
            if dial.contact:
                self._report_later(dial, REPORT_AFTER_S)

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
            if dial.report is not None:
                dial.report.cancel()
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
                dial.problem = problem or str(connection.reason or "the connection was closed")
                if connection.refused_by and transport.of_name(connection.refused_by) is None:
                    log.warning("cannot join through %s: %s", dial.contact, dial.problem)
            dial.name = connection.peer.name if connection.identity is not None else connection.refused_by

    def _report(self, dial: DialTask) -> None:
        """Warn that a contact is not reached, and why. Repeat it for as long as that lasts."""
        assert dial.task is not None
        if self._closing or dial.task.done() or self._is_done(dial):
            return
        log.warning("cannot join through %s: %s", dial.contact, dial.problem or "no answer yet")
        self._report_later(dial, REPORT_EVERY_S if self._transport.connections else REPORT_ALONE_EVERY_S)

    def _report_later(self, dial: DialTask, after_s: float) -> None:
        dial.report = asyncio.get_running_loop().call_later(after_s, self._report, dial)
