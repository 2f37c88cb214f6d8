"""Cluster membership: connects the QoS engine to its replication group and follows the group's primary views.

A node founds a cluster only with ``--bootstrap`` and without a group on its disk. Otherwise it joins: it tries for as
long as it takes, and never founds. In both cases it serves at once, and decides alone until it is in a primary view.
Between two primary views there is a short time without any. Only when that lasts longer than ALONE_AFTER_S the node
decides alone; until then waiting requests keep waiting. It also decides alone while its disk is full.
Above: `qosweb.admission.engine_driver`. Replicated: `node_state_machine`.
Below: `cluster.Replica`, which restarts under a new process id if its state ever differs from that of the others.
"""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

from cluster import (
    AlreadyFounded,
    BadKey,
    Bounds,
    Dialect,
    Full,
    MemberStops,
    NotDelivered,
    Options,
    Replica,
    StoreError,
    read_key_file,
)
from cluster.runtime.bulk.master_machine import MasterMachine
from cluster.runtime.bulk.order import SharedOrder
from cluster.runtime.disk.database_file import FILE, read_identity
from qosweb.engine.replicated.entries import FORMAT
from qosweb.errors import UsageError
from qosweb.server.cluster.node_state_machine import MULTICAST, RELEASES, NodeStateMachine
from qosweb.server.process.console import log_message
from qosweb.units import Address
from qosweb.webqos.model.model import LANGUAGE

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from cluster import Delivered, Group, InterimService, ProcessId, Reports, View
    from qosweb.admission.engine_driver import EngineDriver
    from qosweb.engine.replicated.entries import NodeBatch
    from qosweb.releases.ledger import ReleaseLedger
    from qosweb.settings import ServeSettings

CLUSTER = "qosweb"
GROUP = Address("127.0.0.1", 8082)
LEAVE_S = 3.0
ALONE_AFTER_S = 0.25
ENTRY_LEN_MAX = 8 << 20  # bytes: the largest policy, and the rest of a node's batch
POLICY_LEN_MAX = 6 << 20
GROUP_FOLDER = "group"  # the folder of the group's disk, within --data-dir


