"""The release service of a node: made from its settings, and connected with its cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from cluster import MulticastGroup
from qosweb.engine.replicated.compiled_policy import median_wall_ms
from qosweb.errors import UsageError
from qosweb.releases.ledger import ReleaseLedger
from qosweb.server.pacing.idle_capacity import IdleCapacity
from qosweb.server.releases.release_multicast import ReleaseMulticast
from qosweb.server.releases.release_service import ReleaseService

if TYPE_CHECKING:
    from collections.abc import Callable

    from cluster.names import ProcessId
    from qosweb.admission import AdmissionControl
    from qosweb.server.cluster.membership import ClusterMembership
    from qosweb.server.pacing.send_pacer import SendPacer
    from qosweb.settings import ServeSettings


class NodeReleases:
    """The release service of a node with `--site`. Every node of a cluster has a replica of the ledger."""

    def __init__(
        self,
        settings: ServeSettings,
        name: str,
        admission: AdmissionControl,
        pacer: SendPacer | None,
        on_switch: Callable[[], None],
    ) -> None:
        """`on_switch` is called when another release is current here. Raises UsageError."""
        self._admission = admission
        self._capacity_bps = settings.capacity
        self._multicast_group: MulticastGroup | None = None
        self.service: ReleaseService | None = None
        if not settings.site:
            return
        assert settings.data_dir is not None
        if settings.multicast:
            try:
                self._multicast_group = MulticastGroup.parse(settings.multicast)
            except ValueError as error:
                raise UsageError(f"--multicast {settings.multicast}: {error}") from None
        try:
            self.service = ReleaseService(
                settings.data_dir / "site",
                name,
                grace_s=settings.release_grace,
                keep_count=settings.release_keep,
                keep_s=settings.release_keep_age,
                size_max=settings.site_max_size,
                is_secure=settings.tls_cert is not None,
                on_switch=on_switch,
                members=self._view_members if settings.is_member else None,
                take_capacity=IdleCapacity(pacer, self._is_busy, time.monotonic).take,
                wall_s=self._wall_s,
            )
        except OSError as error:
            raise UsageError(f"--data-dir {settings.data_dir}: {error.strerror}") from None

    def ledger(self) -> ReleaseLedger:
        """The replica that the node's cluster membership keeps; a node that does not serve releases has one, too."""
        return ReleaseLedger(self._view_members, _nothing) if self.service is None else self.service.ledger

    def join(self, membership: ClusterMembership) -> None:
        if self.service is None:
            return
        self.service.join(membership, membership.replica.options.key, self._peer_urls)
        if self._multicast_group is not None:
            self.service.multicast = ReleaseMulticast(
                membership, self._multicast_group, self.service.blobs, self._capacity_bps
            )

    def start(self) -> None:
        if self.service is not None:
            self.service.start()

    async def leave(self) -> None:
        """Leave the multicast transport; the node is still a member of its cluster."""
        if self.service is not None and self.service.multicast is not None:
            await self.service.multicast.close()
            self.service.multicast = None

    def close(self) -> None:
        if self.service is not None:
            self.service.close()

    def _view_members(self) -> tuple[ProcessId, ...]:
        engine = self._admission.engine
        view = None if engine is None else engine.replicated.view
        return () if view is None else view.members

    def _wall_s(self) -> float:
        """The wall clock of the cluster: the median of those of its nodes."""
        engine, own_ms = self._admission.engine, self._admission.wall_ms()
        reported = [] if engine is None else [one for one in engine.replicated.pipes.values() if one.capacity_bps]
        if own_ms is None or not reported:
            return time.time()
        return time.time() - (own_ms - median_wall_ms(reported)) / 1000

    def _is_busy(self) -> bool:
        """Whether requests of clients wait."""
        engine = self._admission.engine
        return engine is not None and bool(engine.machine.scheduler.waiting())

    def _peer_urls(self) -> list[str]:
        """Addresses of the other nodes."""
        engine = self._admission.engine
        assert engine is not None
        return [pipe.url for pid, pipe in engine.replicated.pipes.items() if pid != engine.me and pipe.url]


def _nothing() -> None:
    pass
