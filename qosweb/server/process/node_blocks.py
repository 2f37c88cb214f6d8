"""Creates a node's block list from its settings, and tells the connections of its changes once per loop turn."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from qosweb.errors import UsageError
from qosweb.server.admin.browser_guard import host_name
from qosweb.server.cluster.block_file import BlockFile
from qosweb.server.cluster.block_service import BlockService
from qosweb.units import parse_address

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop
    from collections.abc import Callable

    from qosweb.server.process.node import Node


def block_service(node: Node) -> BlockService:
    """The block list of `node`. It does not block the cluster's nodes and trusted proxies without force.

    Raises UsageError if the stored list cannot be read.
    """
    settings = node.settings
    path = None if settings.data_dir is None or settings.is_member else settings.data_dir / "blocks"
    try:
        service = BlockService(
            node.name,
            is_member=settings.is_member,
            protected=lambda: protected_addresses(node),
            file=None if path is None else BlockFile(path),
        )
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(
            f"{path}: the block list cannot be read: {getattr(error, 'strerror', None) or error}"
        ) from None
    service.blocks.on_change = _Renewal(node.loop, node.connections.block_list_changed).soon
    return service


def protected_addresses(node: Node) -> dict[str, str]:
    """Addresses that are not blocked without force, and what each of them is."""
    found = {str(network): "trusted proxies" for network in node.settings.trust_proxy}
    if node.membership is None:
        return found
    for address in node.membership.group.driver.transport.book.addresses:
        found[parse_address(address).host] = "a node of the cluster"
    engine = node.admission.engine
    for pipe in () if engine is None else engine.machine.pipes.values():
        host = host_name(pipe.url.partition("://")[2])
        if host:
            found[host] = "a node of the cluster"
    return found


class _Renewal:
    """Calls `renew` once for all changes in one turn of the event loop."""

    def __init__(self, loop: AbstractEventLoop, renew: Callable[[], None]) -> None:
        self._loop = loop
        self._renew = renew
        self._is_due = False

    def soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._do)

    def _do(self) -> None:
        self._is_due = False
        self._renew()