class ClusterMembership:
    """This node's place in its group. ``primary_changed`` gets each primary view, and None when alone."""

    def __init__(
        self,
        replica: Replica,
        driver: EngineDriver,
        primary_changed: Callable[[View | None], None],
        transport: MasterMachine,
    ) -> None:
        self.replica = replica
        self.transport = transport  # the master of the multicast transport
        self.transport_order = SharedOrder(replica, MULTICAST)
        self._driver = driver
        self._primary_changed = primary_changed
        self._alone_timer: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self._is_disk_full = False
        driver.engine.take_name(replica.me)
        driver.join_group(self._broadcast)
        if replica.primary is not None:
            self._enter(replica.primary)
        replica.on_primary(self._follow)
        self._chores = [self._loop.create_task(self._report_stop(), name="membership")]
        if replica.options.data is not None:
            self._chores.append(self._loop.create_task(self._follow_disk(), name="disk"))

    @property
    def error(self) -> BaseException | None:
        """Why this node is no longer a member; None while it is one."""
        return self.replica.error

    @property
    def is_catching_up(self) -> bool:
        """Whether state transfer is under way: the node is in a primary view and lacks the group's state."""
        return self.group.is_catching_up

    @property
    def is_disk_full(self) -> bool:
        """Whether writes to the group's disk fail. Such a member neither sends nor delivers, nor changes its view."""
        return self._is_disk_full

    async def _follow_disk(self) -> None:
        while True:
            await asyncio.sleep(ALONE_AFTER_S)
            before, self._is_disk_full = self._is_disk_full, self.group.driver.write_failing
            if self._is_disk_full != before:
                self._enter(None if self._is_disk_full else self.replica.primary)

    async def _report_stop(self) -> None:
        async for _ in self.replica.views():
            pass
        if self.replica.error is not None:
            log_message(
                "this node has left its cluster after an error and now decides alone; restart it to rejoin: "
                f"{self.replica.error}"
            )

    @property
    def group(self) -> Group:
        return self.replica.group

    @classmethod
    async def begin(
        cls,
        settings: ServeSettings,
        name: str,
        driver: EngineDriver,
        primary_changed: Callable[[View | None], None],
        ledger: ReleaseLedger,
        interim: InterimService | None = None,
        reports: Reports | None = None,
    ) -> ClusterMembership:
        """Found or join the cluster that ``settings`` describe. Raises UsageError if that is impossible.

        ``ledger``: the releases of the site. ``interim``: the service that shares what every side of a partition may
        change. ``reports``: the broadcast of values that the next value makes obsolete.
        """
        try:
            options = _options(settings, name)
            has_disk = options.data is not None and (options.data / FILE).exists()
            begin = Replica.found if settings.bootstrap and not has_disk else Replica.join
            transport = MasterMachine(options.cluster)
            machine = NodeStateMachine(driver, ledger, transport)
            replica = await begin(options, machine, interim=interim, reports=reports)
        except (AlreadyFounded, BadKey, MemberStops, StoreError, ValueError) as error:
            raise UsageError(str(error)) from None
        except OSError as error:
            raise UsageError(f"--group {settings.group or ''}: {error.strerror or error}") from None
        return cls(replica, driver, primary_changed, transport)

    # ---- for the release service

    @property
    def primary(self) -> View | None:
        return None if self._is_disk_full else self.replica.primary

    @property
    def me(self) -> ProcessId:
        return self.replica.me

    async def submit_release(self, body: bytes) -> object:
        return await self.replica.submit(RELEASES + body)

    def follow_policy(self) -> None:
        """Admit only members that can read the language version of the cluster's policy."""
        self.group.need(self._driver.engine.replicated.policy.language)

    async def leave(self) -> None:
        await self.replica.leave(LEAVE_S)
        self._end()

    async def close(self) -> None:
        await self.replica.close()
        self._end()

    def _end(self) -> None:
        self._driver.leave_group()
        for chore in self._chores:
            chore.cancel()
        if self._alone_timer is not None:
            self._alone_timer.cancel()

    def _broadcast(self, body: bytes, batch: NodeBatch) -> bool:
        engine, driver = self._driver.engine, self._driver

        def ended(end: Delivered) -> None:
            engine.batch_ended(batch, delivered=end.delivered)
            driver.applied()

        try:
            self.replica.submit_nowait(body, ended)
        except (Full, NotDelivered, ValueError):
            return False
        return True

    def _follow(self, view: View | None) -> None:
        """The group calls this from within its own work: reactions run in a later turn of the event loop."""
        if self._alone_timer is not None:
            self._alone_timer.cancel()
            self._alone_timer = None
        if view is None:
            self._alone_timer = self._loop.call_later(ALONE_AFTER_S, self._enter, None)
        else:
            self._loop.call_soon(self._enter, view)

    def _enter(self, view: View | None) -> None:
        """Decide together in the primary view ``view``, or alone if it is None."""
        engine = self._driver.engine
        engine.now_ms = self._driver.now_ms()
        was_alone = engine.solo is not None
        if view is not None and (view != self.replica.primary or self._is_disk_full):
            return  # the view is over already, or the full disk keeps this node out of it
        if view is not None:
            if engine.me != self.replica.me:
                engine.take_name(self.replica.me)
            engine.enter_primary_view()
            self.follow_policy()
        else:
            engine.leave_primary_view()
        if view is not None or not was_alone:
            self._primary_changed(view)
        self._driver.applied()


def _options(settings: ServeSettings, name: str) -> Options:
    assert settings.key_file is not None
    listen = settings.group or (_towards(settings.join[0]) if settings.join else GROUP)
    data = None if settings.data_dir is None else settings.data_dir / GROUP_FOLDER
    return Options(
        name=name,
        key=read_key_file(settings.key_file),
        listen=(str(listen),),
        cluster=settings.cluster_id or _cluster_on_disk(data) or CLUSTER,
        contacts=tuple(map(str, settings.join)),
        data=data,
        order_log=settings.order_log,
        dialect=Dialect(FORMAT, LANGUAGE),
        bounds=Bounds(entry_len_max=ENTRY_LEN_MAX, outstanding_bytes_max=2 * ENTRY_LEN_MAX),
    )


def _cluster_on_disk(data: Path | None) -> str:
    """The cluster id that the disk has; a recovery changes it. Empty if there is no disk."""
    return read_identity(data).cluster_id if data is not None and (data / FILE).exists() else ""


def _towards(contact: Address) -> Address:
    """Port 0 on the local address from which this host reaches ``contact``."""
    try:
        family, kind, protocol, _, name = socket.getaddrinfo(contact.host, contact.port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(name)  # sends nothing
            return Address(probe.getsockname()[0], 0)
    except OSError as error:
        raise UsageError(f"--join {contact}: {error.strerror or error}") from None
