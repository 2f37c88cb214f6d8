"""Calling peers until they are reached: with a pause that grows, and a part of it left to chance.

One errand for each address that was given as a contact, until it is known who lives there, and one for each process by
name that is not connected. One that is in no primary view that may still decide is not called for ever: it left, or was
lost for good, and if it comes back it calls. Those of the last primary views are: after a partition one side has to.
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
    __slots__ = ("attempts", "began_at", "contact", "name", "problem", "report", "task")

    def __init__(self, *, contact: str = "", name: str = "") -> None:
        self.contact = contact
        self.name = name  # of the process that lives there, once that is known
        self.attempts = 0
        self.began_at = asyncio.get_running_loop().time()
        self.problem = ""  # why the last attempt failed
        self.report: asyncio.TimerHandle | None = None
        self.task: asyncio.Task[None] | None = None


class Dialer:
    __slots__ = ("_closing", "_errands", "_transport")

    def __init__(self, transport: Transport) -> None:
        self._transport = transport
        self._errands: dict[str, DialTask] = {}  # by "contact address" or "name name"
        self._closing = False

    def contact(self, address: str) -> None:
        parse_address(address)
        self._begin("contact " + address, DialTask(contact=address))

    def process(self, name: str) -> None:
        """See that there is a connection to it, as soon as an address is known."""
        if self._transport.of_name(name) is None and self._transport.book[name]:
            self._begin("name " + name, DialTask(name=name))

    def reached(self, name: str) -> None:
        """There is a connection: what is still under way to it may end by itself."""
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
            if errand.contact:
                self._report_later(errand, REPORT_AFTER_S)

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
            if errand.report is not None:
                errand.report.cancel()
            if self._errands.get(key) is errand:
                del self._errands[key]
            if errand.name and not self._closing and transport.of_name(errand.name) is None:
                self.process(errand.name)

    def _is_done(self, errand: DialTask) -> bool:
        """Connected; or it is known by now who a contact is, and that one has an errand of its own."""
        if errand.name and (errand.contact or self._transport.of_name(errand.name) is not None):
            return True
        return not errand.contact and not self._transport.book[errand.name]

    def _is_in_vain(self, errand: DialTask) -> bool:
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
            log.debug("%s cannot be reached: %s", address, problem)
        finally:
            if connection.identity is None:
                connection.close()
        if errand.contact:
            if connection.identity is None:
                errand.problem = problem or str(connection.reason or "the connection was closed")
                if connection.refused_by and transport.of_name(connection.refused_by) is None:
                    log.warning("not let in at %s: %s", errand.contact, errand.problem)
            errand.name = connection.peer.name if connection.identity is not None else connection.refused_by

    def _report(self, errand: DialTask) -> None:
        """Warn that a contact is not reached, and why; repeat it for as long as that lasts."""
        assert errand.task is not None
        if self._closing or errand.task.done() or self._is_done(errand):
            return
        log.warning("not let in at %s: %s", errand.contact, errand.problem or "no answer yet")
        self._report_later(errand, REPORT_EVERY_S if self._transport.connections else REPORT_ALONE_EVERY_S)

    def _report_later(self, errand: DialTask, after_s: float) -> None:
        errand.report = asyncio.get_running_loop().call_later(after_s, self._report, errand)
